"""Offers, replacements and caps (O07)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.chain.errors import FeeCapError
from millpond.chain.fees import GWEI, FeePolicy, Fees

POLICY = FeePolicy(cap=500 * GWEI, urgent_cap=2000 * GWEI)


def test_offer_is_twice_the_base_fee_and_the_tip() -> None:
    assert POLICY.offer(10 * GWEI, 2 * GWEI) == Fees(22 * GWEI, 2 * GWEI)


def test_O07_offer_near_the_cap_is_cut_to_it() -> None:
    assert POLICY.offer(400 * GWEI, 2 * GWEI).max_fee == 500 * GWEI


def test_O07_base_fee_times_100_above_the_cap_raises() -> None:
    with pytest.raises(FeeCapError) as caught:
        POLICY.offer(1000 * GWEI, GWEI)
    assert caught.value.fields == {"base_fee": 1000 * GWEI, "cap": 500 * GWEI}


def test_O07_urgent_offer_passes_where_others_wait() -> None:
    assert POLICY.offer(1000 * GWEI, GWEI, is_urgent=True).max_fee == 2000 * GWEI


@given(
    max_fee=st.integers(1, 400 * GWEI),
    tip_share=st.integers(0, 100),
    base=st.integers(0, 300 * GWEI),
    market_tip=st.integers(0, 10 * GWEI),
)
def test_O07_bump_raises_both_fees_by_an_eighth_and_keeps_the_cap(
    max_fee: int, tip_share: int, base: int, market_tip: int
) -> None:
    old = Fees(max_fee, max_fee * tip_share // 100)
    new = POLICY.bump(old, base, market_tip)
    assert new.max_fee * 8 >= old.max_fee * 9
    assert new.tip * 8 >= old.tip * 9
    assert new.tip <= new.max_fee <= POLICY.cap


def test_O07_bump_without_room_below_the_cap_raises() -> None:
    with pytest.raises(FeeCapError):
        POLICY.bump(Fees(450 * GWEI, GWEI), GWEI, GWEI)


@given(base=st.integers(0, 500 * GWEI), tip=st.integers(0, 10_000 * GWEI))
def test_offer_tip_never_exceeds_the_whole_fee(base: int, tip: int) -> None:
    offer = POLICY.offer(base, tip)
    assert offer.tip <= offer.max_fee <= POLICY.cap
