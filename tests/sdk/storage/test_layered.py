"""Fetch order and what happens when sources fail."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from millpond.storage import (
    BlockNotFoundError,
    BlockSource,
    Cid,
    LayeredStore,
    MemoryStore,
    SourceError,
    add_bytes,
    make_block,
    read_bytes,
)
from millpond.storage.unixfs import Layout

A = make_block(b"a" * 1000)


class Source:
    """A source that counts its calls and does as it is told."""

    def __init__(self, name: str, held: MemoryStore | None = None, delay: float = 0.0) -> None:
        self.name, self.calls = name, 0
        self._held, self._delay = held, delay

    async def get(self, cid: Cid) -> bytes:
        self.calls += 1
        await anyio.sleep(self._delay)
        if self._held is None:
            raise SourceError(f"{self.name} is down")
        return await self._held.get(cid)

    async def has(self, cid: Cid) -> bool:
        return False

    async def aclose(self) -> None:
        return None


async def full() -> MemoryStore:
    store = MemoryStore(10_000)
    await store.put(A)
    return store


def layered(*sources: BlockSource, room: int = 10_000, timeout: float = 5.0) -> LayeredStore:
    return LayeredStore(MemoryStore(room), sources, source_timeout_seconds=timeout)


async def test_get_asks_sources_in_order_and_keeps_the_block() -> None:
    empty, good, unasked = Source("peer", MemoryStore(1)), Source("node", await full()), Source("ipfs", await full())
    store = layered(empty, good, unasked)
    assert [await store.get(A.cid) for _ in range(2)] == [A.data] * 2
    assert (empty.calls, good.calls, unasked.calls) == (1, 1, 0)


async def test_O16_get_passes_over_a_source_that_is_down_or_slow() -> None:
    slow = Source("slow", await full(), delay=60)
    store = layered(Source("down"), slow, Source("good", await full()), timeout=0.05)
    assert await store.get(A.cid) == A.data


async def test_O17_get_passes_over_a_source_that_lies(server: Any) -> None:
    server.altered[A.cid] = b"b" * 1000
    store = layered(server.source("liar"), Source("good", await full()))
    assert await store.get(A.cid) == A.data
    assert await store.local.get(A.cid) == A.data


async def test_O17_get_heals_a_damaged_local_block(embedded: Any) -> None:
    await embedded.put(A)
    embedded.core.path_of(A.cid).write_bytes(b"damaged")
    store = LayeredStore(embedded, [Source("good", await full())])
    assert await store.get(A.cid) == A.data
    assert await embedded.get(A.cid) == A.data


async def test_O16_get_without_a_good_source_says_what_each_did() -> None:
    store = layered(Source("down"), Source("empty", MemoryStore(1)))
    with pytest.raises(BlockNotFoundError) as caught:
        await store.get(A.cid)
    assert set(caught.value.fields["sources"]) == {"memory", "down", "empty"}


async def test_get_at_once_by_many_is_one_fetch() -> None:
    source = Source("node", await full(), delay=0.05)
    store = layered(source)
    got: list[bytes] = []

    async def ask() -> None:
        got.append(await store.get(A.cid))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert (got, source.calls) == ([A.data] * 10, 1)


async def test_get_after_a_failed_fetch_by_many_fails_for_each() -> None:
    source = Source("down", delay=0.01)
    store = layered(source)
    errors: list[str] = []

    async def ask() -> None:
        try:
            await store.get(A.cid)
        except BlockNotFoundError as error:
            errors.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    assert len(errors) == 3


async def test_O14_get_with_a_full_local_store_still_reads() -> None:
    store = layered(Source("node", await full()), room=10)
    assert await store.get(A.cid) == A.data
    assert not await store.has(A.cid)


async def test_read_through_fetches_a_whole_file() -> None:
    far = MemoryStore(100_000)
    cid = await add_bytes(far, b"0123456789" * 50, layout=Layout(chunk_bytes=7, width=4))
    store = layered(Source("node", far), room=100_000)
    assert await read_bytes(store, cid) == b"0123456789" * 50
    assert (await store.stat()).blocks == (await far.stat()).blocks
