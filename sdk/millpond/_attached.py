"""A job that another process, or this one earlier, submitted: its results by task, from one stream for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from millpond._job import OnResult
from millpond._nodeapi import NodeApi
from millpond.errors import NodeUnreachableError, ResultForgedError, ResultMissingError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import TaskResult

RECONNECT_PAUSE_S = 0.5
PATIENCE_S = 900.0


async def follow(api: NodeApi, job: Bytes32, after: int = 0) -> AsyncGenerator[TaskResult, None]:
    """Results beyond cursor `after` as they come, until all tasks of the job have ended.

    A stream that breaks is taken up behind the last result; raises `NodeUnreachableError` once the node has been away for 15 minutes.
    """
    loop = asyncio.get_running_loop()
    last_heard = loop.time()
    while True:
        try:
            async with aclosing(api.results(job, after)) as results:
                async for result in results:
                    last_heard = loop.time()
                    if result.cursor > after:
                        after = result.cursor
                        yield result
            view = await api.job(job)
            if view.queued + view.running == 0 and after >= view.succeeded + view.failed + view.cancelled:
                return
            last_heard = loop.time()
        except NodeUnreachableError as error:
            if loop.time() - last_heard > PATIENCE_S:
                raise error
        await asyncio.sleep(RECONNECT_PAUSE_S)


class AttachedJob:
    """Remembers where each result lies, not what it holds: a job may have more of them than fit into memory."""

    def __init__(self, api: NodeApi, job: Bytes32, check: OnResult | None = None) -> None:
        self.id = job
        self._api = api
        self._check = check
        self._cursor = 0
        self._places: dict[Bytes32, int] = {}
        self._waiting: dict[Bytes32, asyncio.Future[TaskResult]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def result(self, task: Bytes32) -> TaskResult:
        """Waits for it. Raises `ResultMissingError` when the job ends without, and `NodeRefusedError` for no job of this wallet."""
        if task in self._places:
            return await self._fetch(self._places[task])
        future = self._waiting.setdefault(task, asyncio.get_running_loop().create_future())
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(), name=f"results {self.id[:10]}")
        return await asyncio.shield(future)

    async def has_ended(self, task: Bytes32) -> bool:
        """Asks the node, unless the result came already."""
        if task not in self._places and (self._reader is None or self._reader.done()):
            async with aclosing(self._api.results(self.id, self._cursor, follow=False)) as results:
                async for result in results:
                    self._deliver(result)
        return task in self._places

    async def aclose(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()

    async def _read(self) -> None:
        try:
            async with aclosing(follow(self._api, self.id, self._cursor)) as results:
                async for result in results:
                    self._deliver(result)
                    if not self._waiting:
                        return
        except Exception as error:  # noqa: BLE001 - whoever waits hears it
            self._fail(error)
        else:
            self._fail(ResultMissingError(f"job {self.id} ended without this task"))

    def _deliver(self, result: TaskResult) -> None:
        self._cursor = max(self._cursor, result.cursor)
        self._places[result.task] = result.cursor
        future = self._waiting.pop(result.task, None)
        if future is not None and not future.done():
            self._settle(future, result)

    def _settle(self, future: asyncio.Future[TaskResult], result: TaskResult) -> None:
        try:
            self._checked(result)
        except ResultForgedError as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _checked(self, result: TaskResult) -> TaskResult:
        if self._check is not None:
            self._check(result)
        return result

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever does not wait any more need not be told

    async def _fetch(self, cursor: int) -> TaskResult:
        async with aclosing(self._api.results(self.id, cursor - 1, follow=False)) as results:
            async for result in results:
                return self._checked(result)
        raise ResultMissingError(f"the node no longer keeps result {cursor} of job {self.id}")
