"""The clock's port: wall time for rights and records, a monotonic one for durations."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def wall(self) -> int:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def wall(self) -> int:
        return int(time.time())

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """The fake: time passes when `advance` says so. `sleep` yields to other tasks until then."""

    def __init__(self, wall: int = 1_800_000_000) -> None:
        self._wall, self._monotonic = float(wall), 1000.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def wall(self) -> int:
        return int(self._wall)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds
        due = [item for item in self._waiting if item[0] <= self._monotonic]
        self._waiting = [item for item in self._waiting if item[0] > self._monotonic]
        for _, future in due:
            if not future.done():
                future.set_result(None)

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._monotonic + seconds, future))
        await future
