"""What the worker's machines know: rows of leases and attempts, and the terms they are judged by.

Rows are frozen and replaced; `WorkerState` collects which of them changed, so that the agent writes exactly those to the journal.
Times are Unix seconds, amounts token base units.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.link import (
    AttemptEnded,
    AttemptLost,
    Ended,
    EndReason,
    Ready,
    ReportBody,
    Started,
    Unpaid,
    VoucherKept,
)
from millpond.protocol.messages import Amount, Message, SignedOffer, SignedRequest, TaskSpec
from millpond.protocol.vouchers import Meter
from millpond_worker.machine.policy import ANY, Policy

__all__ = [
    "LIVE",
    "RUNNABLE",
    "Attempt",
    "AttemptEnded",
    "AttemptKey",
    "AttemptLost",
    "AttemptState",
    "EndReason",
    "Ended",
    "LeaseRow",
    "LeaseState",
    "Ready",
    "ReportBody",
    "Started",
    "Terms",
    "TxKind",
    "TxMark",
    "Unpaid",
    "VoucherKept",
    "WorkerState",
]


class LeaseState(StrEnum):
    NEW = "new"
    PREPARING = "preparing"
    STARTING = "starting"
    READY = "ready"
    UNPAID = "unpaid"
    CLOSING = "closing"
    CLEAN = "clean"


LIVE = frozenset({LeaseState.PREPARING, LeaseState.STARTING, LeaseState.READY, LeaseState.UNPAID})
"""States in which a lease may have, or get, a container."""


class AttemptState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SEALING = "sealing"
    SEALED = "sealed"
    DONE = "done"


RUNNABLE = frozenset({AttemptState.QUEUED, AttemptState.RUNNING})


class TxKind(StrEnum):
    """Transactions a worker sends for a lease."""

    NOTICE = "notice"
    COLLECT = "collect"
    DEMAND = "demand"
    CLOSE = "close"
    CLOSE_UNPAID = "close_unpaid"
    COLLECT_FINAL = "collect_final"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class TxMark(Message):
    """The newest transaction of a kind: its number, when it was handed over, and whether its outcome is still open."""

    kind: TxKind
    number: int
    at: int
    is_pending: bool = True


@dataclass(frozen=True, slots=True)
class Terms:
    """What a lease is judged by: who this worker is, and the rules of its pool. Durations in seconds.

    `allow_renters` is None where any renter is served.
    """

    chain_id: int
    controller: Address
    escrow: Address
    operator: Address
    devices: frozenset[Bytes32]
    grace: int
    claim_window: int
    dispute_window: int
    allow_renters: frozenset[Address] | None = None
    policy: Policy = ANY
    unpaid_ticks: int = 2
    max_queued: int = 65_536


@dataclass(frozen=True, slots=True)
class LeaseRow(Message):
    """One lease. The meter runs from `ready_at`, less what it stood still; `stopped_at` is 0 while it runs.

    `cumulative` and `signature` are the best voucher kept. `alive_at` is the last second of which the journal knows that the lease
    was served: after a crash the meter goes on from there, so nobody pays for the time between.
    `collected` is what the chain says was collected, whoever did it. `answered_at` is the newest demand for payment, in chain time,
    that was made before the lease was last served; only a later one may close it. `is_frozen`: the unpaid lease has its container.
    """

    lease: Bytes32
    state: LeaseState
    offer: SignedOffer
    request: SignedRequest
    image: str
    opened_at: int = 0
    ends_at: int = 0
    seen_block: int = 0
    ready_at: int = 0
    stopped_at: int = 0
    alive_at: int = 0
    cumulative: Amount = 0
    signature: bytes = b""
    collected: Amount = 0
    unpaid_at: int = 0
    answered_at: int = 0
    is_frozen: bool = False
    ended_at: int = 0
    reason: EndReason | None = None
    message: str = ""
    marks: tuple[TxMark, ...] = ()

    def with_(self, **changes: Any) -> LeaseRow:
        return replace(self, **changes)

    @property
    def deadline(self) -> int:
        """From this second on the chain opens the lease no more."""
        return min(self.offer.offer.deadline, self.request.request.deadline)

    @property
    def meter(self) -> Meter:
        return Meter(self.ready_at, self.ends_at, self.offer.offer.pricePerSecond)

    def unpaid_seconds(self, now: int) -> int:
        """Seconds served for which no voucher pays; nothing before the first READY."""
        if not self.ready_at:
            return 0
        return self.meter.unpaid_seconds(self.stopped_at or now, max(self.cumulative, self.collected))

    def stopped(self, now: int) -> LeaseRow:
        """The meter stands still from `now` on."""
        return self if self.stopped_at or not self.ready_at else self.with_(stopped_at=now)

    def resumed(self, now: int) -> LeaseRow:
        """The meter runs; the time it stood still is taken out of it."""
        if not self.ready_at:
            return self.with_(ready_at=now, alive_at=now)
        if not self.stopped_at:
            return self
        return self.with_(ready_at=self.ready_at + max(0, now - self.stopped_at), stopped_at=0, alive_at=now)

    def set_back(self, now: int) -> LeaseRow:
        """The clock went back while the meter stood: what it ran ahead was never served, and nobody pays for it."""
        stopped_at = max(now, min(self.alive_at, self.stopped_at))
        return self.with_(stopped_at=stopped_at, unpaid_at=min(self.unpaid_at, now))

    def is_to_collect(self, now: int, claim_window: int) -> bool:
        """Whether the lease has ended, and what was signed for it may still be collected but was not."""
        last = self.mark(TxKind.COLLECT_FINAL)
        is_open = self.state in (LeaseState.CLOSING, LeaseState.CLEAN) and now < self.ended_at + claim_window
        return is_open and self.cumulative > self.collected and (last is None or last.is_pending)

    def mark(self, kind: TxKind) -> TxMark | None:
        return next((mark for mark in self.marks if mark.kind is kind), None)

    def marked(self, mark: TxMark) -> LeaseRow:
        return self.with_(marks=(*(old for old in self.marks if old.kind is not mark.kind), mark))


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Names one attempt: `attempt` is the fencing token, from 1."""

    lease: Bytes32
    task: Bytes32
    attempt: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. `seq` is the number of its report, 0 before it is sealed."""

    key: AttemptKey
    spec: TaskSpec
    state: AttemptState
    is_fetched: bool = False
    is_announced: bool = False
    started_at: int = 0
    seq: int = 0

    def with_(self, **changes: Any) -> Attempt:
        return replace(self, **changes)


TaskKey = tuple[Bytes32, Bytes32]


@dataclass(slots=True)
class WorkerState:
    """All the machines know. `fences` holds the highest attempt ever accepted of each task, as long as its lease is kept:
    no attempt up to it is taken again, so none can be signed twice."""

    terms: Terms
    next_seq: int = 1
    acked_seq: int = 0
    connected_at: int = 0
    is_draining: bool = False
    gives_notice: bool = False
    leases: dict[Bytes32, LeaseRow] = field(default_factory=dict)
    attempts: dict[TaskKey, Attempt] = field(default_factory=dict)
    fences: dict[Bytes32, dict[Bytes32, int]] = field(default_factory=dict)
    unsealed: deque[tuple[int, TaskKey]] = field(default_factory=deque)
    sealed: deque[tuple[int, TaskKey]] = field(default_factory=deque)
    dirty_leases: set[Bytes32] = field(default_factory=set)
    dirty_tasks: dict[TaskKey, Attempt] = field(default_factory=dict)
    forgotten: list[Bytes32] = field(default_factory=list)

    def put_lease(self, row: LeaseRow) -> LeaseRow:
        self.leases[row.lease] = row
        self.dirty_leases.add(row.lease)
        return row

    def put_attempt(self, attempt: Attempt, *, is_durable: bool = True) -> Attempt:
        """Keeps an attempt; `is_durable` false for steps that a crash may forget."""
        task = (attempt.key.lease, attempt.key.task)
        if attempt.state is AttemptState.DONE:
            self.attempts.pop(task, None)
        else:
            self.attempts[task] = attempt
        self.fences.setdefault(attempt.key.lease, {})[attempt.key.task] = attempt.key.attempt
        if is_durable:
            self.dirty_tasks[task] = attempt
        return attempt

    def attempt(self, key: AttemptKey) -> Attempt | None:
        """The attempt of exactly this number, if it is still going on."""
        found = self.attempts.get((key.lease, key.task))
        return found if found is not None and found.key == key else None

    def of_lease(self, lease: Bytes32) -> list[Attempt]:
        return [found for found in self.attempts.values() if found.key.lease == lease]

    def forget(self, lease: Bytes32) -> None:
        """Drops a lease whose every window is over, and the fences of its tasks."""
        self.leases.pop(lease, None)
        self.fences.pop(lease, None)
        for found in self.of_lease(lease):
            self.attempts.pop((lease, found.key.task), None)
        self.dirty_leases.discard(lease)
        self.forgotten.append(lease)

    def take_seq(self) -> int:
        seq = self.next_seq
        self.next_seq += 1
        return seq
