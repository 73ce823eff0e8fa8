from __future__ import annotations

import pytest

from millpond.storage import MemoryStore, StoreFullError, make_block

A, B, C = (make_block(letter * 100) for letter in (b"a", b"b", b"c"))


async def test_put_over_the_budget_drops_the_longest_unused() -> None:
    store = MemoryStore(250)
    await store.put_many([A, B])
    await store.get(A.cid)
    await store.put(C)
    assert [await store.has(block.cid) for block in (A, B, C)] == [True, False, True]
    assert (await store.stat()).bytes == 200


async def test_put_never_drops_pinned_blocks() -> None:
    store = MemoryStore(250)
    await store.put_many([A, B])
    await store.pin(A.cid, "x")
    await store.pin(B.cid, "x")
    with pytest.raises(StoreFullError):
        await store.put(C)
    assert [await store.has(block.cid) for block in (A, B, C)] == [True, True, False]


async def test_put_that_cannot_fit_drops_nothing() -> None:
    store = MemoryStore(250)
    await store.put_many([A, B])
    with pytest.raises(StoreFullError):
        await store.put(make_block(b"x" * 251))
    assert (await store.stat()).blocks == 2


async def test_put_group_keeps_its_own_blocks() -> None:
    store = MemoryStore(250)
    await store.put(A)
    await store.put_many([A, B])
    assert await store.has(A.cid)
    assert await store.has(B.cid)
