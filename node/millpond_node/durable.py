"""Group commit for the agent: changes pile up in one batch while the last one is synced; promises leave behind theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millpond.storage.journal import Batch, Journal


class Durable:
    """`batch` takes changes at any time. `settled()` waits for those made so far; `after` runs a callback behind them.

    Each of `before` is called as a batch is about to be committed, to add what it gathered. `run` raises `JournalFailedError` when the disk fails; so do all waiters, then and later.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.batch = Batch()
        self.before: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._waiting: asyncio.Future[None] | None = None
        self._wake = asyncio.Event()
        self._flushing: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    def after(self, callback: Callable[[], None]) -> None:
        """Runs `callback` once everything in the batch so far is on disk."""
        self._callbacks.append(callback)
        self._wake.set()

    async def settled(self) -> None:
        """Returns once all changes made so far are on disk."""
        if self._error is not None:
            raise self._error
        if not self.batch and not self._callbacks:
            if self._flushing is not None:
                await asyncio.shield(self._flushing)
            return
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        self._wake.set()
        await asyncio.shield(self._waiting)

    def touch(self) -> None:
        """Lets the writer know that the batch has changes nobody waits for."""
        self._wake.set()

    async def run(self) -> None:
        """Commits batch after batch, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        """Commits what there is."""
        for gather in self.before:
            gather()
        if not self.batch and not self._callbacks and self._waiting is None:
            return
        batch, self.batch = self.batch, Batch()
        callbacks, self._callbacks = self._callbacks, []
        self._flushing = self._waiting or asyncio.get_running_loop().create_future()
        self._waiting = None
        try:
            await self.journal.commit(batch)
        except Exception as error:
            self._error = error
            self._fail(error)
            raise
        for callback in callbacks:
            callback()
        if not self._flushing.done():
            self._flushing.set_result(None)
        self._flushing = None

    def _fail(self, error: Exception) -> None:
        for future in (self._flushing, self._waiting):
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # waiters see it; without one it is not news
        self._flushing = self._waiting = None
