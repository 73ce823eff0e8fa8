"""An event loop under a virtual clock: its heap of timers is the simulation's, and no time passes but from one timer to the next."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

START = 1_800_000_000


class StandstillError(AssertionError):
    """Nothing is left that could ever happen."""


class Life:
    """One run of a process, from its start to its kill. Nothing that outlives it hears of it once it is dead."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number, self.is_dead = name, number, False
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def check(self) -> None:
        """Ends the caller where the process has been killed: no instruction after this one is performed."""
        if self.is_dead:
            raise asyncio.CancelledError

    def forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class _Selector(selectors.SelectSelector):
    """Waits in no time at all: it winds the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StandstillError("nothing can happen any more")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Single-threaded and deterministic: what is given to threads runs at once. Each task belongs to the life that made it."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self.set_task_factory(_of_life)

    def time(self) -> float:
        return self._virtual.now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)
        return future


def _of_life(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    life = context.get(LIFE) if context is not None else LIFE.get()
    if life is not None:
        life.tasks[task] = None
        task.add_done_callback(life.forget)
    return task


class VirtualTime:
    """Stands where a module imports `time`."""

    @staticmethod
    def time() -> float:
        return START + asyncio.get_running_loop().time()

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()


async def at_once(func: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Stands for `anyio.to_thread.run_sync`: a thread would end when it likes."""
    await asyncio.sleep(0)
    return func(*args)
