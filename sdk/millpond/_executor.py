"""`Executor`: leases behind the interface of `concurrent.futures`, for programs and libraries that know that one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor as _Executor
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from millpond._outcomes import fetch_value
from millpond._source import source_of
from millpond.errors import MillpondError, TaskCancelledError
from millpond.protocol.ids import Bytes32
from millpond.task import DEFAULT_TIME_LIMIT_S, Task, TaskOptions

if TYPE_CHECKING:
    from millpond._leaseset import LeaseSet

P = ParamSpec("P")
T = TypeVar("T")


class Executor(_Executor):
    """Runs tasks, and plain functions of importable modules or scripts, on `leases`; it does not close them.

    The options are those of `@app.task`, for plain functions; a `Task` brings its own. Functions travel as source and arguments by the
    value codec, never by pickle: lambdas, closures and methods raise `TaskSourceError`. Many calls travel in one request, and a future
    that is cancelled cancels its task at the node. `Executor.map` sees `chunksize` as what it is: a hint, not needed here.
    """

    def __init__(
        self,
        leases: LeaseSet,
        *,
        image: str = "",
        python: str = "",
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        max_attempts: int = 3,
    ) -> None:
        self._leases = leases
        self._options = TaskOptions(image, python, time_limit_s, max_attempts)
        self._tasks: dict[Callable[..., Any], Task[..., Any]] = {}
        self._lock = Lock()
        self._open: set[_TaskFuture[Any]] = set()
        self._is_shut = False
        self._batcher = leases.asynchronous.batcher()

    @property
    def job(self) -> Bytes32:
        """The job its tasks belong to."""
        return self._batcher.job.id

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Raises `TaskSourceError` for a function that cannot travel, and `RuntimeError` after `shutdown`."""
        task = self._task(fn)
        future: _TaskFuture[T] = _TaskFuture(self)
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open.add(future)
        future.add_done_callback(self._forget)
        self._leases.start(lambda: self._run(future, task, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more. `cancel_futures` also ends what runs at the workers; `wait` waits for all that is left."""
        with self._lock:
            self._is_shut = True
            left = list(self._open)
        if cancel_futures:
            for future in left:
                future.cancel()
        if wait:
            _wait_all(left)

    def cancel_task(self, task: Bytes32) -> None:
        """Asks the node to end a task; without an answer it runs to its end unheard."""

        async def cancel() -> None:
            with suppress(MillpondError):
                await self._batcher.job.cancel([task])

        self._leases.start(cancel)

    def _task(self, function: Callable[..., Any]) -> Task[..., Any]:
        if isinstance(function, Task):
            return function
        task = self._tasks.get(function)
        if task is None:
            source_of(function)
            task = self._tasks[function] = Task(function, self._options)
        return task

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._open.discard(future)

    async def _run(
        self, future: _TaskFuture[Any], task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        asynchronous = self._leases.asynchronous
        try:
            spec = await asynchronous.spec(await self._batcher.template(task), args, kwargs)
            if future.cancelled():
                return
            sent, result = await self._batcher.submit(spec)
            if future.place(sent.id):
                await self._batcher.job.cancel([sent.id])
            value = await fetch_value(asynchronous.client, await result)
        except Exception as error:  # noqa: BLE001 - whoever holds the future hears it
            future.end(error=error)
        except BaseException:
            future.end(error=TaskCancelledError("the leases were closed before the task ended"))
            raise
        else:
            future.end(value)


class _TaskFuture(Future[T]):
    """Stays pending until its task ends, so that it can be cancelled wherever the task is."""

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor
        self._task_id: Bytes32 | None = None
        self._gate = RLock()

    def place(self, task: Bytes32) -> bool:
        """The task is at the node under this id; True when it was cancelled meanwhile, and has to be there too."""
        with self._gate:
            self._task_id = task
            return self.cancelled()

    def cancel(self) -> bool:
        with self._gate:
            if self.cancelled():
                return True
            if not super().cancel():
                return False
            self.set_running_or_notify_cancel()
            if self._task_id is not None:
                self._executor.cancel_task(self._task_id)
        return True

    def end(self, value: T | None = None, error: Exception | None = None) -> None:
        """Sets the outcome, unless it was cancelled."""
        with suppress(InvalidStateError):
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(value)  # type: ignore[arg-type]


def _wait_all(futures: list[_TaskFuture[Any]]) -> None:
    wait(futures)
