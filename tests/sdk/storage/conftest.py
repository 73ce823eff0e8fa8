"""Backends under one roof, so that every test of the port runs over all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from millpond.storage import (
    BlockNotFoundError,
    BlockTamperedError,
    EmbeddedStore,
    HttpSource,
    LayeredStore,
    MemoryStore,
    check_block,
    parse_cid,
)
from millpond.storage.embedded import EmbeddedCore

MIB = 1024 * 1024


class Clock:
    """Unix time that moves only when told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class BlockServer:
    """What a node serves at `/v1/blocks/{cid}`; `altered` holds the lies it tells."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(64 * MIB))
    altered: dict[str, bytes] = field(default_factory=dict)
    status: int = 0
    requests: list[str] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/blocks/{cid}", self.answer, methods=["GET", "HEAD", "PUT"])])

    async def answer(self, request: Request) -> Response:
        cid = parse_cid(request.path_params["cid"])
        self.requests.append(f"{request.method} {cid}")
        if self.status:
            return Response(status_code=self.status)
        if request.method == "PUT":
            return await self.accept(cid, await request.body())
        if cid in self.altered:
            return Response(self.altered[cid])
        try:
            return Response(await self.store.get(cid))
        except BlockNotFoundError:
            return Response(status_code=404)

    async def accept(self, cid: Any, body: bytes) -> Response:
        try:
            await self.store.put(check_block(cid, body))
        except BlockTamperedError:
            return Response(status_code=422)
        return Response(status_code=201)

    def source(self, name: str = "node", timeout_seconds: float = 5.0) -> HttpSource:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://node.test")
        return HttpSource(client, name=name, timeout_seconds=timeout_seconds, owns=True)


@dataclass
class Backend:
    """A store and a way to damage a block behind its back."""

    store: Any
    tamper: Callable[[str, bytes], None] | None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> BlockServer:
    return BlockServer()


def embedded_backend(root: Path, clock: Clock) -> Backend:
    core = EmbeddedCore(root, max_bytes=64 * MIB, clock=clock)
    return Backend(EmbeddedStore(core), lambda cid, data: void(core.path_of(parse_cid(cid)).write_bytes(data)))


def void(_: object) -> None:
    return None


def make_backend(kind: str, root: Path, clock: Clock, server: BlockServer) -> Backend:
    if kind == "memory":
        return Backend(MemoryStore(64 * MIB, clock), None)
    if kind == "http":
        return Backend(server.source(), server.altered.__setitem__)
    embedded = embedded_backend(root, clock)
    if kind == "layered":
        return Backend(LayeredStore(embedded.store, [server.source()]), embedded.tamper)
    return embedded


@pytest.fixture(params=["memory", "embedded", "layered", "http"])
async def sink(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, server: BlockServer
) -> AsyncIterator[Backend]:
    """Everything that takes and gives blocks."""
    backend = make_backend(request.param, tmp_path / "store", clock, server)
    yield backend
    await backend.store.aclose()


@pytest.fixture(params=["memory", "embedded", "layered"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, server: BlockServer
) -> AsyncIterator[Any]:
    """Full stores."""
    backend = make_backend(request.param, tmp_path / "store", clock, server)
    yield backend.store
    await backend.store.aclose()


@pytest.fixture(params=["embedded", "layered", "http"])
async def tamperable(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, server: BlockServer
) -> AsyncIterator[Backend]:
    """Backends whose bytes lie outside this process."""
    backend = make_backend(request.param, tmp_path / "store", clock, server)
    yield backend
    await backend.store.aclose()


@pytest.fixture
async def embedded(tmp_path: Path, clock: Clock) -> AsyncIterator[EmbeddedStore]:
    store = embedded_backend(tmp_path / "store", clock).store
    yield store
    await store.aclose()


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(64 * MIB)
