"""Whom to ask and whom to believe (O04): rules without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.chain import rpc_rules as rules
from millpond.chain.rpc_rules import Floor, Health, RpcPolicy

POLICY = RpcPolicy()


def health(head: int = 100, latency_s: float = 0.1, rests_until: float = float("-inf")) -> Health:
    return Health("x", rests_until=rests_until, latency_s=latency_s, head=head)


def test_O04_failures_in_a_row_double_the_rest_up_to_a_minute() -> None:
    found, rests = health(), []
    for _ in range(9):
        found = rules.failed(found, "down", 0.0, POLICY)
        rests.append(found.rests_until)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_O04_an_answer_ends_the_rest_and_forgets_failures() -> None:
    found = rules.answered(rules.failed(health(), "down", 0.0, POLICY), 101, 0.2)
    assert (found.failures, found.is_resting(0.5), found.head, found.reason) == (0, False, 101, "")


@pytest.mark.parametrize(
    ("heads", "expected"), [([], -1), ([7], 7), ([7, 9], 9), ([7, 9, 10**9], 9), ([5, 100, 101], 100), ([-1, 8, 8], 8)]
)
def test_O04_one_server_of_three_cannot_set_the_height_of_all(heads: list[int], expected: int) -> None:
    assert rules.reference_head([health(head) for head in heads]) == expected


@pytest.mark.parametrize(
    ("head", "is_off"), [(96, True), (97, False), (100, False), (164, False), (165, True), (-1, False)]
)
def test_O04_server_far_behind_or_ahead_is_not_asked_for_heads(head: int, is_off: bool) -> None:
    assert rules.is_off(health(head), 100, POLICY) is is_off


def test_order_stays_with_the_server_asked_before() -> None:
    assert rules.order([health(latency_s=0.1), health(latency_s=0.2), health(latency_s=0.05)], 1, 0.0, POLICY) == [
        1,
        2,
        0,
    ]


def test_order_leaves_a_server_that_became_slow() -> None:
    assert rules.order([health(latency_s=0.1), health(latency_s=2.0)], 1, 0.0, POLICY) == [0, 1]


def test_O04_order_puts_resting_last_and_lagging_before_them() -> None:
    servers = [health(rests_until=9.0), health(head=50), health(head=100), health(rests_until=5.0)]
    assert rules.order(servers, 0, 1.0, POLICY) == [2, 1, 3, 0]


@given(count=st.integers(1, 9))
def test_two_quorums_always_share_a_server(count: int) -> None:
    assert 2 * rules.quorum_of(count) > count


@given(votes=st.lists(st.sampled_from("abc"), max_size=7), quorum=st.integers(1, 5))
def test_elected_has_the_quorum_or_nobody_is(votes: list[str], quorum: int) -> None:
    winner = rules.elected(dict(enumerate(votes)), quorum)
    most = max((votes.count(vote) for vote in votes), default=0)
    assert (winner is not None) == (most >= quorum)
    assert winner is None or votes.count(str(winner)) == most


@pytest.mark.parametrize(
    ("heads", "quorum", "expected"), [([100, 101, 999], 2, 101), ([100, 3], 2, 3), ([100], 2, None), ([], 1, None)]
)
def test_O04_block_to_agree_on_is_one_a_quorum_has(heads: list[int], quorum: int, expected: int | None) -> None:
    assert rules.block_to_agree_on(heads, quorum) == expected


def test_O04_lost_blocks_are_given_up_after_a_while_and_at_once_on_a_development_chain() -> None:
    floor = rules.missed(Floor(100), 5.0)
    assert rules.missed(floor, 50.0) == floor
    assert not rules.is_gone(floor, 64.9, POLICY, False)
    assert rules.is_gone(floor, 65.0, POLICY, False)
    assert rules.is_gone(Floor(100), 0.0, POLICY, True)
    assert rules.raised(floor, 101) == Floor(101)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (-32005, "limit", True),
        (-32000, "header not found", True),
        (-32000, "insufficient funds", False),
        (3, "execution reverted", False),
        (-32601, "no such method", False),
    ],
)
def test_O04_only_a_busy_or_late_server_is_asked_around(code: int, message: str, expected: bool) -> None:
    assert rules.is_servers_fault(code, message) is expected
