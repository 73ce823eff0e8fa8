"""Calls from a thread that blocks into the event loop. An interrupt cancels what runs there, but not its clean-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

PATIENCE_S = 1.0
AHEAD = 64
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
            _wait(portal.start_task_soon(_cancel, started), is_interrupted=True)
        raise


def iterate(portal: BlockingPortal, make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
    """What the generator that `make` makes yields. It runs as one task of the loop, a few values ahead."""
    queue: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue(AHEAD)

    async def feed() -> None:
        end: BaseException | None = None
        try:
            async with aclosing(make()) as source:
                async for value in source:
                    await queue.put((value,))
        except Exception as error:  # noqa: BLE001 - it is raised where the values are used
            end = error
        await queue.put(end)

    feeder = portal.start_task_soon(feed)
    try:
        while (found := call(portal, queue.get)) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        feeder.cancel()


def finish(portal: BlockingPortal, make: Callable[[], Coroutine[Any, Any, T]], *, is_interrupted: bool = False) -> T:
    """Like `call` for clean-up, which goes on through a Ctrl-C; only one that comes a second after another gives up."""
    value: T = _wait(portal.start_task_soon(make), is_interrupted=is_interrupted)
    return value


def _wait(future: Future[T], *, is_interrupted: bool) -> T:
    first = time.monotonic() if is_interrupted else None
    is_late_news = False
    while True:
        try:
            value = future.result()
        except KeyboardInterrupt:
            now = time.monotonic()
            if first is not None and now - first > PATIENCE_S:
                raise
            first = now if first is None else first
            is_late_news = True
        else:
            break
    if is_late_news and not is_interrupted:
        raise KeyboardInterrupt
    return value


async def _cancel(tasks: list[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
