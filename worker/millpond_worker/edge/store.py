"""The data plane of tasks: blocks of the node's `/v1/blocks`, signed requests, every block verified, a memory tier per lease."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

import httpx
from anyio import to_thread

from millpond.protocol.envelope import seal
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signing import Domain
from millpond.storage.blocks import MAX_BLOCK_BYTES
from millpond.storage.budget import Budget
from millpond.storage.cid import parse_cid
from millpond.storage.errors import SourceError, StoreAccessError
from millpond.storage.files import add_bytes, add_directory, export_file, read_bytes
from millpond.storage.http import HttpSource
from millpond.storage.layered import LayeredStore
from millpond.storage.memory import MemoryStore
from millpond_worker.ports import Clock, NodeRef

TIER_BYTES = 64 << 20
MAX_SECONDS = 3600.0


class EnvelopeAuth(httpx.Auth):
    """Signs each request as the operator."""

    requires_request_body = True

    def __init__(self, key: bytes, domain: Domain, audience: Address, clock: Clock) -> None:
        self._key, self._domain, self._audience, self._clock = key, domain, audience, clock

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        path = request.url.raw_path.decode("ascii")
        nonce = secrets.randbits(256)
        request.headers.update(
            seal(
                self._key, self._domain, self._audience, request.method, path, request.content, nonce, self._clock.now()
            )
        )
        yield request


class NodeStore:
    """`Store` over the node's blocks. `scratch` holds folders while they are uploaded."""

    def __init__(self, key: bytes, domain: Domain, clock: Clock, scratch: Path) -> None:
        self._key, self._domain, self._clock, self._scratch = key, domain, clock, scratch
        self._node: NodeRef | None = None
        self._source: HttpSource | None = None
        self._retired: list[HttpSource] = []
        self._tiers: dict[Bytes32, MemoryStore] = {}

    def use(self, node: NodeRef) -> None:
        if node == self._node:
            return
        if self._source is not None:
            self._retired.append(self._source)
        auth = EnvelopeAuth(self._key, self._domain, node.address, self._clock)
        limits = httpx.Limits(max_connections=16, max_keepalive_connections=16)
        client = httpx.AsyncClient(
            base_url=node.url, auth=auth, timeout=30.0, follow_redirects=False, limits=limits, trust_env=False
        )
        self._node, self._source = node, HttpSource(client, owns=True)

    async def read(self, lease: Bytes32, cid: str, max_bytes: int) -> bytes:
        return await read_bytes(
            self._layers(lease), parse_cid(cid), budget=Budget(max_bytes=max_bytes, max_seconds=MAX_SECONDS)
        )

    async def export(self, lease: Bytes32, cid: str, target: Path, max_bytes: int) -> None:
        budget = Budget(max_bytes=max_bytes, max_seconds=MAX_SECONDS)
        await export_file(self._layers(lease), parse_cid(cid), target, budget=budget)

    async def put(self, data: bytes) -> str:
        return await add_bytes(self._connected(), data)

    async def put_folder(self, files: Mapping[str, Path]) -> str:
        sink = self._connected()
        folder = await to_thread.run_sync(self._gather, files)
        try:
            return await add_directory(sink, folder)
        finally:
            await to_thread.run_sync(shutil.rmtree, folder, True)

    def forget(self, lease: Bytes32) -> None:
        self._tiers.pop(lease, None)

    async def close(self) -> None:
        for source in (*self._retired, *([self._source] if self._source else [])):
            await source.aclose()
        self._source, self._retired = None, []

    def _layers(self, lease: Bytes32) -> LayeredStore:
        tier = self._tiers.setdefault(lease, MemoryStore(TIER_BYTES + MAX_BLOCK_BYTES))
        return LayeredStore(tier, [self._connected()])

    def _connected(self) -> HttpSource:
        if self._source is None:
            raise SourceError("there is no connection to a node yet", source="node")
        return self._source

    def _gather(self, files: Mapping[str, Path]) -> Path:
        """One folder of hard links (copies, where the disk differs) to the given files, by their names."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        for name, path in files.items():
            target = folder / name
            if not target.resolve().is_relative_to(folder.resolve()):
                raise StoreAccessError(f"the output {name!r} leaves its folder", name=name)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target, follow_symlinks=False)
            except OSError:
                shutil.copyfile(path, target, follow_symlinks=False)
        return folder
