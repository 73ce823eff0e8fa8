"""Calls into the event loop, and what an interrupt does to them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from millpond._portal import call, finish
from millpond._together import together
from millpond.errors import InputError


def interrupt_soon() -> None:
    """Ctrl-C in the main thread, in 0.1 s."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as made:
        yield made


def test_call_gives_the_value_or_the_error_itself(portal: BlockingPortal) -> None:
    async def give() -> int:
        return 5

    async def fail() -> None:
        raise InputError("no")

    assert call(portal, give) == 5
    with pytest.raises(InputError, match="no"):
        call(portal, fail)


def test_call_interrupted_waits_for_the_clean_up(portal: BlockingPortal) -> None:
    done: list[str] = []

    async def rent() -> None:
        interrupt_soon()
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.2)
            done.append("closed")

    with pytest.raises(KeyboardInterrupt):
        call(portal, rent)
    assert done == ["closed"]


def test_finish_goes_on_through_an_interrupt_and_tells_it_afterwards(portal: BlockingPortal) -> None:
    done: list[str] = []

    async def close() -> None:
        interrupt_soon()
        await asyncio.sleep(0.3)
        done.append("closed")

    with pytest.raises(KeyboardInterrupt):
        finish(portal, close)
    assert done == ["closed"]


async def test_together_raises_the_first_error_outside_its_group() -> None:
    async def fail() -> None:
        raise InputError("one")

    with pytest.raises(InputError, match="one"):
        await together([fail(), asyncio.sleep(30)])
