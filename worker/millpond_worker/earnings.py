"""What a provider has earned: in open leases by the vouchers kept, owed in Escrow, and withdrawn. Read from the chain and the worker's own records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.chain.address_book import AddressBook
from millpond.chain.bindings import Escrow
from millpond.chain.eth import Log
from millpond.chain.reverts import ContractRevertError
from millpond.protocol import wire
from millpond.protocol.ids import Address, Bytes32
from millpond_worker.home import Home, is_running, read_json
from millpond_worker.machine.model import LeaseRow
from millpond_worker.machine.rows import LEASE_TABLE
from millpond_worker.standing import Contracts

LOG_SPAN = 10_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A lease the worker still has on its books, and its best voucher, base units."""

    lease: Bytes32
    state: str
    cumulative: int
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaseEarning:
    """`voucher` is what the renter has signed, `collected` what of it was taken, fee and burn included; base units."""

    lease: Bytes32
    state: str
    voucher: int
    collected: int


@dataclass(frozen=True, slots=True)
class Earnings:
    """Base units. `in_leases` is signed and not yet collected, before fee and burn."""

    payout: Address
    in_leases: int
    owed: int
    withdrawn: int
    leases: tuple[LeaseEarning, ...]


def kept_leases(home: Home) -> list[Kept]:
    """From the running worker's status, else from its journal."""
    if is_running(home):
        status: Mapping[str, Any] = read_json(home.status) or {}
        return [Kept(item["lease"], item["state"], int(item["voucher"])) for item in status.get("leases", [])]
    if not home.journal.exists():
        return []
    from millpond.storage.journal import SqliteJournal

    journal = SqliteJournal(home.journal)
    try:
        rows = [wire.read(LeaseRow, value) for _, value in journal.scan(LEASE_TABLE)]
    finally:
        journal.close()
    return [Kept(row.lease, row.state.value, row.cumulative, row.signature) for row in rows]


async def read_earnings(found: Contracts, book: AddressBook, provider: Address, kept: Sequence[Kept]) -> Earnings:
    """Raises the errors of `Rpc`, and `DevicesProviderUnknownError` for an owner that never registered."""
    payout = (await found.devices.provider_of(provider)).payout
    escrow = Escrow(found.eth, found.escrow)
    owed, withdrawn = await asyncio.gather(
        escrow.owed(found.params.token, payout), _withdrawn(found, escrow, book.block, payout)
    )
    leases = [await _lease(found, escrow, item) for item in kept]
    waiting = sum(max(0, item.voucher - item.collected) for item in leases)
    return Earnings(payout, waiting, owed, withdrawn, tuple(leases))


async def _lease(found: Contracts, escrow: Escrow, item: Kept) -> LeaseEarning:
    try:
        collected = (await escrow.lease_account(found.controller.address, item.lease)).collected
    except ContractRevertError:
        collected = 0
    return LeaseEarning(item.lease, item.state, item.cumulative, collected)


async def _withdrawn(found: Contracts, escrow: Escrow, first: int, payout: Address) -> int:
    """Sum of the `OwedWithdrawn` events of this account and token."""
    topic = escrow.abi.event("OwedWithdrawn").topic
    head = await found.eth.block_number()
    total = 0
    for start in range(first, head + 1, LOG_SPAN):
        for log in await found.eth.logs(start, min(head, start + LOG_SPAN - 1), [escrow.address]):
            total += _amount(found, escrow, log, payout) if log.topics[0] == topic else 0
    return total


def _amount(found: Contracts, escrow: Escrow, log: Log, payout: Address) -> int:
    from millpond.chain.abi import decode_event

    event = decode_event(escrow.abi.event("OwedWithdrawn"), log.topics, log.data)
    is_ours = (event["token"], event["account"]) == (found.params.token, payout)
    return int(event["amount"]) if is_ours else 0
