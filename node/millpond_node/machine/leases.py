"""A lease's life at the node: OPENING -> OPEN -> SERVING <-> UNPAID -> CLOSING -> CLOSED, with an undo for each step the chain takes back."""

from __future__ import annotations

from dataclasses import dataclass, field

from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32
from millpond.protocol.link import EndReason, LeasePhase
from millpond.protocol.messages import Message, SignedOffer, SignedRequest, VoucherNote
from millpond.protocol.views import LeaseState
from millpond_node.machine.commands import (
    Changed,
    Command,
    Free,
    LeaseDropped,
    Occupy,
    Purge,
    SaveLease,
    SendClose,
    SendDesired,
    SendOpen,
    SendVoucher,
    StartLane,
    StopLane,
)

CLOSE_AFTER_END_S = 60
_LIVE = (LeaseState.OPEN, LeaseState.SERVING, LeaseState.UNPAID)


@dataclass(slots=True)
class LeaseRecord(Message):
    """`voucher` is what the worker said it keeps, `note` the newest voucher the renter gave. `is_ours`: this node opens it. Times are Unix seconds, 0 for not yet."""

    lease: Bytes32
    request_hash: Bytes32
    offer_hash: Bytes32
    request: SignedRequest
    offer: SignedOffer
    provider: Address
    worker: Address
    state: LeaseState = LeaseState.OPENING
    phase: LeasePhase = LeasePhase.HINT
    opened_at: int = 0
    ends_at: int = 0
    ready_at: int = 0
    closed_at: int = 0
    block_hash: str = ""
    voucher: int = 0
    note: VoucherNote | None = None
    ended: EndReason | None = None
    is_close_sent: bool = False
    is_ours: bool = True
    message: str = ""

    @property
    def renter(self) -> Address:
        return self.request.request.renter

    @property
    def voucher_signer(self) -> Address:
        return self.request.request.voucherSigner

    @property
    def device(self) -> Bytes32:
        return self.offer.offer.device

    @property
    def is_over(self) -> bool:
        return self.state in (LeaseState.CLOSING, LeaseState.CLOSED)

    def has_party(self, caller: Address) -> bool:
        """Whether the caller may see the lease as its renter."""
        return caller != ZERO_ADDRESS and caller in (self.renter, self.voucher_signer)


@dataclass(slots=True)
class Leases:
    """Leases this node placed, by id, by worker and by renter-side party."""

    records: dict[Bytes32, LeaseRecord] = field(default_factory=dict)
    by_worker: dict[Address, dict[Bytes32, None]] = field(default_factory=dict)
    by_party: dict[Address, dict[Bytes32, None]] = field(default_factory=dict)

    def adopt(self, record: LeaseRecord) -> None:
        self.records[record.lease] = record
        self.by_worker.setdefault(record.worker, {})[record.lease] = None
        for party in (record.renter, record.voucher_signer):
            self.by_party.setdefault(party, {})[record.lease] = None

    def forget(self, lease: Bytes32) -> None:
        record = self.records.pop(lease, None)
        if record is None:
            return
        for index, key in (
            (self.by_worker, record.worker),
            (self.by_party, record.renter),
            (self.by_party, record.voucher_signer),
        ):
            index.get(key, {}).pop(lease, None)
            if not index.get(key):
                index.pop(key, None)


@dataclass(frozen=True, slots=True)
class Planned:
    """The policy chose; the record is new."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    lease: Bytes32
    opened_at: int
    ends_at: int
    block_hash: str


@dataclass(frozen=True, slots=True)
class LeaseFinal:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class LeaseUndone:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class LeaseNotOpened:
    """The transaction was refused or can no longer be mined."""

    lease: Bytes32
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerReady:
    lease: Bytes32
    at: int


@dataclass(frozen=True, slots=True)
class WorkerUnpaid:
    lease: Bytes32
    unpaid_seconds: int


@dataclass(frozen=True, slots=True)
class WorkerKept:
    lease: Bytes32
    cumulative: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    lease: Bytes32
    reason: EndReason
    message: str


@dataclass(frozen=True, slots=True)
class VoucherGiven:
    """From the renter, its signature verified."""

    note: VoucherNote

    @property
    def lease(self) -> Bytes32:
        return self.note.lease


@dataclass(frozen=True, slots=True)
class CloseSeen:
    lease: Bytes32
    at: int


@dataclass(frozen=True, slots=True)
class CloseUndone:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class CloseFinal:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class WorkerAway:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class WorkerBack:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class LeasePassed:
    """Time went by."""

    lease: Bytes32


LeaseEvent = (
    Planned | LeaseSeen | LeaseFinal | LeaseUndone | LeaseNotOpened | WorkerReady | WorkerUnpaid | WorkerKept | WorkerEnded
    | VoucherGiven | CloseSeen | CloseUndone | CloseFinal | WorkerAway | WorkerBack | LeasePassed
)  # fmt: skip


def handle(state: Leases, event: LeaseEvent, now: int) -> list[Command]:
    """`now` is Unix seconds. A repeated event changes nothing; one for an unknown lease neither."""
    if isinstance(event, Planned):
        return _planned(state, event.record)
    record = state.records.get(event.lease)
    if record is None:
        return []
    match event:
        case LeaseSeen() | LeaseFinal() | LeaseUndone() | LeaseNotOpened() | CloseSeen() | CloseUndone() | CloseFinal():
            return _chain(record, event)
        case VoucherGiven(note=note):
            return _voucher(record, note)
        case LeasePassed():
            return _passed(record, now)
        case _:
            return _worker(record, event)


def _planned(state: Leases, record: LeaseRecord) -> list[Command]:
    if record.lease in state.records:
        return []
    state.adopt(record)
    return [Occupy(record.lease), SaveLease(record.lease), SendDesired(record.lease), SendOpen(record.lease)]


ChainStep = LeaseSeen | LeaseFinal | LeaseUndone | LeaseNotOpened | CloseSeen | CloseUndone | CloseFinal


def _chain(record: LeaseRecord, event: ChainStep) -> list[Command]:
    match event:
        case LeaseSeen() if record.state is LeaseState.OPENING or record.block_hash != event.block_hash:
            return _seen(record, event)
        case LeaseFinal() if record.phase is LeasePhase.SEEN:
            record.phase = LeasePhase.FINAL
            return [SaveLease(record.lease), SendDesired(record.lease)]
        case LeaseUndone() if record.state is not LeaseState.OPENING and record.state is not LeaseState.CLOSED:
            return _undone(record)
        case LeaseNotOpened(reason=reason) if record.state is LeaseState.OPENING:
            record.message, record.phase = reason, LeasePhase.CLOSED
            dropped = LeaseDropped(record.lease, record.request_hash)
            return [
                *_to(record, LeaseState.CLOSED),
                SendDesired(record.lease),
                Free(record.lease),
                dropped,
                Purge(record.lease),
            ]
        case CloseSeen(at=at) if not record.closed_at:
            record.closed_at, record.phase = at, LeasePhase.CLOSED
            return [
                *_to(record, LeaseState.CLOSING),
                SendDesired(record.lease),
                Free(record.lease),
                StopLane(record.lease, True),
            ]
        case CloseUndone() if record.closed_at and record.state is LeaseState.CLOSING:
            record.closed_at, record.is_close_sent = 0, False
            record.phase = LeasePhase.SEEN if record.opened_at else LeasePhase.HINT
            to = _to(record, LeaseState.CLOSING if record.ended else _live_state(record))
            return [*to, Occupy(record.lease), SendDesired(record.lease), *_lane(record)]
        case CloseFinal() if record.closed_at and record.state is not LeaseState.CLOSED:
            return _to(record, LeaseState.CLOSED)
        case _:
            return []


def _seen(record: LeaseRecord, event: LeaseSeen) -> list[Command]:
    record.opened_at, record.ends_at, record.block_hash = event.opened_at, event.ends_at, event.block_hash
    if record.state is LeaseState.OPENING:
        record.phase = LeasePhase.SEEN
        return [*_to(record, _live_state(record)), SendDesired(record.lease), *_lane(record)]
    return [SaveLease(record.lease)]


def _undone(record: LeaseRecord) -> list[Command]:
    """The worker stops its meter and kills; it reports READY anew when the lease is seen again."""
    was_closed = bool(record.closed_at)
    record.opened_at = record.ends_at = record.ready_at = record.closed_at = 0
    record.phase, record.block_hash, record.ended = LeasePhase.HINT, "", None
    again: list[Command] = [Occupy(record.lease)] if was_closed else []
    resent: list[Command] = [SendOpen(record.lease)] if record.is_ours else []
    return [*_to(record, LeaseState.OPENING), *again, StopLane(record.lease, False), SendDesired(record.lease), *resent]


WorkerStep = WorkerReady | WorkerUnpaid | WorkerKept | WorkerEnded | WorkerAway | WorkerBack


def _worker(record: LeaseRecord, event: WorkerStep) -> list[Command]:
    match event:
        case WorkerReady(at=at) if not record.is_over:
            record.ready_at, record.message = at, ""
            live = record.state in _LIVE
            return [*_to(record, LeaseState.SERVING if live else record.state), *_lane(record)]
        case WorkerUnpaid(unpaid_seconds=seconds) if record.state is LeaseState.SERVING:
            record.message = f"{seconds} s are unpaid: the worker paused, and goes on when it is paid"
            return _to(record, LeaseState.UNPAID)
        case WorkerKept(cumulative=cumulative):
            record.voucher = max(record.voucher, cumulative)
            return [SaveLease(record.lease), Changed(record.lease)]
        case WorkerEnded(reason=reason, message=message) if record.ended is None:
            record.ended, record.message = reason, message or record.message
            if record.state is LeaseState.CLOSED:
                return [SaveLease(record.lease), Changed(record.lease)]
            return [*_to(record, LeaseState.CLOSING), StopLane(record.lease, True)]
        case WorkerAway() if not record.is_over:
            return [StopLane(record.lease, False, counts=True)]
        case WorkerBack():
            return _lane(record)
        case _:
            return []


def _voucher(record: LeaseRecord, note: VoucherNote) -> list[Command]:
    """The highest wins, also of a closed lease: its claim window may still be open."""
    if record.note is not None and note.cumulative <= record.note.cumulative:
        return []
    record.note = note
    return [SaveLease(record.lease), SendVoucher(record.lease)]


def _passed(record: LeaseRecord, now: int) -> list[Command]:
    """The worker closes an expired lease; where it does not, the node does, so that the device gets free."""
    is_due = record.ends_at and not record.closed_at and now >= record.ends_at + CLOSE_AFTER_END_S
    if not is_due or record.is_close_sent:
        return []
    record.is_close_sent = True
    return [SaveLease(record.lease), SendClose(record.lease)]


def _live_state(record: LeaseRecord) -> LeaseState:
    if not record.opened_at:
        return LeaseState.OPENING
    return LeaseState.SERVING if record.ready_at else LeaseState.OPEN


def _lane(record: LeaseRecord) -> list[Command]:
    return [StartLane(record.lease)] if record.state is LeaseState.SERVING else []


def _to(record: LeaseRecord, state: LeaseState) -> list[Command]:
    record.state = state
    return [SaveLease(record.lease), Changed(record.lease)]
