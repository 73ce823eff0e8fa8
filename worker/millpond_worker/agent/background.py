"""Tasks that nobody awaits: kept alive, ended with the agent, their failures told and kept where they belong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.protocol.errors import MillpondError
from millpond.storage.journal import JournalFailedError

OnError = Callable[[Exception], None]
log = logging.getLogger("millpond_worker")


class Background:
    """`on_crash` hears of what must end the process: a journal that fails, and any error of a task that has no `on_error`."""

    def __init__(self, on_crash: Callable[[BaseException], None]) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_crash = on_crash

    def start(self, work: Coroutine[Any, Any, None], name: str, on_error: OnError | None = None) -> asyncio.Task[None]:
        """Runs `work`. `on_error` hears of an error that concerns one lease or attempt alone, after it was logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, on_error))
        return task

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], on_error: OnError | None) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        log.error("%s failed", task.get_name(), exc_info=error)
        if on_error is None or not isinstance(error, Exception) or isinstance(error, JournalFailedError):
            self._on_crash(error)
        else:
            on_error(error)


def logged(_: Exception) -> None:
    """For work that is done again in any case, or that nothing waits for."""


def told(error: Exception) -> str:
    """An unexpected error in one line: its type and its message."""
    message = error.message if isinstance(error, MillpondError) else str(error)
    return f"{type(error).__name__}: {message}".rstrip(": ")
