"""Handles of spawned tasks: results to come, which another process can take up by their `id`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from millpond._outcomes import fetch_value
from millpond._portal import call
from millpond.errors import InputError, ResultWaitError
from millpond.protocol.ids import Bytes32, bytes32, task_id
from millpond.protocol.messages import TaskResult

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from millpond._asyncclient import AsyncClient


class HandleError(InputError):
    remedy_text = "A handle's id reads JOB/NUMBER, as `handle.id` and `millpond results JOB` show it."


def parse_handle(text: str) -> tuple[Bytes32, int]:
    """The job and the task's number in it; raises `HandleError`."""
    job, slash, number = text.partition("/")
    if not slash or not (number.isascii() and number.isdigit()) or int(number) >= 1 << 32:
        raise HandleError(f"{text!r} is no handle")
    try:
        return bytes32(job), int(number)
    except InputError:
        raise HandleError(f"{text!r} is no handle: {job!r} is no id of a job") from None


class AsyncHandle:
    """A task at the node. Made by `AsyncLeases.spawn` or `AsyncClient.handle`."""

    def __init__(
        self, client: AsyncClient, job: Bytes32, index: int, future: asyncio.Future[TaskResult] | None = None
    ) -> None:
        self._client = client
        self.job = job
        self.index = index
        self._future = future

    @property
    def id(self) -> str:
        """To be saved, and given to `client.handle` later or elsewhere."""
        return f"{self.job}/{self.index}"

    @property
    def task(self) -> Bytes32:
        return task_id(self.job, self.index)

    async def result(self, timeout_s: float | None = None) -> Any:
        """The task's value. Raises a `TaskError` kind, or `ResultWaitError` (a `TimeoutError`) after `timeout_s` seconds."""
        return await fetch_value(self._client, await self.outcome(timeout_s))

    async def outcome(self, timeout_s: float | None = None) -> TaskResult:
        """The result with its receipt, whether the task succeeded or not; waits as `result` does."""
        waiting = asyncio.ensure_future(self._wait())
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError as error:
            if waiting.done() and not waiting.cancelled():
                raise
            raise ResultWaitError(f"task {self.id} has not ended after {timeout_s:g} s", task=self.task) from error

    async def done(self) -> bool:
        """Whether it has ended, well or not."""
        if self._future is not None:
            return self._future.done()
        return await self._client.attached(self.job).has_ended(self.task)

    async def cancel(self) -> bool:
        """Asks the node to end it; False when it had ended already."""
        if await self.done():
            return False
        await self._client.api.cancel(self.job, [self.task])
        return True

    async def _wait(self) -> TaskResult:
        if self._future is not None:
            return await asyncio.shield(self._future)
        return await self._client.attached(self.job).result(self.task)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"


class Handle:
    """A task at the node, for programs that block. Made by `Task.spawn` or `Client.handle`."""

    def __init__(self, portal: BlockingPortal, handle: AsyncHandle) -> None:
        self._portal = portal
        self._async = handle

    @property
    def id(self) -> str:
        """To be saved, and given to `client.handle` later or elsewhere."""
        return self._async.id

    @property
    def job(self) -> Bytes32:
        return self._async.job

    @property
    def index(self) -> int:
        return self._async.index

    @property
    def task(self) -> Bytes32:
        return self._async.task

    def result(self, timeout_s: float | None = None) -> Any:
        """See `AsyncHandle.result`."""
        return call(self._portal, lambda: self._async.result(timeout_s))

    def outcome(self, timeout_s: float | None = None) -> TaskResult:
        """See `AsyncHandle.outcome`."""
        return call(self._portal, lambda: self._async.outcome(timeout_s))

    def done(self) -> bool:
        return call(self._portal, self._async.done)

    def cancel(self) -> bool:
        """See `AsyncHandle.cancel`."""
        return call(self._portal, self._async.cancel)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"
