"""The HTTP source beyond the port: a lying, slow, broken or endless server."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from millpond.storage import (
    BlockNotFoundError,
    BlockTamperedError,
    BlockTooLargeError,
    HttpSource,
    SourceError,
    StoreFullError,
    make_block,
)
from millpond.storage.http import GATEWAY_PATH

A = make_block(b"a" * 1000)


def source_of(handler: Any, timeout_seconds: float = 5.0) -> HttpSource:
    transport = httpx.MockTransport(handler)
    client = httpx.AsyncClient(transport=transport, base_url="http://node.test", follow_redirects=True)
    return HttpSource(client, timeout_seconds=timeout_seconds, owns=True)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, BlockNotFoundError),
        (410, BlockNotFoundError),
        (413, StoreFullError),
        (507, StoreFullError),
        (302, SourceError),
        (401, SourceError),
        (429, SourceError),
        (500, SourceError),
    ],
)
async def test_O16_status_becomes_a_typed_error(server: Any, status: int, error: type[Exception]) -> None:
    server.status = status
    for call in (server.source().get(A.cid), server.source().put(A)):
        with pytest.raises(error):
            await call


async def test_O16_unreachable_server_is_a_source_error() -> None:
    source = HttpSource.connect("http://127.0.0.1:9", timeout_seconds=2)
    with pytest.raises(SourceError) as caught:
        await source.get(A.cid)
    assert caught.value.fields["source"] == "node"
    await source.aclose()


async def test_O16_dripping_server_is_cut_off_at_the_whole_time() -> None:
    async def drip() -> AsyncIterator[bytes]:
        for _ in range(1000):
            await anyio.sleep(0.02)
            yield b"a"

    source = source_of(lambda _: httpx.Response(200, content=drip()), timeout_seconds=0.2)
    with anyio.fail_after(2):
        with pytest.raises(SourceError):
            await source.get(A.cid)


async def test_O18_endless_answer_is_cut_off_at_the_block_limit() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65536
            yield bytes(65536)

    with pytest.raises(BlockTooLargeError):
        await source_of(lambda _: httpx.Response(200, content=endless())).get(A.cid)
    assert sent < 3 * 1024 * 1024


async def test_O17_compressed_answer_is_not_inflated() -> None:
    async def packed() -> AsyncIterator[bytes]:
        yield gzip.compress(A.data)

    def handler(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-encoding": "gzip"}, content=packed())

    with pytest.raises(BlockTamperedError):
        await source_of(handler).get(A.cid)


async def test_A07_redirect_is_not_followed() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://169.254.169.254/latest"})

    with pytest.raises(SourceError):
        await source_of(handler).get(A.cid)
    assert asked == [f"http://node.test/v1/blocks/{A.cid}"]


async def test_get_from_a_gateway_asks_for_the_raw_block() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path.decode())
        return httpx.Response(200, stream=httpx.ByteStream(A.data))

    client = httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://gateway.test")
    assert await HttpSource(client, path=GATEWAY_PATH).get(A.cid) == A.data
    assert asked == [f"/ipfs/{A.cid}?format=raw"]


async def test_put_sends_the_raw_block_to_its_cid(server: Any) -> None:
    await server.source().put(A)
    assert server.requests == [f"PUT {A.cid}"]
    assert await server.store.get(A.cid) == A.data
