from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from millpond._ready import MAX_TAKEN, Ready


async def numbers(count: int, pause_at: int = -1) -> AsyncGenerator[int, None]:
    for number in range(count):
        if number == pause_at:
            await asyncio.sleep(0.01)
        yield number


async def test_take_gives_what_is_ready_together_and_nothing_at_the_end() -> None:
    ready = Ready(numbers(3))

    assert [await ready.take(), await ready.take()] == [[0, 1, 2], []]


async def test_take_does_not_wait_for_what_comes_later() -> None:
    ready = Ready(numbers(4, pause_at=2))

    assert [await ready.take(), await ready.take()] == [[0, 1], [2, 3]]


async def test_take_is_bounded() -> None:
    assert len(await Ready(numbers(2 * MAX_TAKEN)).take()) == MAX_TAKEN


async def test_error_comes_after_the_items_before_it() -> None:
    async def source() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("broken")

    ready = Ready(source())
    assert await ready.take() == [1]
    with pytest.raises(ValueError, match="broken"):
        await ready.take()


async def test_aclose_ends_a_source_that_is_waited_for() -> None:
    ended = []

    async def source() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    ready = Ready(source())
    await ready.take()
    await ready.aclose()

    assert ended == [True]
