"""A renter that vanishes, against real processes and a chain whose time is moved: pause, demand, close unpaid, collect."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from worker_stack import WORKER_MAIN, Renter, Stack, stack

from millpond.chain.bindings import Devices
from millpond.protocol.values import decode
from millpond.protocol.views import LeaseView

GRACE_S = 3
TICK_S = 2
PAID_S = 2
ANSWER_S = 900
OPEN, CLOSED = 1, 2
# The pool's shortest grace is a minute: this worker waits less before it demands, and looks at the chain each second.
# What the chain allows is untouched.
HASTY_WORKER = f"""
import dataclasses, functools
from millpond_worker import assemble
from millpond_worker.agent.parts import Pace, Parts
from millpond_worker.edge import chain
assemble.Parts = functools.partial(Parts, pace=Pace(tick=0.5, reconcile=1.0, status=0.5))
pool = chain.EvmChain.pool
async def hasty(self):
    return dataclasses.replace(await pool(self), grace={GRACE_S})
chain.EvmChain.pool = hasty
{WORKER_MAIN}
"""


class Owing:
    """A lease on which its renter has stopped paying."""

    def __init__(self, it: Stack, renter: Renter, lease: LeaseView, process: asyncio.subprocess.Process) -> None:
        self.it, self.renter, self.lease, self.process = it, renter, lease, process
        self.price = lease.offer.offer.pricePerSecond

    async def record(self) -> Any:
        return await self.renter.controller.lease_of(self.lease.lease)

    async def until(self, what: Callable[[], Awaitable[object]], seconds: float = 40) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not await what():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError((self.it.folder / "worker.log").read_text()[-3000:]) from None

    async def state(self) -> str:
        status = json.loads((self.it.home / "status.json").read_text())
        return next((item["state"] for item in status["leases"] if item["lease"] == self.lease.lease), "")

    async def until_state(self, state: str, seconds: float = 40) -> None:
        async def reached() -> bool:
            return await self.state() == state

        await self.until(reached, seconds)

    async def demanded(self) -> bool:
        return bool((await self.record()).demandedAt)

    async def closed(self) -> bool:
        return bool((await self.record()).status == CLOSED)

    async def pass_time(self, seconds: int) -> None:
        """The chain's time alone moves on."""
        await self.renter.rpc.call("evm_increaseTime", hex(seconds))
        await self.renter.rpc.call("evm_mine")

    def runners(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


async def owing(it: Stack, seconds: int = PAID_S) -> Owing:
    """Pays the first seconds of a lease, runs a task on it, and vanishes."""
    await it.start_node()
    await it.init(tick_s=TICK_S)
    process = await it.start_worker(HASTY_WORKER)
    await it.connected()
    renter = Renter(it)
    await renter.fund(10**9)
    lease = await renter.rent(500, 3600)
    assert len(await renter.map(lease, 1)) == 1
    made = Owing(it, renter, lease, process)
    await renter.pay(lease, seconds * made.price)
    return made


async def assert_slice_is_free(it: Owing) -> None:
    devices = Devices(it.renter.controller.eth, await it.renter.controller.devices())
    device = await devices.device_of(it.lease.offer.offer.device)
    assert (device.usedShare, device.usedMemoryMiB) == (0, 0)


@pytest.mark.anvil
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_D11_vanished_renter_is_paused_demanded_closed_unpaid_and_what_was_signed_collected(
    tmp_path: Path,
) -> None:
    async with stack(tmp_path) as stack_:
        it = await owing(stack_)
        began = asyncio.get_running_loop().time()
        await it.until_state("unpaid")
        assert asyncio.get_running_loop().time() - began < PAID_S + 2 * TICK_S + 3
        assert any(found.status() == psutil.STATUS_STOPPED for found in it.runners())
        assert not await it.demanded()
        await it.until(it.demanded)
        assert await it.state() == "unpaid"
        account = await it.renter.escrow.lease_account(stack_.pool.controller, it.lease.lease)
        assert account.collected == PAID_S * it.price
        await it.pass_time(ANSWER_S // 2)
        await asyncio.sleep(2.5)
        assert (await it.record()).status == OPEN
        await it.pass_time(ANSWER_S // 2)
        await it.until(it.closed)
        assert await it.renter.settled(it.lease) == PAID_S * it.price
        await it.until_state("clean")
        assert it.runners() == []
        await assert_slice_is_free(it)
        await it.renter.aclose()


@pytest.mark.anvil
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_renter_that_pays_after_the_demand_is_served_on(tmp_path: Path) -> None:
    async with stack(tmp_path) as stack_:
        it = await owing(stack_)
        await it.until(it.demanded)
        await it.renter.pay(it.lease, 600 * it.price)
        await it.until_state("ready")
        [result] = await it.renter.map(it.lease, 1)
        assert decode(result.value or b"") == 0
        await it.pass_time(ANSWER_S)
        await asyncio.sleep(2.5)
        assert (await it.record()).status == OPEN
        assert await it.state() == "ready"
        await it.renter.close_lease(it.lease)
        await it.renter.settled(it.lease)
        await it.renter.aclose()


@pytest.mark.anvil
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_O11_worker_killed_between_demand_and_close_finishes_after_its_restart(tmp_path: Path) -> None:
    async with stack(tmp_path) as stack_:
        it = await owing(stack_)
        await it.until(it.demanded)
        demanded_at = (await it.record()).demandedAt
        os.kill(it.process.pid, signal.SIGKILL)
        await it.process.wait()
        await it.pass_time(ANSWER_S)
        it.process = await stack_.start_worker(HASTY_WORKER)
        await stack_.connected()
        assert await it.state() == "unpaid"
        assert it.runners() == []
        await it.until(it.closed)
        assert (await it.record()).demandedAt == demanded_at
        assert await it.renter.settled(it.lease) == PAID_S * it.price
        await it.until_state("clean")
        await assert_slice_is_free(it)
        await it.renter.aclose()
