"""A worker's machine whose clock is an hour off, or goes back: what happens to offers, meters and vouchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from worker_world import DEVICE, PRICE, START, TICK, World, desired, fact, state, voucher

from millpond.protocol.link import LeasePhase
from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.agent.rounds import Rounds
from millpond_worker.machine.commands import Pause, SendTx
from millpond_worker.machine.events import ChainSaid, Connected, Launched, Tick
from millpond_worker.machine.handle import handle
from millpond_worker.machine.model import LeaseState, TxKind, WorkerState
from millpond_worker.offers import LIFETIME_S

HOUR = 3600


def served(ready_at: int = START) -> tuple[WorkerState, str]:
    """A lease served from `ready_at` of the worker's clock; the chain's clock says START."""
    world = state()
    wanted = desired(phase=LeasePhase.SEEN)
    handle(world, Connected(0), ready_at)
    handle(world, wanted, ready_at)
    handle(world, ChainSaid(fact(wanted.lease, ends_at=START + 7 * HOUR)), ready_at)
    handle(world, Launched(wanted.lease), ready_at)
    assert world.leases[wanted.lease].state is LeaseState.READY
    return world, wanted.lease


def kinds(commands: list[object]) -> list[type]:
    return [type(command) for command in commands]


@pytest.mark.parametrize("skew", [-HOUR, 0, HOUR])
def test_meter_counts_the_same_seconds_whatever_the_clock_says(skew: int) -> None:
    world, lease = served(START + skew)
    [row] = world.leases.values()
    assert row.unpaid_seconds(START + skew + 15) == 15
    handle(world, voucher(lease, 15 * PRICE), START + skew + 15)  # type: ignore[arg-type]
    assert world.leases[row.lease].unpaid_seconds(START + skew + 15) == 0


def test_clock_that_jumps_an_hour_ahead_pauses_the_lease_and_asks_the_renter_for_nothing_on_chain() -> None:
    world, _ = served()
    commands = handle(world, Tick(), START + 5 + HOUR)
    assert Pause in kinds(commands)  # type: ignore[comparison-overlap]
    assert not [command for command in commands if isinstance(command, SendTx)]


def test_renter_who_does_not_believe_the_jump_pays_no_more_than_its_own_meter_and_one_tick() -> None:
    """The worker never holds more than was signed, and what was signed is the renter's own reckoning."""
    world, lease = served()
    own = 5 * PRICE
    handle(world, voucher(lease, own), START + 5)  # type: ignore[arg-type]
    handle(world, Tick(), START + 5 + HOUR)
    [row] = world.leases.values()
    assert row.cumulative == own
    collected = handle(
        world, ChainSaid(fact(row.lease, head_time=START + 400, ends_at=START + 7 * HOUR)), START + 400 + HOUR
    )
    assert all(command.cumulative <= own + TICK * PRICE for command in collected if isinstance(command, SendTx))


def test_paused_by_a_jump_that_is_taken_back_the_lease_goes_on_with_the_next_voucher() -> None:
    world, lease = served()
    handle(world, Tick(), START + 5 + HOUR)
    handle(world, Tick(), START + 10)
    handle(world, voucher(lease, 10 * PRICE), START + 10)  # type: ignore[arg-type]
    [row] = world.leases.values()
    assert row.state is LeaseState.READY
    assert row.unpaid_seconds(START + 10) <= TICK


def test_clock_that_goes_back_an_hour_stops_no_lease_and_adds_nothing_to_the_meter() -> None:
    world, lease = served()
    handle(world, voucher(lease, 20 * PRICE), START + 20)  # type: ignore[arg-type]
    assert handle(world, Tick(), START + 20 - HOUR) == []
    [row] = world.leases.values()
    assert (row.state, row.unpaid_seconds(START + 20 - HOUR), row.cumulative) == (LeaseState.READY, 0, 20 * PRICE)


def test_worker_an_hour_ahead_ends_no_lease_whose_end_the_chain_has_not_reached() -> None:
    """It gives the last hour away: it stops serving, and closes only when the chain says so."""
    world, _ = served()
    [row] = world.leases.values()
    commands = handle(
        world, ChainSaid(fact(row.lease, head_time=START + 7 * HOUR - 1, ends_at=START + 7 * HOUR)), START
    )
    assert not [item for item in commands if isinstance(item, SendTx) and item.kind is TxKind.CLOSE]


@pytest.fixture
async def rounds(tmp_path: Path) -> AsyncIterator[tuple[World, Rounds]]:
    world = World(tmp_path)
    agent = Agent(world.parts())
    yield world, Rounds(agent, Link(agent))
    await agent.background.close()


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
async def test_offers_are_dated_by_the_chain_when_the_machine_is_an_hour_off(
    rounds: tuple[World, Rounds], ahead: int, caplog: pytest.LogCaptureFixture
) -> None:
    world, it = rounds
    world.chain.ahead = ahead
    await it.renew()
    assert [signed.offer.deadline for signed in it._parts.offers.current()] == [START + ahead + LIFETIME_S]
    assert it.skew == -ahead
    assert "this machine's clock and the newest block are" in caplog.text


async def test_offers_are_renewed_well_before_their_deadline(rounds: tuple[World, Rounds]) -> None:
    world, it = rounds
    await it.renew()
    for _ in range(30):
        await world.clock.advance(60)
        await it.renew()
        assert all(signed.offer.deadline - world.clock.now() > LIFETIME_S // 2 for signed in it._parts.offers.current())


async def test_price_rise_cancels_the_older_offers_on_chain_once_and_signs_with_the_new_epoch(
    rounds: tuple[World, Rounds],
) -> None:
    import dataclasses

    world, it = rounds
    await it.renew()
    offers = it._parts.offers
    offers.change([dataclasses.replace(offers.templates[0], price=2 * PRICE)], offers.policy)
    await it.renew()
    for _ in range(20):
        await asyncio.sleep(0)
    await it.renew()
    assert world.chain.cancelled == [(DEVICE, 0)]
    assert [(item.offer.pricePerSecond, item.offer.epoch) for item in offers.current()] == [(2 * PRICE, 1)]


async def test_price_rise_whose_cancellation_fails_is_tried_again(rounds: tuple[World, Rounds]) -> None:
    import dataclasses

    world, it = rounds
    await it.renew()
    offers = it._parts.offers
    offers.change([dataclasses.replace(offers.templates[0], price=2 * PRICE)], offers.policy)
    world.chain.is_down = True
    await it.renew()
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.chain.cancelled == []
    world.chain.is_down = False
    await it.renew()
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.chain.cancelled == [(DEVICE, 0)]
