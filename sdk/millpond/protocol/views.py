"""What the node tells renters over REST: offers, the queue, leases, jobs, receipts and the pool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import Amount, DeviceEntry, Message, SignedOffer, SignedReceipt


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
