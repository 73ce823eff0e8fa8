"""Leases and requests: what the chain takes back is undone, what comes twice changes nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32
from millpond.protocol.link import EndReason, LeasePhase
from millpond.protocol.messages import SignedOffer, SignedRequest, VoucherNote
from millpond.protocol.signed import Offer, Request
from millpond.protocol.views import LeaseState, RequestState
from millpond_node.machine import leases, requests
from millpond_node.machine.commands import (
    Free,
    LeaseDropped,
    Occupy,
    Queue,
    SendClose,
    SendDesired,
    SendOpen,
    SendVoucher,
    StartLane,
    StopLane,
    Unqueue,
)
from millpond_node.machine.leases import (
    CloseFinal,
    CloseSeen,
    CloseUndone,
    LeaseFinal,
    LeaseNotOpened,
    LeasePassed,
    LeaseRecord,
    Leases,
    LeaseSeen,
    LeaseUndone,
    Planned,
    VoucherGiven,
    WorkerAway,
    WorkerBack,
    WorkerEnded,
    WorkerKept,
    WorkerReady,
    WorkerUnpaid,
)
from millpond_node.machine.requests import Chosen, Opened, OpenFailed, OpenUndone, Passed, Requests, Submitted

A = Address("0x" + "11" * 20)
LEASE, HASH, OFFER_HASH = (Bytes32("0x" + digit * 64) for digit in "abc")
OFFER = Offer(A, ZERO_BYTES32, 1, 0, 0, 500, 512, 0, 0, 0, 0, 1, 10, 60, ZERO_BYTES32, 3600, 0, 10_000)
REQUEST = Request(A, A, A, ZERO_BYTES32, A, 0, 100, 100, 0, 0, 0, 10, 600, 60, A, 0, ZERO_BYTES32, 5000, 1)
SEEN = LeaseSeen(LEASE, 100, 700, "0xb1")


def planned() -> tuple[Leases, LeaseRecord]:
    state = Leases()
    record = LeaseRecord(LEASE, HASH, OFFER_HASH, SignedRequest(REQUEST, b""), SignedOffer(OFFER, b""), A, A)
    commands = leases.handle(state, Planned(record), 50)
    assert [type(command) for command in commands if isinstance(command, Occupy | SendOpen)] == [Occupy, SendOpen]
    return state, record


def kinds(commands) -> set[type]:
    return {type(command) for command in commands}


def serving() -> tuple[Leases, LeaseRecord]:
    state, record = planned()
    leases.handle(state, SEEN, 100)
    leases.handle(state, WorkerReady(LEASE, 105), 105)
    assert record.state is LeaseState.SERVING
    return state, record


def test_seen_tells_the_worker_and_opens() -> None:
    state, record = planned()
    assert SendDesired in kinds(leases.handle(state, SEEN, 100))
    assert (record.state, record.phase, record.ends_at) == (LeaseState.OPEN, LeasePhase.SEEN, 700)


def test_ready_before_the_node_saw_the_lease_serves_once_it_does() -> None:
    state, record = planned()
    assert StartLane not in kinds(leases.handle(state, WorkerReady(LEASE, 99), 99))
    assert StartLane in kinds(leases.handle(state, SEEN, 100))
    assert record.state is LeaseState.SERVING


def test_final_after_seen_tells_the_worker_once() -> None:
    state, record = planned()
    leases.handle(state, SEEN, 100)
    assert SendDesired in kinds(leases.handle(state, LeaseFinal(LEASE), 102))
    assert leases.handle(state, LeaseFinal(LEASE), 102) == []
    assert record.phase is LeasePhase.FINAL


def test_undone_lease_stops_tells_and_is_sent_again() -> None:
    state, record = serving()
    commands = leases.handle(state, LeaseUndone(LEASE), 110)
    assert {StopLane, SendDesired, SendOpen} <= kinds(commands)
    assert (record.state, record.phase, record.ready_at) == (LeaseState.OPENING, LeasePhase.HINT, 0)


def test_undone_lease_of_another_opener_is_not_sent() -> None:
    state, record = serving()
    record.is_ours = False
    assert SendOpen not in kinds(leases.handle(state, LeaseUndone(LEASE), 110))


def test_not_opened_frees_the_slice_and_gives_the_request_back() -> None:
    state, record = planned()
    commands = leases.handle(state, LeaseNotOpened(LEASE, "full"), 60)
    assert {Free, LeaseDropped, SendDesired} <= kinds(commands)
    assert record.phase is LeasePhase.CLOSED


def test_unpaid_lease_serves_again_when_its_worker_is_ready_not_when_a_voucher_is_kept() -> None:
    state, record = serving()
    leases.handle(state, WorkerUnpaid(LEASE, 25), 130)
    assert record.state is LeaseState.UNPAID
    assert StartLane not in kinds(leases.handle(state, WorkerKept(LEASE, 40), 140))
    assert (record.state, record.voucher, record.ready_at) == (LeaseState.UNPAID, 40, 105)
    assert StartLane in kinds(leases.handle(state, WorkerReady(LEASE, 115), 140))
    assert (record.state, record.ready_at, record.message) == (LeaseState.SERVING, 115, "")


def test_voucher_lower_than_the_newest_is_dropped() -> None:
    state, record = serving()
    assert SendVoucher in kinds(leases.handle(state, VoucherGiven(VoucherNote(LEASE, 9, b"a")), 120))
    assert leases.handle(state, VoucherGiven(VoucherNote(LEASE, 9, b"b")), 121) == []
    assert leases.handle(state, VoucherGiven(VoucherNote(LEASE, 8, b"c")), 121) == []
    assert record.note is not None
    assert record.note.signature == b"a"


def test_close_seen_stops_frees_and_ends_final() -> None:
    state, record = serving()
    assert {Free, StopLane, SendDesired} <= kinds(leases.handle(state, CloseSeen(LEASE, 200), 200))
    leases.handle(state, CloseFinal(LEASE), 203)
    assert record.state is LeaseState.CLOSED


def test_close_undone_takes_the_slice_again_and_serves() -> None:
    state, record = serving()
    leases.handle(state, CloseSeen(LEASE, 200), 200)
    assert {Occupy, StartLane, SendDesired} <= kinds(leases.handle(state, CloseUndone(LEASE), 201))
    assert record.state is LeaseState.SERVING


def test_close_undone_of_a_lease_never_seen_is_opening_again() -> None:
    state, record = planned()
    leases.handle(state, WorkerReady(LEASE, 105), 105)
    leases.handle(state, CloseSeen(LEASE, 200), 200)
    leases.handle(state, CloseUndone(LEASE), 201)
    assert (record.state, record.phase) == (LeaseState.OPENING, LeasePhase.HINT)


def test_expired_lease_that_nobody_closes_is_closed_by_the_node_once() -> None:
    state, _ = serving()
    assert leases.handle(state, LeasePassed(LEASE), 750) == []
    assert SendClose in kinds(leases.handle(state, LeasePassed(LEASE), 760))
    assert leases.handle(state, LeasePassed(LEASE), 900) == []


def test_lost_worker_counts_attempts_and_coming_back_starts_the_lane() -> None:
    state, _ = serving()
    assert leases.handle(state, WorkerAway(LEASE), 150) == [StopLane(LEASE, False, counts=True)]
    assert StartLane in kinds(leases.handle(state, WorkerBack(LEASE), 160))


EVENTS = st.sampled_from(
    [
        SEEN, replace(SEEN, block_hash="0xb2"), LeaseFinal(LEASE), LeaseUndone(LEASE), WorkerReady(LEASE, 105), WorkerUnpaid(LEASE, 9),
        WorkerKept(LEASE, 5), WorkerEnded(LEASE, EndReason.CLOSED, ""), CloseSeen(LEASE, 200), CloseUndone(LEASE), CloseFinal(LEASE),
        WorkerAway(LEASE), WorkerBack(LEASE), LeasePassed(LEASE), LeaseNotOpened(LEASE, "x"), VoucherGiven(VoucherNote(LEASE, 3, b"")),
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_any_history_occupies_exactly_while_not_closed(events) -> None:
    state, record = planned()
    taken = True
    for event in events:
        for command in leases.handle(state, event, 150):
            taken = {Occupy: True, Free: False}.get(type(command), taken)
        is_closed = bool(record.closed_at) or (record.state is LeaseState.CLOSED)
        assert taken is not is_closed
        if record.state is LeaseState.SERVING:
            assert record.opened_at
            assert record.ready_at


def queued() -> tuple[Requests, requests.RequestRecord]:
    state = Requests()
    assert kinds(requests.handle(state, Submitted(HASH, SignedRequest(REQUEST, b"")), 0)) >= {Queue}
    return state, state.records[HASH]


def test_request_submitted_twice_is_queued_once() -> None:
    state, _ = queued()
    assert requests.handle(state, Submitted(HASH, SignedRequest(REQUEST, b"")), 0) == []


def test_request_chosen_then_opened_is_open() -> None:
    state, record = queued()
    assert Unqueue in kinds(requests.handle(state, Chosen(HASH, OFFER_HASH, LEASE), 1))
    requests.handle(state, Opened(HASH, LEASE), 2)
    assert (record.state, record.lease) == (RequestState.OPEN, LEASE)
    assert HASH not in state.live


@pytest.mark.parametrize(("is_refusal", "expected"), [(True, RequestState.REFUSED), (False, RequestState.QUEUED)])
def test_request_whose_opening_fails_is_refused_or_queued_again(is_refusal, expected) -> None:
    state, record = queued()
    requests.handle(state, Chosen(HASH, OFFER_HASH, LEASE), 1)
    commands = requests.handle(state, OpenFailed(HASH, LEASE, "why", is_refusal), 2)
    assert record.state is expected
    assert (Queue(HASH, OFFER_HASH) in commands) is not is_refusal
    assert record.message == "why"


def test_request_past_its_deadline_expires_only_while_it_waits() -> None:
    state, record = queued()
    assert requests.handle(state, Passed(), 4999) == []
    requests.handle(state, Chosen(HASH, OFFER_HASH, LEASE), 1)
    assert requests.handle(state, Passed(), 5000) == []
    requests.handle(state, OpenFailed(HASH, LEASE, "", False), 5000)
    requests.handle(state, Passed(), 5000)
    assert record.state is RequestState.EXPIRED


def test_request_undone_is_opening_again() -> None:
    state, record = queued()
    requests.handle(state, Chosen(HASH, OFFER_HASH, LEASE), 1)
    requests.handle(state, Opened(HASH, LEASE), 2)
    requests.handle(state, OpenUndone(HASH), 3)
    assert record.state is RequestState.OPENING
    assert HASH in state.live
