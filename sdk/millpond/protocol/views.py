"""What the node tells renters over REST: offers, the queue, leases, jobs, receipts and the pool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import Amount, DeviceEntry, Message, SignedOffer, SignedReceipt


@dataclass(frozen=True, slots=True)
class OfferView(Message):
    """An offer with what the node knows of its device. `free_share` and `free_memory_mib` are what the device has left.

    `price` repeats the offer's price per second, which `is_free` says can be had now. `score` and `proof_age_s` are None as long as
    nobody keeps reputation or measures devices in this pool: then nothing is known, which is not the same as zero.
    """

    signed: SignedOffer
    hash: Bytes32
    provider: Address
    device: DeviceEntry
    launcher: str
    is_online: bool
    free_share: int
    free_memory_mib: int
    price: Amount
    is_free: bool
    score: int | None = None
    proof_age_s: int | None = None


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
class Relaxation(Message):
    """One thing of a request to change: `field` of the signed Request, and the nearest value that would do, as text for a person too."""

    field: str
    asked: Amount
    needed: Amount
    text: str


@dataclass(frozen=True, slots=True)
class Why(Message):
    """Why a request waits, or where it went. `considered` = sum of `removed` + `fitting`.

    `nearest` are the changes that, made together, would let the one offer fit that is nearest to the request; empty where none is needed
    or none would help. `expected_wait_s` follows from the ends of the leases in the way and says when there is room at the latest; None
    where that is not known.
    """

    request: Bytes32
    state: RequestState
    position: int
    considered: int
    fitting: int
    filters: tuple[FilterCount, ...]
    message: str
    nearest: tuple[Relaxation, ...] = ()
    expected_wait_s: int | None = None
    deadline: int | None = None
    next: str = ""


@dataclass(frozen=True, slots=True)
class RequestView(Message):
    """`deadline` (Unix seconds) is when the state ends at the latest, `next` what it becomes then; None and empty for a state that stays."""

    request: Bytes32
    state: RequestState
    lease: Bytes32 | None
    message: str = ""
    deadline: int | None = None
    next: str = ""


class LeaseState(StrEnum):
    OPENING = "opening"
    OPEN = "open"
    SERVING = "serving"
    UNPAID = "unpaid"
    CLOSING = "closing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LeaseView(Message):
    """A lease as the node sees it. `voucher` is the highest cumulative amount kept by the worker.

    `worker_seen_at` (Unix seconds) is the worker's last sign of life, 0 for none since the node started: what lies beyond is not paid.

    `deadline` (Unix seconds) is when the state ends at the latest, `next` what it becomes then; None and empty for a state that stays.
    """

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
    deadline: int | None = None
    next: str = ""
    worker_seen_at: int = 0


class TaskStage(StrEnum):
    QUEUED = "queued"
    SENT = "sent"
    RUNNING = "running"
    ENDED = "ended"
    SIGNED = "signed"
    ATTESTED = "attested"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class TaskView(Message):
    """Where a task is. `attempt` is the number of the last attempt sent, 0 before the first; `cursor` its place among the job's results.

    `deadline_s` is in how many seconds the state ends at the latest, `next` what it becomes then; ENDED stays when nothing was signed.
    """

    job: Bytes32
    task: Bytes32
    index: int
    state: TaskStage
    lease: Bytes32 | None
    attempt: int
    tries: int
    cursor: int
    deadline_s: int | None = None
    next: str = ""


@dataclass(frozen=True, slots=True)
class HealthView(Message):
    """`status` is ok or stopping; `block` the newest the node looked at, `queue` how many requests wait."""

    status: str
    chain_id: int
    block: int
    version: str
    workers: int
    queue: int


@dataclass(frozen=True, slots=True)
class VoucherKeptView(Message):
    """The highest amount the node keeps of the lease."""

    cumulative: Amount


@dataclass(frozen=True, slots=True)
class SubmitView(Message):
    """How many of the tasks sent were new to the node, and how many it had."""

    accepted: int
    known: int


@dataclass(frozen=True, slots=True)
class BlockView(Message):
    cid: str
    size: int


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
