"""Brings a provider out of a pool, as far as the chain lets it now: owner's steps, and those of leases the worker still had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from millpond.chain.bindings import Escrow
from millpond.chain.reverts import ContractRevertError
from millpond.chain.transactor import Transactor
from millpond.protocol import wire
from millpond.protocol.ids import Address, Bytes32
from millpond_worker.edge.chain import EvmChain
from millpond_worker.home import Home
from millpond_worker.init import Done, Step, send_step
from millpond_worker.leaving import LeaseTie, Move, Ties, Wait, next_move, waits
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.model import LIVE, LeaseRow, LeaseState, Terms, WorkerState
from millpond_worker.machine.rows import LEASE_TABLE
from millpond_worker.machine.settle import LAST_VOUCHER_LATEST_SECONDS, settle
from millpond_worker.standing import Contracts


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who leaves which pool with which devices; the stake goes to `to`."""

    owner: Address
    to: Address
    devices: Sequence[Bytes32]
    gives_notice: bool = False


async def leave(
    found: Contracts, transactor: Transactor, who: Leaver, ties_of_leases: Sequence[LeaseTie]
) -> AsyncIterator[Done]:
    """Sends one step after the other until nothing more is due, and tells of each. Raises `ContractRevertError` kinds."""
    while True:
        move = next_move(await read_ties(found, who, ties_of_leases))
        if move is None:
            return
        yield await send_step(transactor, await _step(found, who, move))


async def what_waits(found: Contracts, who: Leaver, ties_of_leases: Sequence[LeaseTie]) -> list[Wait]:
    return waits(await read_ties(found, who, ties_of_leases))


async def read_ties(found: Contracts, who: Leaver, leases: Sequence[LeaseTie]) -> Ties:
    pool, token, staking = found.controller.address, found.params.token, found.staking
    header = await found.eth.header()
    payout = (await found.devices.provider_of(who.owner)).payout
    provision, thaws, idle, owed = await asyncio.gather(
        staking.provision_of(pool, who.owner),
        staking.thaw_entries(pool, who.owner),
        staking.idle(token, who.owner),
        Escrow(found.eth, found.escrow).owed(token, payout),
    )
    devices = {}
    for device in who.devices:
        try:
            devices[device] = await found.devices.device_of(device)
        except ContractRevertError:
            continue
    thawable = await staking.thawable(pool, who.owner) if provision.active else 0
    now = header.timestamp if header else 0
    return Ties(pool, now, devices, provision, thawable, thaws, idle, owed, leases)


async def _step(found: Contracts, who: Leaver, move: Move) -> Step:
    pool, token = found.controller.address, found.params.token
    match move.step, move.device:
        case "drain", device if device is not None:
            call = found.devices.set_draining(device, True)
        case "leave", device if device is not None:
            call = found.devices.leave(device)
        case "retire", _:
            call = found.staking.retire(pool)
        case "thaw", _:
            call = found.staking.thaw(pool, move.amount)
        case "complete thaw", _:
            call = found.staking.complete_thaw(pool)
        case "withdraw stake", _:
            call = found.staking.withdraw(token, move.amount, who.to)
        case _:
            payout = (await found.devices.provider_of(who.owner)).payout
            call = Escrow(found.eth, found.escrow).withdraw_owed(token, payout)
    return Step(move.step, call)


# LEASES OF A WORKER THAT DOES NOT RUN


def kept_rows(home: Home) -> list[LeaseRow]:
    if not home.journal.exists():
        return []
    from millpond.storage.journal import SqliteJournal

    journal = SqliteJournal(home.journal)
    try:
        return [wire.read(LeaseRow, value) for _, value in journal.scan(LEASE_TABLE)]
    finally:
        journal.close()


async def settle_leases(chain: EvmChain, terms: Terms, rows: Sequence[LeaseRow], who: Leaver) -> list[LeaseTie]:
    """Closes, collects and releases what is due, by the rules of the running worker; returns what is not over yet."""
    state = WorkerState(terms, gives_notice=who.gives_notice)
    by_lease = {row.lease: row for row in rows}
    while True:
        facts = await chain.facts(list(by_lease))
        sent = False
        for fact in facts:
            row = _idle_row(by_lease[fact.lease], fact)
            state.leases[row.lease] = row
            for command in settle(state, row, fact, fact.head_time):
                await chain.send(command)  # type: ignore[arg-type]
                sent = True
        if not sent:
            return [tie for tie in (_tie(terms, fact) for fact in facts) if tie is not None]
        by_lease = {name: replace(row, marks=()) for name, row in by_lease.items()}


def _idle_row(row: LeaseRow, fact: LeaseFact) -> LeaseRow:
    """Nothing is served: what the chain has closed is over here too."""
    is_over = row.state in LIVE and fact.status is not LeaseStatus.OPEN
    return row.with_(state=LeaseState.CLEAN, marks=()) if is_over else row.with_(marks=())


def _tie(terms: Terms, fact: LeaseFact) -> LeaseTie | None:
    if fact.status is LeaseStatus.OPEN:
        return LeaseTie(fact.lease, "close lease", min(fact.notice_ends_at or fact.ends_at, fact.ends_at))
    if fact.status is LeaseStatus.CLOSED and not fact.is_settled:
        return LeaseTie(fact.lease, "collect", fact.closed_at + LAST_VOUCHER_LATEST_SECONDS)
    if fact.status is LeaseStatus.CLOSED:
        return LeaseTie(fact.lease, "release exposure", fact.closed_at + terms.claim_window + terms.dispute_window)
    return None
