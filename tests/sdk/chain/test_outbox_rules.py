"""What rows become, for each thing a chain may say (O05, O06, O09)."""

from __future__ import annotations

import pytest

from millpond.chain import outbox_rules as rules
from millpond.chain.eth import TxReceipt
from millpond.chain.outbox import OutboxRow, TxState
from millpond.chain.outbox_rules import ChainView
from millpond.protocol.ids import ZERO_ADDRESS, Bytes32

FINALITY = 2


def hash_of(number: int) -> Bytes32:
    return Bytes32(f"0x{number:064x}")


def row(nonce: int | None, state: TxState = TxState.BROADCAST, hashes: tuple[int, ...] = ()) -> OutboxRow:
    signed = tuple(hash_of(item) for item in hashes) or ((hash_of(nonce),) if nonce is not None else ())
    mined = state in {TxState.MINED, TxState.FINAL}
    return OutboxRow(
        "lane",
        f"k{nonce}",
        1,
        ZERO_ADDRESS,
        b"",
        0,
        state=state,
        nonce=nonce,
        hashes=signed,
        raw=b"raw",
        mined_hash=signed[-1] if mined else None,
        block_number=10 if mined else 0,
        block_hash=hash_of(10) if mined else None,
        is_ok=True if mined else None,
        gas_used=21_000 if mined else 0,
    )


def receipt(number: int, block: int = 10, *, block_hash: int | None = None, is_ok: bool = True) -> TxReceipt:
    return TxReceipt(hash_of(number), block, hash_of(block_hash or block), is_ok, 21_000, 1, ())


def view(
    head: int, latest: int, *receipts: TxReceipt, pending: int | None = None, taken: dict[int, Bytes32] | None = None
) -> ChainView:
    return ChainView(
        head, latest, latest if pending is None else pending, {item.tx_hash: item for item in receipts}, taken or {}
    )


def test_receipt_makes_broadcast_row_mined() -> None:
    [changed] = rules.reconcile([row(0)], view(10, 1, receipt(0)), FINALITY)
    assert (changed.state, changed.block_number, changed.is_ok, changed.gas_used) == (TxState.MINED, 10, True, 21_000)


@pytest.mark.parametrize(("head", "state"), [(10, TxState.MINED), (11, TxState.MINED), (12, TxState.FINAL)])
def test_row_is_final_at_exactly_the_finality_depth(head: int, state: TxState) -> None:
    [changed] = rules.reconcile([row(0)], view(head, 1, receipt(0)), FINALITY)
    assert changed.state is state


def test_receipt_of_an_older_version_counts() -> None:
    [changed] = rules.reconcile([row(0, hashes=(7, 8))], view(10, 1, receipt(7)), FINALITY)
    assert changed.mined_hash == hash_of(7)


def test_O05_mined_row_without_receipt_goes_back_to_signed() -> None:
    [changed] = rules.reconcile([row(0, TxState.MINED)], view(9, 0), FINALITY)
    assert (changed.state, changed.mined_hash, changed.block_number, changed.is_ok) == (TxState.SIGNED, None, 0, None)
    assert changed.raw == b"raw"


def test_O05_mined_row_in_another_block_takes_its_new_place() -> None:
    [changed] = rules.reconcile([row(0, TxState.MINED)], view(11, 1, receipt(0, 11, is_ok=False)), FINALITY)
    assert (changed.state, changed.block_number, changed.is_ok) == (TxState.MINED, 11, False)


def test_O05_final_row_is_undone_when_its_nonce_is_free_again() -> None:
    [changed] = rules.reconcile([row(4, TxState.FINAL)], view(8, 4), FINALITY)
    assert changed.state is TxState.SIGNED


def test_final_row_below_the_latest_nonce_stays() -> None:
    assert rules.reconcile([row(4, TxState.FINAL)], view(50, 5), FINALITY) == []


def test_O09_passed_nonce_without_a_known_taker_is_never_signed_again() -> None:
    assert rules.passed([row(3)], view(20, 4)) == [3]
    assert rules.reconcile([row(3)], view(20, 4), FINALITY) == []


def test_O09_passed_nonce_taken_by_our_own_transaction_waits_for_its_receipt() -> None:
    assert rules.reconcile([row(3)], view(20, 4, taken={3: hash_of(3)}), FINALITY) == []


def test_O06_nonce_taken_by_another_program_gives_the_intent_a_new_one() -> None:
    [changed] = rules.reconcile([row(3)], view(20, 4, taken={3: hash_of(99)}), FINALITY)
    assert (changed.state, changed.nonce, changed.hashes, changed.raw) == (TxState.INTENT, None, (), b"")


def test_O09_passed_nonce_with_a_receipt_is_mined() -> None:
    [changed] = rules.reconcile([row(3)], view(20, 4, receipt(3), taken={3: hash_of(99)}), FINALITY)
    assert changed.state is TxState.FINAL


def test_intents_are_left_alone() -> None:
    assert rules.reconcile([row(None, TxState.INTENT)], view(20, 4, taken={3: hash_of(99)}), FINALITY) == []


@pytest.mark.parametrize(
    ("nonces", "latest", "pending", "expected"),
    [([], 5, 5, 5), ([], 5, 7, 7), ([5, 6], 5, 5, 7), ([5, 6], 5, 9, 9), ([2], 5, 5, 5)],
)
def test_next_nonce_is_beyond_chain_pool_and_rows(nonces: list[int], latest: int, pending: int, expected: int) -> None:
    assert rules.next_nonce([row(nonce) for nonce in nonces], view(1, latest, pending=pending)) == expected


@pytest.mark.parametrize(
    ("nonces", "latest", "pending", "expected"),
    [
        ([5, 6], 5, 5, []),
        ([6], 5, 5, [5]),
        ([6], 5, 6, []),
        ([8, 10], 5, 5, [5, 6, 7, 9]),
        ([3], 5, 5, []),
        ([], 5, 5, []),
    ],
)
def test_O06_gaps_are_nonces_nobody_fills(nonces: list[int], latest: int, pending: int, expected: list[int]) -> None:
    assert rules.gaps([row(nonce) for nonce in nonces], view(1, latest, pending=pending)) == expected


def test_watched_asks_for_all_versions_of_what_is_not_final() -> None:
    rows = [row(0, hashes=(7, 8)), row(1, TxState.MINED), row(2, TxState.FINAL), row(None, TxState.INTENT)]
    assert rules.watched(rows) == [hash_of(7), hash_of(8), hash_of(1)]
