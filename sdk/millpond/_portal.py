"""Calls from a thread that blocks into the event loop: an interrupt cancels what runs there and waits for its clean-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")


def call(portal: BlockingPortal, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The value of the coroutine that `make` makes. Ctrl-C cancels it, so that no lease opens behind the caller's back."""
    started: list[asyncio.Task[T]] = []

    async def run() -> asyncio.Task[T]:
        task = asyncio.ensure_future(make())
        started.append(task)
        await asyncio.wait([task])
        return task

    future = portal.start_task_soon(run)
    try:
        return future.result().result()
    except BaseException:
        if not future.done():
            portal.call(_cancel, started)
        raise


async def _cancel(tasks: list[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
