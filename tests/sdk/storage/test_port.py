"""What every backend of the port promises."""

from __future__ import annotations

from typing import Any

import pytest

from millpond.storage import (
    BlockNotFoundError,
    BlockPinnedError,
    BlockSink,
    BlockStore,
    BlockTamperedError,
    BlockTooLargeError,
    Codec,
    StoreFullError,
    add_bytes,
    cid_of,
    make_block,
    read_bytes,
)
from millpond.storage.blocks import MAX_BLOCK_BYTES
from millpond.storage.unixfs import Layout

A, B = make_block(b"a" * 1000), make_block(b"b" * 10)


async def test_backend_any_satisfies_its_protocol(sink: Any, store: Any) -> None:
    assert isinstance(sink.store, BlockSink)
    assert isinstance(store, BlockStore)


async def test_put_block_comes_back_the_same(sink: Any) -> None:
    assert await sink.store.put(A) == A.cid
    assert await sink.store.get(A.cid) == A.data
    assert await sink.store.has(A.cid)


async def test_put_empty_block_comes_back_empty(sink: Any) -> None:
    empty = make_block(b"")
    await sink.store.put(empty)
    assert await sink.store.get(empty.cid) == b""


async def test_put_twice_is_one_block(store: Any) -> None:
    await store.put_many([A, A, B])
    await store.put(A)
    stat = await store.stat()
    assert (stat.blocks, stat.bytes) == (2, 1010)


async def test_put_many_blocks_all_come_back(sink: Any) -> None:
    blocks = [make_block(i.to_bytes(4, "big") * 100) for i in range(40)]
    await sink.store.put_many(blocks)
    assert [await sink.store.get(block.cid) for block in blocks] == [block.data for block in blocks]


async def test_get_unknown_cid_is_refused_with_its_cid(sink: Any) -> None:
    with pytest.raises(BlockNotFoundError) as caught:
        await sink.store.get(A.cid)
    assert caught.value.fields["cid"] == A.cid
    assert not await sink.store.has(A.cid)


@pytest.mark.parametrize("position", [0, 500, 999])
async def test_O17_get_with_one_flipped_bit_is_refused(tamperable: Any, position: int) -> None:
    await tamperable.store.put(A)
    damaged = bytearray(A.data)
    damaged[position] ^= 1
    tamperable.tamper(A.cid, bytes(damaged))
    with pytest.raises((BlockTamperedError, BlockNotFoundError)) as caught:
        await tamperable.store.get(A.cid)
    if isinstance(caught.value, BlockNotFoundError):
        assert "hash" in caught.value.fields["sources"]["embedded"]


@pytest.mark.parametrize("data", [b"", b"a" * 999, b"a" * 1001, b"x" * (MAX_BLOCK_BYTES + 1)], ids=len)
async def test_O17_get_of_other_length_is_refused(tamperable: Any, data: bytes) -> None:
    await tamperable.store.put(A)
    tamperable.tamper(A.cid, data)
    with pytest.raises((BlockTamperedError, BlockNotFoundError, BlockTooLargeError)):
        await tamperable.store.get(A.cid)


async def test_same_bytes_under_another_codec_are_another_block(sink: Any) -> None:
    await sink.store.put(A)
    with pytest.raises(BlockNotFoundError):
        await sink.store.get(cid_of(A.data, Codec.DAG_PB))


async def test_delete_block_is_gone(store: Any) -> None:
    await store.put(A)
    assert await store.delete(A.cid)
    assert not await store.delete(A.cid)
    with pytest.raises(BlockNotFoundError):
        await store.get(A.cid)


async def test_delete_pinned_block_is_refused_until_unpinned(store: Any) -> None:
    await store.put(A)
    await store.pin(A.cid, "lease-1")
    with pytest.raises(BlockPinnedError):
        await store.delete(A.cid)
    assert await store.unpin(A.cid, "lease-1")
    assert await store.delete(A.cid)
    assert not await store.unpin(A.cid, "lease-1")


async def test_gc_removes_what_no_pin_reaches(store: Any, clock: Any) -> None:
    kept = await add_bytes(store, b"0123456789" * 10, layout=Layout(chunk_bytes=7, width=3))
    await add_bytes(store, b"abcdefghij" * 10, layout=Layout(chunk_bytes=7, width=3))
    await store.pin(kept, "lease-1")
    clock.now += 10
    report = await store.gc(min_age_seconds=5)
    assert report.blocks_removed > 10
    assert report.bytes_removed > 100
    assert await read_bytes(store, kept) == b"0123456789" * 10
    await store.unpin(kept, "lease-1")
    await store.gc(min_age_seconds=5)
    assert (await store.stat()).blocks == (await store.stat()).bytes == 0


async def test_gc_keeps_young_blocks_without_a_pin(store: Any, clock: Any) -> None:
    await store.put(A)
    clock.now += 4
    assert (await store.gc(min_age_seconds=5)).blocks_removed == 0


async def test_gc_counts_a_repeated_put_as_young(store: Any, clock: Any) -> None:
    await store.put(A)
    clock.now += 10
    await store.put(A)
    assert (await store.gc(min_age_seconds=5)).blocks_removed == 0


async def test_gc_of_a_flat_pin_keeps_only_that_block(store: Any, clock: Any) -> None:
    root = await add_bytes(store, b"0123456789", layout=Layout(chunk_bytes=2, width=8))
    await store.pin(root, "lease-1", recursive=False)
    clock.now += 10
    await store.gc(min_age_seconds=5)
    assert (await store.stat()).blocks == 1
    assert await store.has(root)


async def test_pin_with_ttl_expires(store: Any, clock: Any) -> None:
    await store.put(A)
    await store.pin(A.cid, "lease-1", ttl_seconds=60)
    clock.now += 59
    assert [pin.owner for pin in await store.pins()] == ["lease-1"]
    clock.now += 1
    assert await store.pins() == []
    report = await store.gc(min_age_seconds=5)
    assert (report.pins_expired, report.blocks_removed) == (1, 1)


async def test_pin_of_one_owner_outlives_anothers(store: Any, clock: Any) -> None:
    await store.put(A)
    await store.pin(A.cid, "lease-1", ttl_seconds=1)
    await store.pin(A.cid, "lease-2")
    clock.now += 10
    await store.gc(min_age_seconds=5)
    assert await store.has(A.cid)
    assert [pin.cid for pin in await store.pins("lease-2")] == [A.cid]
    assert await store.pins("lease-1") == []


async def test_usage_counts_the_blocks_an_owner_names(store: Any) -> None:
    await store.put_many([A, B])
    await store.pin(A.cid, "lease-1")
    await store.pin(B.cid, "lease-1")
    await store.pin(B.cid, "lease-2")
    assert [await store.usage(owner) for owner in ("lease-1", "lease-2", "nobody")] == [1010, 10, 0]


async def test_O14_put_over_the_quota_is_refused_and_keeps_the_old(store: Any) -> None:
    big = [make_block(bytes([i]) * 1024 * 1024) for i in range(65)]
    await store.put(A)
    await store.pin(A.cid, "lease-1")
    with pytest.raises(StoreFullError):
        await store.put_many(big)
    assert await store.get(A.cid) == A.data
    assert (await store.stat()).blocks == 1
