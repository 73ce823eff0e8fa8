"""Rules for stuck rows, wrong nonces, refusals, urgency and deletion (O06, O07, O09)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.chain import outbox_rules as rules
from millpond.chain.errors import FeeCapError, NonceGapError
from millpond.chain.fees import GWEI, FeePolicy, Fees
from millpond.chain.outbox import MemoryOutbox, OutboxRow, SqliteOutbox, TxState, intent_digest, revived
from millpond.chain.outbox_rules import ChainView
from millpond.protocol.ids import ZERO_ADDRESS, Bytes32

HASH = Bytes32("0x" + "ab" * 32)


def row(sequence: int, state: TxState = TxState.BROADCAST, **changes: object) -> OutboxRow:
    made = OutboxRow("lane", f"k{sequence}", sequence, ZERO_ADDRESS, b"d", 1, state=state, nonce=sequence)
    return made.with_(hashes=(HASH,), mined_hash=HASH if state is TxState.FINAL else None, **changes)


def test_O07_only_the_next_in_line_and_what_offers_too_little_is_replaced() -> None:
    rows = [row(number, fees=Fees(20 if number == 7 else 90, 10)) for number in (5, 6, 7, 8)]
    waited = {"k5": 60.0, "k6": 60.0, "k7": 60.0, "k8": 1.0}
    assert [item.nonce for item in rules.stuck(rows, ChainView(9, 5, 9), 50, waited, 60.0)] == [5, 7]


def test_O07_row_that_did_not_wait_long_is_left_alone() -> None:
    assert rules.stuck([row(5, fees=Fees(1, 1))], ChainView(9, 5, 5), 50, {"k5": 59.9}, 60.0) == []


def test_O06_more_missing_nonces_than_64_are_a_wrong_answer_and_not_filled() -> None:
    with pytest.raises(NonceGapError) as caught:
        rules.gaps([row(70)], ChainView(9, 5, 5))
    assert caught.value.fields["count"] == 65
    assert len(rules.gaps([row(69)], ChainView(9, 5, 5))) == 64


@pytest.mark.parametrize(("pending", "expected"), [(9, 9), (261, 261), (262, 5), (10**9, 5), (3, 5)])
def test_O06_a_pool_that_claims_very_many_of_our_transactions_is_not_believed(pending: int, expected: int) -> None:
    assert rules.next_nonce([], ChainView(9, 5, pending)) == expected


def test_O07_urgent_intents_come_first_also_those_that_became_so() -> None:
    rows = [row(1, TxState.INTENT), row(2, TxState.INTENT, urgent_from=100), row(3, TxState.INTENT, is_urgent=True)]
    assert [item.sequence for item in rules.intents(rows, 99)] == [3, 1, 2]
    assert [item.sequence for item in rules.intents(rows, 100)] == [2, 3, 1]


@pytest.mark.parametrize(
    ("earlier", "reverts_for_s", "expected"),
    [
        (TxState.BROADCAST, 0.0, False),
        (TxState.BROADCAST, 30.0, True),
        (TxState.MINED, 0.0, True),
        (TxState.INTENT, 0.0, True),
    ],
)
def test_call_that_reverts_waits_for_an_earlier_transaction_it_may_need(
    earlier: TxState, reverts_for_s: float, expected: bool
) -> None:
    queued = row(2, TxState.INTENT)
    assert rules.is_refused(queued, [row(1, earlier), queued], reverts_for_s, 30.0) is expected


@given(blocks=st.lists(st.integers(0, 300), min_size=1, max_size=30), head=st.integers(0, 400))
def test_purge_takes_only_final_rows_that_are_old_and_never_the_newest(blocks: list[int], head: int) -> None:
    rows = [row(i, TxState.FINAL if block % 3 else TxState.MINED, block_number=block) for i, block in enumerate(blocks)]
    for item in rules.purgeable(rows, head, 100):
        assert item.state is TxState.FINAL
        assert item.block_number + 100 <= head
        assert item is not rows[-1]


def test_purge_keeps_a_revived_row_in_memory() -> None:
    assert rules.purgeable([row(0, TxState.FINAL, nonce=None), row(1)], 10**6, 1) == []


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path):  # type: ignore[no-untyped-def]
    made = MemoryOutbox() if request.param == "memory" else SqliteOutbox(tmp_path / "outbox.db")
    yield made
    if isinstance(made, SqliteOutbox):
        made.close()


async def test_O09_retired_row_is_gone_and_its_key_stays(store: MemoryOutbox) -> None:
    final = row(1, TxState.FINAL, block_number=7, block_hash=HASH, is_ok=True, gas_used=21_000)
    await store.put(final)
    await store.retire(final)
    assert await store.rows("lane") == []
    kept = await store.retired("lane", "k1")
    assert kept is not None
    assert kept.digest == intent_digest(final.to, final.data, final.value)
    again = revived(kept, OutboxRow("lane", "k1", 0, final.to, final.data, final.value))
    assert (again.state, again.mined_hash, again.block_number, again.nonce) == (TxState.FINAL, HASH, 7, None)
    assert await store.retired("other", "k1") is None


def test_O07_budget_cuts_the_offer_of_a_transaction_with_much_gas() -> None:
    policy = FeePolicy(cap=500 * GWEI, budget=10**15)
    assert policy.offer(4 * GWEI, GWEI, gas=100_000).max_fee == 9 * GWEI
    assert policy.offer(4 * GWEI, GWEI, gas=200_000).max_fee == 5 * GWEI
    with pytest.raises(FeeCapError):
        policy.offer(4 * GWEI, GWEI, gas=1_000_000)


def test_O07_bump_above_the_budget_raises_and_an_urgent_one_passes() -> None:
    policy = FeePolicy(budget=10**15, urgent_budget=10**16)
    old = Fees(9 * GWEI, GWEI)
    with pytest.raises(FeeCapError):
        policy.bump(old, 4 * GWEI, GWEI, gas=100_000)
    assert policy.bump(old, 4 * GWEI, GWEI, True, gas=100_000).max_fee * 8 >= old.max_fee * 9
