"""Messages between renter (R), node (N) and worker (W), as plain frozen dataclasses; `wire` reads and writes them.

Amounts are token base units, times Unix seconds, cursors and sequence numbers count from 1.

| Message          | Direction | Guarantee                                                              |
|------------------|-----------|------------------------------------------------------------------------|
| Submit           | R -> N    | 202 means durable; ids are the client's, so a duplicate changes nothing |
| TaskResult       | N -> R    | replayed from `after=`                                                 |
| Hello, Welcome   | W <-> N   | signed upgrade; full state once, then differences                      |
| Offers           | W -> N    | latest wins                                                            |
| Desired          | N -> W    | level-triggered, idempotent                                            |
| Run, Cancel      | N -> W    | duplicates ignored                                                     |
| VoucherNote      | R -> N -> W | monotone, latest wins                                                |
| Report, Ack      | W <-> N   | ordered, at least once until Ack; Ack after commit                     |
| Beat             | W -> N    | every 2 s, lossy; 3 missed = SUSPECT, 30 s = LOST                      |
| Log              | W -> N    | lossy with visible gaps                                                |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, Any, ClassVar, Literal

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signed import Offer, Receipt, Request
from millpond.protocol.typed import AmountForm

Amount = Annotated[int, AmountForm()]
"""Token base units; a decimal string in JSON."""

INLINE_BYTES = 64 << 10
BEAT_SECONDS = 2
SUSPECT_BEATS = 3
LOST_SECONDS = 30
TICK_SECONDS = 10
MAX_TASKS_PER_SUBMIT = 256


class Message:
    """Base of everything that travels: read strictly, nothing extra, bytes as base64."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "strict": True,
        "ser_json_bytes": "base64",
        "val_json_bytes": "base64",
        "ser_json_inf_nan": "null",
    }


class AttemptStatus(IntEnum):
    """`status` of a receipt."""

    SUCCEEDED = 0
    FAILED = 1
    TIMED_OUT = 2
    OUT_OF_MEMORY = 3
    CANCELLED = 4


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


# Tasks


@dataclass(frozen=True, slots=True)
class TaskSpec(Message):
    """One task. Exactly one of `entry` (`module:qualname`, with `code`) and `command` is set.

    `code` and `args_cid` are CIDs of raw blocks or files; `args` is the encoded `(positional, keyword)` when small enough to travel
    inline. `inputs` maps names under the task's input folder to CIDs. `image` is empty for the pool's own task image.
    """

    id: Bytes32
    index: int
    entry: str = ""
    command: tuple[str, ...] = ()
    code: str = ""
    args: bytes = b""
    args_cid: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    image: str = ""
    env: dict[str, str] = field(default_factory=dict)
    python: str = ""
    time_limit_s: float = 3600.0
    max_attempts: int = 3


@dataclass(frozen=True, slots=True)
class Submit(Message):
    """Tasks of one job, to run on any of `leases`."""

    job: Bytes32
    leases: tuple[Bytes32, ...]
    tasks: tuple[TaskSpec, ...]


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """What the renter's code, or the limit it met, says."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class SignedReceipt(Message):
    """A worker's receipt. `input_cid`, `output_cid`, `value_cid` and `log_cid` are empty where there is nothing."""

    receipt: Receipt
    signature: bytes
    worker: Address
    input_cid: str = ""
    output_cid: str = ""
    value_cid: str = ""
    log_cid: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult(Message):
    """How a task ended. `value` is inline up to 64 KiB, else it is the block or file `signed.value_cid`.

    `signed` is None where no worker ended it: it was cancelled in the queue, or lost more often than its `max_attempts`.
    """

    cursor: int
    job: Bytes32
    task: Bytes32
    index: int
    signed: SignedReceipt | None
    value: bytes | None = None
    failure: Failure | None = None


# Offers and leases


@dataclass(frozen=True, slots=True)
class SignedOffer(Message):
    offer: Offer
    signature: bytes


@dataclass(frozen=True, slots=True)
class SignedRequest(Message):
    """`priority` is the renter's wish to the queue, higher first among its own; the chain does not see it."""

    request: Request
    signature: bytes
    priority: int = 0


@dataclass(frozen=True, slots=True)
class DeviceEntry(Message):
    """A device as its worker sees it. `kind` is cpu or nvidia."""

    device: Bytes32
    uuid: str
    kind: str
    name: str
    memory_mib: int
    cores: int
    is_healthy: bool = True


# Worker -> node


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


@dataclass(frozen=True, slots=True)
class AttemptLost(Message):
    """The container ended under the attempt; nothing was signed, it may run again under the next attempt number."""

    lease: Bytes32
    task: Bytes32
    attempt: int
    reason: str
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
    running: int
    queued: int
    leases: int
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


# Node -> worker


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
class VoucherNote(Message):
    """A voucher as it travels: renter to node to worker."""

    lease: Bytes32
    cumulative: Amount
    signature: bytes
    kind: Literal["voucher"] = "voucher"


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


# Node -> renter, over REST


@dataclass(frozen=True, slots=True)
class OfferView(Message):
    """An offer with what the node knows of its device. `free_share` and `free_memory_mib` are what the device has left."""

    signed: SignedOffer
    hash: Bytes32
    provider: Address
    device: DeviceEntry
    launcher: str
    is_online: bool
    free_share: int
    free_memory_mib: int


class RequestState(StrEnum):
    QUEUED = "queued"
    OPENING = "opening"
    OPEN = "open"
    REFUSED = "refused"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class FilterCount(Message):
    """How many offers a filter removed of those that reached it."""

    filter: str
    removed: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Why(Message):
    """Why a request waits, or where it went. `considered` = sum of `removed` + `fitting`."""

    request: Bytes32
    state: RequestState
    position: int
    considered: int
    fitting: int
    filters: tuple[FilterCount, ...]
    message: str


@dataclass(frozen=True, slots=True)
class RequestView(Message):
    request: Bytes32
    state: RequestState
    lease: Bytes32 | None
    message: str = ""


class LeaseState(StrEnum):
    OPENING = "opening"
    OPEN = "open"
    SERVING = "serving"
    UNPAID = "unpaid"
    CLOSING = "closing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LeaseView(Message):
    """A lease as the node sees it. `voucher` is the highest cumulative amount kept by the worker."""

    lease: Bytes32
    state: LeaseState
    renter: Address
    provider: Address
    worker: Address
    offer: SignedOffer
    request: Bytes32
    opened_at: int
    ends_at: int
    ready_at: int
    voucher: Amount
    message: str = ""


@dataclass(frozen=True, slots=True)
class JobView(Message):
    """Counts of a job's tasks: `tasks` = queued + running + succeeded + failed + cancelled; attested and final are of the ended ones."""

    job: Bytes32
    tasks: int
    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    attested: int
    final: int
    attempts_retried: int


@dataclass(frozen=True, slots=True)
class ReceiptBundle(Message):
    """All a stranger needs, beside an RPC URL, to verify a receipt: see `millpond.chain.verify`."""

    chain_id: int
    controller: Address
    escrow: Address
    devices: Address
    attestations: Address
    poster: Address
    root: Bytes32
    count: int
    index: int
    proof: tuple[Bytes32, ...]
    signed: SignedReceipt


@dataclass(frozen=True, slots=True)
class PoolView(Message):
    """What a renter's client reads first. `task_image` is the image a task without one runs in."""

    chain_id: int
    controller: Address
    node: Address
    escrow: Address
    staking: Address
    devices: Address
    attestations: Address
    tokens: Address
    token: Address
    token_symbol: str
    token_decimals: int
    task_image: str
    version: str
    fee_ppm: int
    burn_ppm: int
    deposit_seconds: int
    finality: int
