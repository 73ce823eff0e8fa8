"""What the demo reads back from a real chain, and what it adds up to."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from _demo import ledger
from _demo.earnings import withdraw_earnings
from _demo.history import History, operation_name, read_history
from millpond.chain import artefacts
from millpond.chain.address_book import CREATE2_DEPLOYER
from millpond.dev.accounts import Account, wallet
from millpond.protocol import vouchers

pytestmark = pytest.mark.anvil

RENTER = wallet(Account.RENTER).address
GROSS = 100_000
EARMARK = 1000 * 3660


@pytest.fixture(scope="session")
def history(pool: Any) -> History:
    return asyncio.run(read_history(pool.url, pool.book, pool.controller, RENTER))


def test_money_of_the_renter_adds_up_to_the_deposit(history: History) -> None:
    money = ledger.money(history, RENTER)
    paid, fee, burnt = vouchers.split(GROSS, 25_000, 5_000)
    assert (money.paid, money.fees, money.burnt) == (2 * paid, 2 * fee, 2 * burnt)
    assert money.deposited == money.earmarked == 2 * EARMARK
    assert money.refunded == 2 * (EARMARK - GROSS)
    assert money.is_balanced


def test_money_of_somebody_else_is_nothing(history: History) -> None:
    money = ledger.money(history, wallet(7).address)
    assert (money.deposited, money.earmarked, money.paid, money.refunded) == (0, 0, 0, 0)


def test_balances_of_escrow_agree_with_the_events(history: History) -> None:
    money, balances = ledger.money(history, RENTER), history.balances
    assert (balances.free, balances.payouts, balances.treasury, balances.burn) == (
        money.refunded, money.paid, money.fees, money.burnt,
    )  # fmt: skip


def test_slices_show_share_tasks_seconds_and_earnings(history: History, pool: Any) -> None:
    first, second = ledger.slices(history, Counter({pool.leases[0]: 2, pool.leases[1]: 1}))
    assert (first.lease, first.share, first.tasks, first.seconds) == (pool.leases[0], 500, 2, 100)
    assert (second.share, second.memory_mib, second.tasks) == (300, 1000, 1)
    assert first.earned + second.earned == ledger.money(history, RENTER).paid


def test_gas_counts_every_transaction_by_its_operation(history: History) -> None:
    gas = ledger.gas(history.operations)
    assert gas["Controller.openLease"].count == 3
    assert gas["Controller.openLease"].refused == 1
    assert gas["Controller.closeLease"].count == gas["Controller.collectFinal"].count == 2
    assert gas["Attestations.postReceipts"].count == 1
    assert {f"deploy {name}" for name in ("Escrow", "Devices", "Staking", "PoolFactory", "MockToken")} <= gas.keys()
    assert not [name for name in gas if "0x" in name or name == "deploy"]
    assert all(row.least <= row.mean <= row.most for row in gas.values())


def test_receipts_leases_and_devices_are_counted_from_events(history: History, pool: Any) -> None:
    assert ledger.posted_receipts(history, pool.controller) == 3
    assert ledger.posted_receipts(history, RENTER) == 0
    assert ledger.device_kinds(history) == ["cpu"]
    assert len(history.named("Controller", "LeaseClosed")) == 2


def test_withdrawn_earnings_still_count_as_paid(history: History, pool: Any) -> None:
    view = SimpleNamespace(chain_id=31337, escrow=pool.book.address("Escrow"), token=pool.token)
    withdrawn = asyncio.run(withdraw_earnings(pool.url, view, 2))
    after = asyncio.run(read_history(pool.url, pool.book, pool.controller, RENTER))
    assert withdrawn == history.balances.payouts == after.balances.payouts > 0


def test_operation_name_tells_what_a_transaction_did() -> None:
    code = artefacts.load("Escrow").bytecode
    where = CREATE2_DEPLOYER
    assert operation_name(where, bytes(32) + code + b"arguments", {}) == "deploy Escrow"
    assert operation_name(None, code, {}) == "deploy Escrow"
    assert operation_name(None, b"\x60", {}) == "deploy"
    selector = artefacts.load("Controller").abi.function("openLease").selector
    assert operation_name(RENTER, selector, {RENTER: "Controller"}) == "Controller.openLease"
    assert operation_name(RENTER, b"\1\2\3\4", {RENTER: "Controller"}) == "Controller.0x01020304"
    assert operation_name(RENTER, b"", {}) == "transfer"
