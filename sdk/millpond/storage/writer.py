"""Blocks on their way into a store: gathered into groups, one group written while the next is being made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from millpond.protocol.errors import StorageError
from millpond.storage.blocks import Block
from millpond.storage.port import BlockSink

GROUP_BYTES = 32 * 1024 * 1024
GROUP_BLOCKS = 1024
T = TypeVar("T")


class BlockWriter:
    """Holds at most two groups in memory. Made by `write_blocks`."""

    def __init__(self, store: BlockSink, tasks: TaskGroup) -> None:
        self._store, self._tasks = store, tasks
        self._group: list[Block] = []
        self._group_bytes = 0
        self._slot = anyio.Semaphore(1)
        self._failure: StorageError | None = None

    async def add(self, block: Block) -> None:
        """Queue one block; waits while the store is behind. Raises what an earlier group met."""
        self._group.append(block)
        self._group_bytes += len(block.data)
        if self._group_bytes >= GROUP_BYTES or len(self._group) >= GROUP_BLOCKS:
            await self._start_group()

    async def finish(self) -> None:
        """Returns when every block is durable."""
        if self._group:
            await self._start_group()
        async with self._slot:
            self._raise_failure()

    async def _start_group(self) -> None:
        await self._slot.acquire()
        group, self._group, self._group_bytes = self._group, [], 0
        if self._failure is None:
            self._tasks.start_soon(self._put, group)
            return
        self._slot.release()
        self._raise_failure()

    async def _put(self, group: list[Block]) -> None:
        try:
            await self._store.put_many(group)
        except StorageError as error:
            self._failure = error
        finally:
            self._slot.release()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


async def write_blocks(store: BlockSink, build: Callable[[BlockWriter], Awaitable[T]]) -> T:
    """Run `build` and return its result once all it added is durable."""
    failure: StorageError | None = None
    async with anyio.create_task_group() as tasks:
        writer = BlockWriter(store, tasks)
        try:
            result = await build(writer)
            await writer.finish()
        except StorageError as error:
            failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result
