"""Tasks, jobs and lanes: what the dispatcher keeps, and the events it takes.

A task is QUEUED -> SENT -> ENDED; its receipt is then ATTESTED -> FINAL. A lane is a lease as tasks see it: it may hold `credit` attempts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.link import LossCause
from millpond.protocol.messages import AttemptStatus, Failure, SignedReceipt, TaskSpec
from millpond.protocol.views import JobView

MIN_CREDIT = 2
MAX_CREDIT = 256
WINDOW_S = 0.3
"""A lane holds what it works off in this time, so that it never idles and other lanes get their part."""


class TaskState(IntEnum):
    QUEUED = 0
    SENT = 1
    ENDED = 2


class Stage(IntEnum):
    """How far the receipt of an ended task is. NONE: no receipt."""

    NONE = 0
    SIGNED = 1
    ATTESTED = 2
    FINAL = 3


@dataclass(slots=True, eq=False)
class Task:
    """`attempt` is the number of the last attempt sent, `tries` how many of them were lost while running. `spec` is None once ended."""

    id: Bytes32
    index: int
    spec: TaskSpec | None
    state: TaskState = TaskState.QUEUED
    lease: str = ""
    attempt: int = 0
    tries: int = 0
    is_started: bool = False
    is_cancelling: bool = False
    cursor: int = 0
    stage: Stage = Stage.NONE


@dataclass(slots=True, eq=False)
class Job:
    """`queue` may hold tasks that are no longer QUEUED; they are passed over."""

    id: Bytes32
    owner: Address
    leases: dict[Bytes32, None] = field(default_factory=dict)
    tasks: dict[Bytes32, Task] = field(default_factory=dict)
    queue: deque[Task] = field(default_factory=deque)
    queued: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    receipts: int = 0
    attested: int = 0
    final: int = 0
    retried: int = 0
    cursor: int = 0
    ended_at: float = 0.0
    orphan_since: float = 0.0

    @property
    def open(self) -> int:
        return self.queued + self.running

    def view(self) -> JobView:
        return JobView(
            self.id, len(self.tasks), self.queued, self.running, self.succeeded, self.failed, self.cancelled,
            self.attested, self.final, self.retried,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Lane:
    """`jobs` are those that may have a task for it, in turn. `interval_s` is the smoothed time between two ends."""

    lease: Bytes32
    is_open: bool = False
    outstanding: dict[Bytes32, tuple[Job, Task]] = field(default_factory=dict)
    jobs: deque[Job] = field(default_factory=deque)
    credit: int = MIN_CREDIT
    interval_s: float = 1.0
    last_end: float = 0.0


@dataclass(slots=True)
class Desk:
    """All jobs and lanes. `open` counts tasks not ended, `open_bytes` the arguments they hold in memory, `stale` refused late receipts."""

    jobs: dict[Bytes32, Job] = field(default_factory=dict)
    lanes: dict[Bytes32, Lane] = field(default_factory=dict)
    jobs_of: dict[Bytes32, dict[Bytes32, Job]] = field(default_factory=dict)
    open: int = 0
    open_bytes: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class TasksSubmitted:
    """Leases are the caller's, checked."""

    job: Bytes32
    owner: Address
    leases: tuple[Bytes32, ...]
    tasks: tuple[TaskSpec, ...]


@dataclass(frozen=True, slots=True)
class LaneOpened:
    """Also when its worker came back: what it holds is sent again."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class LaneStopped:
    """`is_over`: for good. `counts`: what had started there counts as lost."""

    lease: Bytes32
    is_over: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    lease: Bytes32
    task: Bytes32
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptDone:
    """A receipt whose signature and fields were verified."""

    signed: SignedReceipt
    value: bytes | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class AttemptGone:
    lease: Bytes32
    task: Bytes32
    attempt: int
    reason: str
    cause: LossCause = LossCause.TASK


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """No tasks: all of the job."""

    job: Bytes32
    tasks: tuple[Bytes32, ...]


@dataclass(frozen=True, slots=True)
class JobOrphaned:
    """The job has had no lease for too long."""

    job: Bytes32


@dataclass(frozen=True, slots=True)
class ReceiptsAt:
    """The receipts of these (job, task) are now this far; lower than before when the chain took a batch back."""

    refs: tuple[tuple[Bytes32, Bytes32], ...]
    stage: Stage


TaskEvent = (
    TasksSubmitted
    | LaneOpened
    | LaneStopped
    | AttemptStarted
    | AttemptDone
    | AttemptGone
    | CancelAsked
    | JobOrphaned
    | ReceiptsAt
)


def spec_bytes(spec: TaskSpec) -> int:
    """About what a queued task holds in memory."""
    return 1024 + len(spec.args)


def count_end(job: Job, status: int | None) -> None:
    """Counts an end by the receipt's status; None: out of attempts."""
    if status == AttemptStatus.SUCCEEDED:
        job.succeeded += 1
    elif status == AttemptStatus.CANCELLED:
        job.cancelled += 1
    else:
        job.failed += 1
