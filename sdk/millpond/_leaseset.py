"""Leases for programs that block: a thin hand-written face over `AsyncLeases`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from millpond._asyncleases import AsyncLease, AsyncLeases
from millpond._handles import Handle
from millpond._outcomes import error_of
from millpond._portal import call, finish
from millpond._progress import bar
from millpond._ready import Ready
from millpond._settlement import Settlement
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import TaskResult
from millpond.protocol.views import JobView, LeaseView
from millpond.task import enter, leave

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from millpond._asyncleases import OnLog
    from millpond._job import Job, OnResult
    from millpond.task import Task


class Lease:
    """One rented vGPU."""

    def __init__(self, portal: BlockingPortal, lease: AsyncLease) -> None:
        self._portal = portal
        self._async = lease
        self._alone: LeaseSet | None = None

    @property
    def id(self) -> Bytes32:
        return self._async.id

    @property
    def share(self) -> int:
        """Per mille of the device."""
        return self._async.share

    @property
    def memory_mib(self) -> int:
        return self._async.memory_mib

    @property
    def view(self) -> LeaseView:
        """As last seen; `refresh` asks again."""
        return self._async.view

    def __enter__(self) -> Self:
        """Tasks run on this one alone until the end of the block, which closes it."""
        self._alone = LeaseSet(self._portal, AsyncLeases(self._async.client, [self._async]))
        enter(self._alone)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        alone, self._alone = self._alone, None
        if alone is not None:
            alone.__exit__(kind, error, trace)

    def refresh(self) -> LeaseView:
        return call(self._portal, self._async.refresh)

    def close(self, *, wait_settled: bool = True) -> Settlement:
        """See `AsyncLease.close`."""
        return call(self._portal, lambda: self._async.close(wait_settled=wait_settled))

    def detach(self, seconds: int, *, until_done: bool = True) -> int:
        """See `AsyncLease.detach`."""
        return call(self._portal, lambda: self._async.detach(seconds, until_done=until_done))

    def __repr__(self) -> str:
        return f"Lease({self.id[:10]}…, share={self.share}, memory_mib={self.memory_mib}, {self.view.state})"


class LeaseSet:
    """Leases used as one. `with client.rent(...) as leases:` runs tasks on them and closes them at the end."""

    def __init__(self, portal: BlockingPortal, leases: AsyncLeases) -> None:
        self._portal = portal
        self._async = leases
        self._last_job: Job | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self)
        is_interrupted = kind is not None and not issubclass(kind, Exception)
        finish(
            self._portal,
            lambda: self._async.close(wait_settled=not is_interrupted),
            is_interrupted=is_interrupted,
        )

    def __iter__(self) -> Iterator[Lease]:
        return (Lease(self._portal, lease) for lease in self._async.leases)

    def __len__(self) -> int:
        return len(self._async.leases)

    @property
    def asynchronous(self) -> AsyncLeases:
        """The same leases as coroutines see them; they belong to the client's event loop."""
        return self._async

    @property
    def settlements(self) -> list[Settlement]:
        """What each closed lease cost."""
        return self._async.settlements

    def close(self, *, wait_settled: bool = True) -> list[Settlement]:
        """Closes every lease and returns what each cost."""
        return finish(self._portal, lambda: self._async.close(wait_settled=wait_settled))

    def detach(self, seconds: int, *, until_done: bool = True) -> int:
        """See `AsyncLeases.detach`."""
        return call(self._portal, lambda: self._async.detach(seconds, until_done=until_done))

    def spawn(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handle:
        """See `AsyncLeases.spawn`."""
        return Handle(self._portal, call(self._portal, lambda: self._async.spawn(task, args, kwargs)))

    def spawn_command(
        self,
        command: Sequence[str],
        *,
        image: str = "",
        inputs: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        time_limit_s: float = 3600.0,
    ) -> Handle:
        """See `AsyncLeases.spawn_command`."""
        handle = call(
            self._portal,
            lambda: self._async.spawn_command(command, image=image, inputs=inputs, env=env, time_limit_s=time_limit_s),
        )
        return Handle(self._portal, handle)

    def start(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine on the client's event loop, without waiting for it. Callbacks may call it there, once it was called elsewhere."""
        if self._loop is None:
            self._loop = call(self._portal, _own_loop)
        asyncio.run_coroutine_threadsafe(make(), self._loop)

    def call(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(self._portal, lambda: self._async.call(task, args, kwargs))

    def map(
        self,
        task: Task[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        is_ordered: bool = True,
        is_raising: bool = True,
        progress: bool = False,
        on_result: OnResult | None = None,
    ) -> Iterator[Any]:
        """See `Task.map`; `on_result` sees every result with its receipt, in order of arrival."""
        listed = list(arguments)
        with bar(task.name, len(listed), is_shown=progress) as advance:

            def arrived(result: TaskResult) -> None:
                advance()
                if on_result is not None:
                    on_result(result)

            source = self._async.map(
                task, listed, is_ordered=is_ordered, is_raising=is_raising, on_result=arrived, on_job=self._keep_job
            )
            ready = Ready(source)
            try:
                while found := call(self._portal, ready.take):
                    yield from found
            finally:
                with suppress(RuntimeError):  # the client, and its loop, may be gone before an abandoned iterator is
                    call(self._portal, ready.aclose)

    def command(
        self,
        command: Sequence[str],
        *,
        image: str = "",
        inputs: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        time_limit_s: float = 3600.0,
        on_log: OnLog | None = None,
    ) -> TaskResult:
        """Runs one command in a container of its own, see `AsyncLeases.command`."""
        return call(
            self._portal,
            lambda: self._async.command(
                command,
                image=image,
                inputs=inputs,
                env=env,
                time_limit_s=time_limit_s,
                on_job=self._keep_job,
                on_log=on_log,
            ),
        )

    def raise_for(self, result: TaskResult) -> None:
        """Raises the `TaskError` that a result stands for, if it stands for one."""
        error = error_of(result)
        if error is not None:
            raise error

    def last_job(self) -> JobView | None:
        """Counts of the job that `map` or `command` started last."""
        return None if self._last_job is None else call(self._portal, self._last_job.view)

    def _keep_job(self, job: Job) -> None:
        self._last_job = job


async def _own_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
