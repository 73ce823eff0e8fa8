"""Lets many wait for a change of one thing."""

from __future__ import annotations

import asyncio


class Signals:
    """`notify(key)` wakes everyone who waits on `key`, who came first first; nobody waiting costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}

    def notify(self, key: str) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def notify_all(self) -> None:
        for key in list(self._waiting):
            self.notify(key)

    async def wait(self, key: str, timeout_s: float) -> bool:
        """Whether there was a change within `timeout_s`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, {})[future] = None
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(future, None)
                if not waiting:
                    del self._waiting[key]
        return True
