"""Several coroutines at once, whose first error comes out as itself and not inside a group."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ungrouped() -> Iterator[None]:
    """Lets the first error of a group out in place of the group."""
    try:
        yield
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


async def together(coroutines: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Runs all; when one fails the others are cancelled and its error is raised."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
