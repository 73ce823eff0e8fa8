"""A job: tasks that share source, sent in few signed requests, their results read from one stream that survives broken connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from millpond._nodeapi import NodeApi
from millpond._together import together
from millpond.errors import NodeUnreachableError, ResultForgedError, TaskCancelledError
from millpond.protocol.ids import Bytes32, job_id, task_id
from millpond.protocol.messages import MAX_TASKS_PER_SUBMIT, Submit, TaskResult, TaskSpec
from millpond.protocol.views import JobView

SUBMITS_IN_FLIGHT = 4
MAX_SUBMIT_BYTES = 4 << 20
SPEC_OVERHEAD_BYTES = 512
RECONNECT_PAUSE_S = 0.5
RESUBMIT_PAUSE_S = 0.05
"""After a stream that ended in order, while tasks are on their way to the node."""
PATIENCE_S = 900.0
OnResult = Callable[[TaskResult], None]
MakeCheck = Callable[[Bytes32], OnResult]
"""For a job, what raises `ResultForgedError` for a result that is not to be had of it."""


@dataclass(frozen=True, slots=True)
class Template:
    """What the tasks of a job have in common."""

    entry: str = ""
    code: str = ""
    command: tuple[str, ...] = ()
    image: str = ""
    python: str = ""
    time_limit_s: float = 3600.0
    max_attempts: int = 3
    inputs: dict[str, str] = field(default_factory=dict)


class Job:
    """Submits tasks to `leases` and hands out each result once. All methods belong to one event loop.

    The stream of results stays open for `linger_s` seconds after the last, for a job that more tasks are to come to.
    """

    def __init__(self, api: NodeApi, leases: Sequence[Bytes32], make_check: MakeCheck | None = None) -> None:
        self.id = job_id(secrets.token_bytes(32))
        self._api = api
        self._check: OnResult | None = make_check(self.id) if make_check is not None else None
        self._leases = tuple(leases)
        self._count = 0
        self._waiting: dict[Bytes32, asyncio.Future[TaskResult]] = {}
        self._cursor = 0
        self._reader: asyncio.Task[None] | None = None
        self.linger_s = 0
        self._on_result: list[OnResult] = []

    def watch(self, on_result: OnResult) -> None:
        """Calls `on_result` for every result, in order of arrival."""
        self._on_result.append(on_result)

    async def submit(self, specs: Sequence[TaskSpec]) -> list[asyncio.Future[TaskResult]]:
        """Durable at the node on return: numbers the tasks, sends them, and gives a future for each."""
        return await self.send(self.number(specs))

    def number(self, specs: Sequence[TaskSpec]) -> list[TaskSpec]:
        """The tasks with their ids and numbers in this job."""
        return [self._number(spec) for spec in specs]

    async def send(self, numbered: Sequence[TaskSpec]) -> list[asyncio.Future[TaskResult]]:
        """Like `submit`, for tasks that have their numbers; may be repeated."""
        loop = asyncio.get_running_loop()
        futures = [self._waiting.setdefault(spec.id, loop.create_future()) for spec in numbered]
        gate = asyncio.Semaphore(SUBMITS_IN_FLIGHT)

        async def send(batch: tuple[TaskSpec, ...]) -> None:
            async with gate:
                await self._api.submit(Submit(self.id, self._leases, batch))

        await together(send(batch) for batch in _batches(numbered))
        if self._reader is None or self._reader.done():
            self._reader = loop.create_task(self._read())
            self._reader.add_done_callback(self._reader_ended)
        return futures

    async def cancel(self, tasks: Sequence[Bytes32] = ()) -> JobView:
        """Cancels the given tasks, or all."""
        return await self._api.cancel(self.id, list(tasks))

    async def view(self) -> JobView:
        return await self._api.job(self.id)

    async def aclose(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for task, future in self._waiting.items():
            if not future.done():
                future.set_exception(TaskCancelledError("the leases were closed before the task ended", task=task))
                future.exception()  # whoever does not wait any more need not be told
        self._waiting.clear()

    def _number(self, spec: TaskSpec) -> TaskSpec:
        numbered = replace(spec, id=task_id(self.id, self._count), index=self._count)
        self._count += 1
        return numbered

    async def _read(self) -> None:
        """Reads until nothing is waited for. A broken stream is taken up again behind the last cursor."""
        loop = asyncio.get_running_loop()
        last_heard = loop.time()
        while any(not future.done() for future in self._waiting.values()):
            try:
                async for result in self._api.results(self.id, self._cursor, linger_s=self.linger_s):
                    last_heard = loop.time()
                    self._deliver(result)
                last_heard = loop.time()
                await asyncio.sleep(RESUBMIT_PAUSE_S)
            except NodeUnreachableError as error:
                if loop.time() - last_heard > PATIENCE_S:
                    raise error
                await asyncio.sleep(RECONNECT_PAUSE_S)

    def _deliver(self, result: TaskResult) -> None:
        if result.cursor <= self._cursor:
            return
        self._cursor = result.cursor
        future = self._waiting.pop(result.task, None)
        try:
            if self._check is not None:
                self._check(result)
        except ResultForgedError as error:
            if future is not None and not future.done():
                future.set_exception(error)
            return
        for on_result in self._on_result:
            on_result(result)
        if future is not None and not future.done():
            future.set_result(result)

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        """Whoever waits hears why nothing more will come."""
        error = None if reader.cancelled() else reader.exception()
        if error is None:
            return
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def _batches(specs: Sequence[TaskSpec]) -> list[tuple[TaskSpec, ...]]:
    """Cuts at 256 tasks or 4 MiB, whichever comes first."""
    batches: list[list[TaskSpec]] = []
    size = MAX_SUBMIT_BYTES
    for spec in specs:
        cost = SPEC_OVERHEAD_BYTES + len(spec.args) * 4 // 3
        if not batches or size + cost > MAX_SUBMIT_BYTES or len(batches[-1]) == MAX_TASKS_PER_SUBMIT:
            batches.append([])
            size = 0
        batches[-1].append(spec)
        size += cost
    return [tuple(batch) for batch in batches]
