"""The machine's clock, and one that a test winds."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time


class SystemClock:
    """`Clock` of this machine."""

    def now(self) -> int:
        return int(time.time())

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimClock:
    """`Clock` that stands still until `advance`."""

    def __init__(self, start: int = 1_700_000_000) -> None:
        self._time = float(start)
        self._start = float(start)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        return int(self._time)

    def monotonic(self) -> float:
        return self._time - self._start

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._time + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Winds the clock, waking sleepers in order and letting each run before the next."""
        end = self._time + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._time, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self._time = end
        await settle()

    async def jump(self, seconds: float) -> None:
        """Winds the clock at once, as a machine that slept: each sleeper wakes once, at the end."""
        self._time += seconds
        while self._sleepers and self._sleepers[0][0] <= self._time:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
        await settle()


async def settle(rounds: int = 10) -> None:
    """Lets everything that can run without time passing run."""
    for _ in range(rounds):
        await asyncio.sleep(0)
