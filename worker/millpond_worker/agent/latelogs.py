"""Small logs go to the data plane after the receipts that name them, few at a time, so that a task which prints is not held up."""

from __future__ import annotations

import logging
from collections import deque

from millpond.protocol.errors import StorageError
from millpond.protocol.ids import Bytes32
from millpond_worker.agent.background import Background, logged
from millpond_worker.agent.parts import Parts

log = logging.getLogger("millpond_worker")
WORKERS = 4
MAX_BYTES = 64 << 20
TRIES = 5


class LateLogs:
    """Bounded: what does not fit, or cannot be stored in a few tries, is dropped, and its CID leads nowhere."""

    def __init__(self, parts: Parts, background: Background) -> None:
        self._parts, self._background = parts, background
        self._waiting: deque[tuple[Bytes32, bytes]] = deque()
        self._bytes = 0
        self._running = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting) + self._running

    def add(self, lease: Bytes32, data: bytes) -> None:
        if not data:
            return
        if self._bytes + len(data) > MAX_BYTES:
            self.dropped += 1
            return
        self._bytes += len(data)
        self._waiting.append((lease, data))
        if self._running < WORKERS:
            self._running += 1
            self._background.start(self._work(), "store logs", logged)

    async def _work(self) -> None:
        try:
            while self._waiting:
                lease, data = self._waiting.popleft()
                self._bytes -= len(data)
                await self._put(lease, data)
        finally:
            self._running -= 1

    async def _put(self, lease: Bytes32, data: bytes) -> None:
        delay = self._parts.pace.retry_first
        for _ in range(TRIES):
            try:
                await self._parts.store.put(data)
            except (StorageError, OSError) as error:
                message = str(error)
            else:
                return
            await self._parts.clock.sleep(delay)
            delay = min(2 * delay, self._parts.pace.retry_most)
        self.dropped += 1
        log.warning("a log of lease %s is not stored: %s", lease, message)
