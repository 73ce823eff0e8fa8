"""A request's life: QUEUED -> OPENING -> OPEN, or REFUSED, or EXPIRED."""

from __future__ import annotations

from dataclasses import dataclass, field

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import Message, SignedRequest
from millpond.protocol.views import RequestState
from millpond_node.machine.commands import Changed, Command, Queue, SaveRequest, Unqueue

LIVE = frozenset({RequestState.QUEUED, RequestState.OPENING})


@dataclass(slots=True)
class RequestRecord(Message):
    """`order` is the request's place among all ever submitted. `failures` counts openings the chain refused."""

    hash: Bytes32
    signed: SignedRequest
    order: int
    state: RequestState = RequestState.QUEUED
    lease: Bytes32 | None = None
    offer: Bytes32 | None = None
    failures: int = 0
    message: str = ""

    @property
    def renter(self) -> Address:
        return self.signed.request.renter


@dataclass(slots=True)
class Requests:
    """All requests the node keeps, and those that still wait."""

    records: dict[Bytes32, RequestRecord] = field(default_factory=dict)
    live: dict[Bytes32, None] = field(default_factory=dict)
    next_order: int = 1

    def adopt(self, record: RequestRecord) -> None:
        """Takes in a record read from the journal."""
        self.records[record.hash] = record
        self.next_order = max(self.next_order, record.order + 1)
        _index(self, record)


@dataclass(frozen=True, slots=True)
class Submitted:
    hash: Bytes32
    signed: SignedRequest


@dataclass(frozen=True, slots=True)
class Chosen:
    """The policy placed the request on `offer`."""

    request: Bytes32
    offer: Bytes32
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Opened:
    """The chain has a lease of this request."""

    request: Bytes32
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """`is_refusal`: no offer would help."""

    request: Bytes32
    lease: Bytes32
    reason: str
    is_refusal: bool


@dataclass(frozen=True, slots=True)
class OpenUndone:
    """The block with the lease was replaced; its transaction is sent again."""

    request: Bytes32


@dataclass(frozen=True, slots=True)
class Passed:
    """Time went by."""


RequestEvent = Submitted | Chosen | Opened | OpenFailed | OpenUndone | Passed


def handle(state: Requests, event: RequestEvent, now: int) -> list[Command]:
    """`now` is Unix seconds. A repeated event changes nothing."""
    match event:
        case Submitted():
            return _submitted(state, event)
        case Passed():
            return _passed(state, now)
        case _:
            record = state.records.get(event.request)
            return [] if record is None else _step(state, record, event)


def _submitted(state: Requests, event: Submitted) -> list[Command]:
    if event.hash in state.records:
        return []
    record = RequestRecord(event.hash, event.signed, state.next_order)
    state.adopt(record)
    return [SaveRequest(record.hash), Queue(record.hash)]


def _step(state: Requests, record: RequestRecord, event: Chosen | Opened | OpenFailed | OpenUndone) -> list[Command]:
    match event:
        case Chosen(offer=offer, lease=lease) if record.state is RequestState.QUEUED:
            record.offer, record.lease = offer, lease
            return [
                Unqueue(record.hash),
                *_to(state, record, RequestState.OPENING, "the lease is being opened on chain"),
            ]
        case Opened(lease=lease) if record.state is not RequestState.OPEN:
            was_queued = record.state is RequestState.QUEUED
            record.lease = lease
            drop: list[Command] = [Unqueue(record.hash)] if was_queued else []
            return [*drop, *_to(state, record, RequestState.OPEN, "")]
        case OpenFailed() if record.state is RequestState.OPENING and record.lease == event.lease:
            return _failed(state, record, event)
        case OpenUndone() if record.state is RequestState.OPEN:
            return _to(
                state, record, RequestState.OPENING, "the block that opened the lease was replaced; it is opened again"
            )
        case _:
            return []


def _failed(state: Requests, record: RequestRecord, event: OpenFailed) -> list[Command]:
    avoid, record.lease, record.offer = record.offer, None, None
    record.failures += 1
    if event.is_refusal:
        return _to(state, record, RequestState.REFUSED, event.reason)
    return [*_to(state, record, RequestState.QUEUED, event.reason), Queue(record.hash, avoid)]


def _passed(state: Requests, now: int) -> list[Command]:
    commands: list[Command] = []
    for hash_ in list(state.live):
        record = state.records[hash_]
        if record.state is RequestState.QUEUED and record.signed.request.deadline <= now:
            commands += [
                Unqueue(hash_),
                *_to(state, record, RequestState.EXPIRED, "its deadline passed before it found a place"),
            ]
    return commands


def _to(state: Requests, record: RequestRecord, next_state: RequestState, message: str) -> list[Command]:
    record.state, record.message = next_state, message
    _index(state, record)
    return [SaveRequest(record.hash), Changed(record.hash)]


def _index(state: Requests, record: RequestRecord) -> None:
    if record.state in LIVE:
        state.live[record.hash] = None
    else:
        state.live.pop(record.hash, None)
