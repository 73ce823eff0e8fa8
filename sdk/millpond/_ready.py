"""What an asynchronous generator has ready, taken together: one visit of the event loop instead of one for each item."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

MAX_TAKEN = 256
T = TypeVar("T")


class Ready(Generic[T]):
    """Hands out the items of `source` in order; runs ahead of its user by one item at most."""

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._source = source
        self._next: asyncio.Task[T] | None = None

    async def take(self) -> list[T]:
        """Waits for one item and returns it with those that follow without waiting; nothing at the end. An error comes in its turn."""
        try:
            taken = [await self._upcoming()]
        except StopAsyncIteration:
            return []
        finally:
            self._next = None
        while len(taken) < MAX_TAKEN and await self._is_ready():
            taken.append(self._upcoming().result())
            self._next = None
        return taken

    async def aclose(self) -> None:
        """Ends the source, and what it waits for."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._source.aclose()

    def _upcoming(self) -> asyncio.Task[T]:
        if self._next is None:
            self._next = asyncio.ensure_future(_pull(self._source))
        return self._next

    async def _is_ready(self) -> bool:
        upcoming = self._upcoming()
        await asyncio.sleep(0)
        return upcoming.done() and not upcoming.cancelled() and upcoming.exception() is None


async def _pull(source: AsyncGenerator[T, None]) -> T:
    return await anext(source)
