"""What the machines want done. The agent performs commands in order; what is saved is durable before what is promised leaves."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import Failure, SignedReceipt, TaskSpec


@dataclass(frozen=True, slots=True)
class SaveRequest:
    request: Bytes32


@dataclass(frozen=True, slots=True)
class SendOpen:
    """Send `Controller.openLease`."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Queue:
    """The request waits for a place. `avoid` names an offer that just failed."""

    request: Bytes32
    avoid: Bytes32 | None = None


@dataclass(frozen=True, slots=True)
class Unqueue:
    request: Bytes32


@dataclass(frozen=True, slots=True)
class SaveLease:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class SendDesired:
    """Tell the worker the lease's present state."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class SendVoucher:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class SendClose:
    """Send `Controller.closeLease`, which anyone may after the end."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Occupy:
    """The lease takes its slice of the device."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Free:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class StartLane:
    """Tasks may be sent to the lease."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class StopLane:
    """No more tasks to the lease; what runs there runs again elsewhere. `is_over`: it will not come back; `counts`: as lost attempts."""

    lease: Bytes32
    is_over: bool
    counts: bool = False


@dataclass(frozen=True, slots=True)
class LeaseDropped:
    """The lease will not open: its request goes back to the queue, or is refused."""

    lease: Bytes32
    request: Bytes32


@dataclass(frozen=True, slots=True)
class Purge:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Changed:
    """Who waits for a change of `key` may look again."""

    key: str


@dataclass(frozen=True, slots=True)
class SendRun:
    lease: Bytes32
    attempt: int
    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class SendCancel:
    lease: Bytes32
    task: Bytes32
    attempt: int


@dataclass(frozen=True, slots=True)
class SaveSent:
    """The assignment, so that after a restart only its receipt is accepted. An empty lease: back in the queue."""

    job: Bytes32
    task: Bytes32
    lease: str
    attempt: int
    tries: int


@dataclass(frozen=True, slots=True)
class SaveResult:
    """The task ended; `signed` is None where no worker ended it."""

    job: Bytes32
    task: Bytes32
    index: int
    cursor: int
    signed: SignedReceipt | None
    value: bytes | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Cordon:
    """No new leases on the worker's devices."""

    worker: Address


@dataclass(frozen=True, slots=True)
class Uncordon:
    worker: Address


@dataclass(frozen=True, slots=True)
class LoseWorker:
    """The worker is gone: what ran there runs again elsewhere."""

    worker: Address


@dataclass(frozen=True, slots=True)
class EndSession:
    """Close the worker's older connection."""

    worker: Address
    session: int


Command = (
    SaveRequest | SendOpen | Queue | Unqueue | SaveLease | SendDesired | SendVoucher | SendClose | Occupy | Free | StartLane
    | StopLane | LeaseDropped | Purge | Changed | SendRun | SendCancel | SaveSent | SaveResult | Cordon | Uncordon
    | LoseWorker | EndSession
)  # fmt: skip
