"""Runs the development stack beside a program that blocks, and stops that program when the stack fails."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from anyio.from_thread import BlockingPortal, start_blocking_portal
from rich.console import Console

from millpond.dev.stack import DevStack, StackConfig
from millpond.protocol.errors import MillpondError

LIMIT_S = 420


class DemoTimeoutError(MillpondError):
    remedy_text = "Read the logs of the stack; on a slow machine, run it again."


@dataclass(frozen=True, slots=True)
class Running:
    """A stack that runs in another thread."""

    stack: DevStack
    _portal: BlockingPortal

    def kill(self, worker: int) -> None:
        """See `DevStack.kill`."""
        self.stack.kill(worker)

    def restart(self, worker: int) -> None:
        """See `DevStack.restart`."""
        self._portal.call(self.stack.restart, worker)


@contextmanager
def running_stack(config: StackConfig, out: Console) -> Iterator[Running]:
    """The stack in a thread of its own. When a part of it ends, or time is up, the block is interrupted by that error."""
    failures: list[MillpondError] = []
    with start_blocking_portal() as portal:
        stack = DevStack(config, lambda line: out.print(f"  {line}", markup=False))
        with portal.wrap_async_context_manager(stack):
            watch = portal.start_task_soon(_watch, stack, failures)
            try:
                yield Running(stack, portal)
            except KeyboardInterrupt:
                if failures:
                    raise failures[0] from None
                raise
            finally:
                watch.cancel()


async def _watch(stack: DevStack, failures: list[MillpondError]) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            await stack.watch()
    except TimeoutError:
        failures.append(DemoTimeoutError(f"the demo did not end within {LIMIT_S} s"))
    except MillpondError as error:
        failures.append(error)
    thread = threading.main_thread().ident
    if thread is not None:
        signal.pthread_kill(thread, signal.SIGINT)
