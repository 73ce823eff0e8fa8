"""The messages between a worker (W) and its node (N), which travel over one connection; see the table for who promises what.

| Message          | Direction | Guarantee                                                              |
|------------------|-----------|------------------------------------------------------------------------|
| Hello, Welcome   | W <-> N   | signed upgrade; full state once, then differences                      |
| Offers           | W -> N    | latest wins                                                            |
| Desired          | N -> W    | level-triggered, idempotent                                            |
| Run, Cancel      | N -> W    | duplicates ignored                                                     |
| VoucherNote      | N -> W    | monotone, latest wins                                                  |
| Report, Ack      | W <-> N   | ordered, at least once until Ack; Ack after commit                     |
| Beat             | W -> N    | every 2 s, lossy; 3 missed = SUSPECT, 30 s = LOST                      |
| Log              | W -> N    | lossy with visible gaps                                                |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import (
    Amount,
    DeviceEntry,
    Failure,
    Message,
    SignedOffer,
    SignedReceipt,
    SignedRequest,
    TaskSpec,
    VoucherNote,
)
from millpond.protocol.usage import LeaseUsage

BEAT_SECONDS = 2
SUSPECT_BEATS = 3
LOST_SECONDS = 30


class LeasePhase(StrEnum):
    """How sure the node is of a lease it tells a worker about."""

    HINT = "hint"
    SEEN = "seen"
    FINAL = "final"
    CLOSED = "closed"


class EndReason(StrEnum):
    """Why a worker ended a lease."""

    CLOSED = "closed"
    EXPIRED = "expired"
    UNPAID = "unpaid"
    LAUNCH_FAILED = "launch_failed"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Hello(Message):
    worker: Address
    provider: Address
    instance: str
    version: str
    devices: tuple[DeviceEntry, ...]
    offers: tuple[SignedOffer, ...]
    launcher: str
    last_seq: int
    kind: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class Offers(Message):
    offers: tuple[SignedOffer, ...]
    kind: Literal["offers"] = "offers"


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """The vGPU is up; the meter runs from `at`."""

    lease: Bytes32
    at: int
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Started(Message):
    lease: Bytes32
    task: Bytes32
    attempt: int
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class AttemptEnded(Message):
    """A sealed attempt: its receipt was journalled before it was signed."""

    signed: SignedReceipt
    value: bytes | None = None
    failure: Failure | None = None
    kind: Literal["attempt_ended"] = "attempt_ended"


class LossCause(StrEnum):
    """Whose doing the loss of an attempt may be: it counts as one of the task's tries only where that may be the task itself."""

    TASK = "task"  # its container ended, its inputs or outputs failed: counts
    CRASH = "crash"  # the worker ended without a word: counts once the attempt had started
    WORKER = "worker"  # the worker holds no such attempt, or has no room: never counts
    LEASE = "lease"  # the lease is not served now: never counts, and nothing more is sent until it is


@dataclass(frozen=True, slots=True)
class AttemptLost(Message):
    """Nothing was signed, or is held any more, of the attempt; the task may run again under the next attempt number."""

    lease: Bytes32
    task: Bytes32
    attempt: int
    reason: str
    cause: LossCause = LossCause.TASK
    kind: Literal["attempt_lost"] = "attempt_lost"


@dataclass(frozen=True, slots=True)
class VoucherKept(Message):
    lease: Bytes32
    cumulative: Amount
    kind: Literal["voucher_kept"] = "voucher_kept"


@dataclass(frozen=True, slots=True)
class Unpaid(Message):
    lease: Bytes32
    unpaid_seconds: int
    kind: Literal["unpaid"] = "unpaid"


@dataclass(frozen=True, slots=True)
class Ended(Message):
    lease: Bytes32
    reason: EndReason
    message: str = ""
    kind: Literal["ended"] = "ended"


ReportBody = Ready | Started | AttemptEnded | AttemptLost | VoucherKept | Unpaid | Ended


@dataclass(frozen=True, slots=True)
class Report(Message):
    """One entry of the worker's outbox: ordered, sent again until acknowledged."""

    seq: int
    body: ReportBody
    kind: Literal["report"] = "report"


@dataclass(frozen=True, slots=True)
class Beat(Message):
    """`usage`: what was measured of each lease since the last beat; none where nothing was."""

    running: int
    queued: int
    leases: int
    usage: tuple[LeaseUsage, ...] = ()
    kind: Literal["beat"] = "beat"


@dataclass(frozen=True, slots=True)
class Log(Message):
    """Bytes a task wrote. `offset` counts per stream from the attempt's start; a gap means bytes were dropped."""

    lease: Bytes32
    task: Bytes32
    attempt: int
    stream: str
    offset: int
    data: bytes
    kind: Literal["log"] = "log"


@dataclass(frozen=True, slots=True)
class Desired(Message):
    """A lease this worker should serve, and how sure the node is. `opened_at` and `ends_at` are 0 until the chain has it."""

    lease: Bytes32
    offer: SignedOffer
    request: SignedRequest
    phase: LeasePhase
    image: str
    opened_at: int = 0
    ends_at: int = 0
    block_hash: str = ""
    kind: Literal["desired"] = "desired"


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    node: Address
    acked_seq: int
    desired: tuple[Desired, ...]
    kind: Literal["welcome"] = "welcome"


@dataclass(frozen=True, slots=True)
class Run(Message):
    lease: Bytes32
    attempt: int
    task: TaskSpec
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class Cancel(Message):
    lease: Bytes32
    task: Bytes32
    attempt: int
    kind: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class Ack(Message):
    """Everything up to `seq` is durable at the node."""

    seq: int
    kind: Literal["ack"] = "ack"


@dataclass(frozen=True, slots=True)
class Refused(Message):
    """The node ends the connection, and says why."""

    error: str
    message: str
    remedy: str
    kind: Literal["refused"] = "refused"


WorkerMessage = Hello | Offers | Report | Beat | Log
NodeMessage = Welcome | Desired | Run | Cancel | VoucherNote | Ack | Refused
