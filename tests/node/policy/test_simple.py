"""The first policy: order, filters that add up, best fit, and the same decisions for the same deltas."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32
from millpond.protocol.signed import Offer, Request
from millpond_node.policy.port import (
    FundsKnown,
    Listing,
    OfferAvoided,
    OffersListed,
    Policy,
    RequestGone,
    RequestQueued,
    SliceFreed,
    SliceTaken,
    WorkerSeen,
)
from millpond_node.policy.simple import SimplePolicy

NOW = 1000


def account(number: int) -> Address:
    return Address("0x" + f"{number:040x}")


def word(number: int) -> Bytes32:
    return Bytes32("0x" + f"{number:064x}")


W1, W2, R1, R2 = (account(number) for number in range(1, 5))
OFFER = Offer(account(9), word(1), 1, 0, 1, 500, 512, 1000, 1024, 1024, 0, 100, 10, 60, ZERO_BYTES32, 3600, 0, 5000)
REQUEST = Request(
    R1, account(9), account(8), ZERO_BYTES32, W1, 0, 100, 256, 0, 0, 0, 1000, 600, 60, R1, 0, ZERO_BYTES32, 9000, 1
)


def listing(number: int, device: int = 1, worker: Address = W1, memory_mib: int = 4096, **changes) -> Listing:
    return Listing(word(number), replace(OFFER, device=word(device), **changes), worker, account(7), memory_mib)


def queued(number: int, renter: Address = R1, priority: int = 0, **changes) -> RequestQueued:
    return RequestQueued(word(number), replace(REQUEST, renter=renter, **changes), priority, number)


def policy_with(*listings: Listing) -> SimplePolicy:
    policy = SimplePolicy()
    for worker in {item.worker for item in listings}:
        policy.apply(OffersListed(worker, tuple(item for item in listings if item.worker == worker)))
        policy.apply(WorkerSeen(worker, True))
    return policy


def placed(policy: SimplePolicy, now: int = NOW) -> list[tuple[Bytes32, Bytes32]]:
    return [(start.request, start.offer) for start in policy.decide(now, 100)]


def test_simple_policy_is_a_policy() -> None:
    assert isinstance(SimplePolicy(), Policy)


def test_request_that_fits_is_started_once() -> None:
    policy = policy_with(listing(50))
    policy.apply(queued(1))
    assert placed(policy) == [(word(1), word(50))]
    assert placed(policy) == []


def test_decisions_take_capacity_at_once() -> None:
    policy = policy_with(listing(50))
    for number in (1, 2, 3):
        policy.apply(queued(number))
    assert [request for request, _ in placed(policy)] == [word(1), word(2)]
    policy.apply(SliceFreed(word(1)))
    assert [request for request, _ in placed(policy)] == [word(3)]


def test_best_fit_takes_the_device_with_least_memory_left() -> None:
    policy = policy_with(listing(50, device=1, memory_mib=4096), listing(51, device=2, memory_mib=1024))
    policy.apply(queued(1))
    assert placed(policy) == [(word(1), word(51))]


def test_renters_priorities_order_only_its_own_requests() -> None:
    policy = policy_with(listing(50, share=1000))
    policy.apply(queued(1, renter=R2))
    policy.apply(queued(2, renter=R1, priority=0))
    policy.apply(queued(3, renter=R1, priority=9))
    order = []
    for _ in range(3):
        ((request, _),) = placed(policy)
        order.append(request)
        policy.apply(SliceFreed(request))
    assert order == [word(1), word(3), word(2)]


@pytest.mark.parametrize(
    ("name", "request_changes", "offer_changes"),
    [
        ("offer", {"offer": word(77)}, {}),
        ("isolation", {"isolation": 2}, {}),
        ("share", {"share": 501}, {}),
        ("memory", {"memoryMiB": 513}, {}),
        ("host", {"cpuMilli": 1001}, {}),
        ("host", {"ramMiB": 1025}, {}),
        ("host", {"diskMiB": 1025}, {}),
        ("price", {"maxPricePerSecond": 99}, {}),
        ("duration", {"duration": 3601}, {}),
        ("deadline", {}, {"deadline": NOW + 15}),
    ],
)
def test_filter_removes_and_names_a_remedy(name, request_changes, offer_changes) -> None:
    policy = policy_with(listing(50, **offer_changes))
    policy.apply(queued(1, **request_changes))
    assert placed(policy) == []
    said = policy.explain(word(1), NOW)
    assert [(item.filter, item.removed) for item in said.filters] == [(name, 1)]
    assert said.message == said.filters[0].remedy


def test_filter_online_removes_offers_of_absent_workers() -> None:
    policy = policy_with(listing(50))
    policy.apply(WorkerSeen(W1, False))
    policy.apply(queued(1))
    assert placed(policy) == []
    assert policy.explain(word(1), NOW).filters[0].filter == "online"
    policy.apply(WorkerSeen(W1, True))
    assert len(placed(policy)) == 1


def test_filter_funds_counts_the_deposit() -> None:
    policy = policy_with(listing(50))
    policy.apply(FundsKnown(R1, 100 * 660 - 1))
    policy.apply(queued(1))
    assert placed(policy) == []
    policy.apply(FundsKnown(R1, 100 * 660))
    assert len(placed(policy)) == 1


def test_filter_cap_counts_the_renters_live_leases() -> None:
    policy = policy_with(listing(50, capPerRenter=1))
    policy.apply(SliceTaken(word(900), word(1), 10, 10, R1))
    policy.apply(queued(1))
    assert placed(policy) == []
    policy.apply(queued(2, renter=R2))
    assert len(placed(policy)) == 1


def test_offer_the_chain_refused_is_tried_again_after_its_time() -> None:
    policy = policy_with(listing(50))
    policy.apply(OfferAvoided(word(1), word(50), NOW + 30))
    policy.apply(queued(1))
    assert placed(policy) == []
    assert placed(policy, NOW + 30) == [(word(1), word(50))]


def test_explain_without_offers_says_so() -> None:
    policy = SimplePolicy()
    policy.apply(queued(1))
    said = policy.explain(word(1), NOW)
    assert (said.considered, said.fitting, said.position) == (0, 0, 1)
    assert "No worker" in said.message


def test_explain_names_the_nearest_remedy() -> None:
    policy = policy_with(listing(50, share=50, pricePerSecond=2000), listing(51, device=2, pricePerSecond=1500))
    policy.apply(queued(1))
    assert policy.explain(word(1), NOW).message == "Raise the highest price to 1500 base units per second."


REQUESTS = st.builds(
    queued, st.integers(1, 20), st.sampled_from([R1, R2]), st.integers(0, 3), share=st.integers(1, 1000), memoryMiB=st.integers(1, 2048),
    maxPricePerSecond=st.integers(50, 200),
)  # fmt: skip
LISTINGS = st.lists(
    st.builds(
        listing, st.integers(100, 110), st.integers(1, 3), st.sampled_from([W1, W2]), share=st.integers(1, 1000),
        memoryMiB=st.integers(1, 4096), pricePerSecond=st.integers(50, 200), capPerRenter=st.integers(0, 2),
    ),
    max_size=6,
    unique_by=lambda item: item.hash,
)  # fmt: skip
DELTAS = st.lists(st.one_of(REQUESTS, st.builds(RequestGone, st.integers(1, 20).map(word))), max_size=25)


@settings(max_examples=150, deadline=None)
@given(LISTINGS, DELTAS)
def test_any_state_explains_with_counts_that_add_up_and_never_overbooks(listings, deltas) -> None:
    policy = policy_with(*listings)
    for delta in deltas:
        policy.apply(delta)
    policy.decide(NOW, 100)
    for delta in deltas:
        said = policy.explain(delta.hash, NOW)
        if said is not None:
            assert said.considered == said.fitting + sum(item.removed for item in said.filters) == len(listings)
    for device in {item.offer.device for item in listings}:
        share, memory = policy._state.ledger.used.get(device, (0, 0))
        assert share <= 1000
        assert memory <= 4096


@settings(max_examples=100, deadline=None)
@given(LISTINGS, DELTAS)
def test_same_deltas_and_a_restored_snapshot_decide_the_same(listings, deltas) -> None:
    first, second, third = policy_with(*listings), policy_with(*listings), SimplePolicy()
    for delta in deltas:
        first.apply(delta)
        second.apply(delta)
    third.restore(first.snapshot())
    assert first.decide(NOW, 100) == second.decide(NOW, 100) == third.decide(NOW, 100)
    assert first.snapshot() == second.snapshot() == third.snapshot()
