"""What happens to a worker. `Desired`, `Run`, `Cancel`, `VoucherNote` and `Ack` are the node's messages themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Ack, AttemptEnded, Cancel, Desired, LossCause, Run
from millpond.protocol.messages import AttemptStatus, Failure, VoucherNote
from millpond_worker.machine.model import AttemptKey, TxKind

__all__ = [
    "Ack",
    "Cancel",
    "ChainSaid",
    "Committed",
    "Connected",
    "Desired",
    "Disconnected",
    "DrainAsked",
    "Event",
    "Exited",
    "HostClean",
    "InputsFailed",
    "InputsReady",
    "LaunchFailed",
    "Launched",
    "LeaseFact",
    "LeaseStatus",
    "Outcome",
    "Restarted",
    "Run",
    "Stopping",
    "StoreFailed",
    "Stored",
    "Tick",
    "TxDone",
    "VoucherNote",
]


class LeaseStatus(IntEnum):
    """`Controller.LeaseStatus`."""

    NONE = 0
    OPEN = 1
    CLOSED = 2
    RELEASED = 3


@dataclass(frozen=True, slots=True)
class LeaseFact:
    """A lease as the worker's own RPC shows it, at block `block` of time `head_time`. Times are the chain's, Unix seconds, 0 for never; `collected` is in
    base units."""

    lease: Bytes32
    status: LeaseStatus
    block: int
    head_time: int
    opened_at: int = 0
    ends_at: int = 0
    closed_at: int = 0
    notice_ends_at: int = 0
    demanded_at: int = 0
    is_settled: bool = False
    collected: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. `status` is None when the container ended under it: then nothing is signed, and `cause`
    says whose doing that may be. `detail` is the agent's."""

    status: AttemptStatus | None
    failure: Failure | None = None
    detail: object = None
    cause: LossCause = LossCause.TASK


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process began; `running` are attempts whose cold containers outlived it."""

    running: frozenset[AttemptKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end; leases go on when it is back."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The node welcomed this worker and has every report up to `acked_seq`."""

    acked_seq: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """There is no connection to the node."""


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """No new leases from now on."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A second has passed."""


@dataclass(frozen=True, slots=True)
class ChainSaid:
    fact: LeaseFact


@dataclass(frozen=True, slots=True)
class Launched:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    lease: Bytes32
    message: str


@dataclass(frozen=True, slots=True)
class HostClean:
    """Nothing of the lease is left on this machine."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class TxDone:
    """A transaction was mined, or will never be: then `error` says why."""

    lease: Bytes32
    kind: TxKind
    number: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class InputsReady:
    key: AttemptKey


@dataclass(frozen=True, slots=True)
class InputsFailed:
    """What the task reads could not be had here; another worker may have it."""

    key: AttemptKey
    message: str
    cause: LossCause = LossCause.TASK


@dataclass(frozen=True, slots=True)
class Exited:
    key: AttemptKey
    outcome: Outcome
    started_at: int
    ended_at: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Value, log and outputs are stored by CID; `body` holds the receipt, not yet signed."""

    key: AttemptKey
    body: AttemptEnded


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """What the attempt left could not be stored; nothing was signed."""

    key: AttemptKey
    message: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The journal holds every report up to `seq`."""

    seq: int


Event = (
    Restarted
    | Stopping
    | Connected
    | Disconnected
    | DrainAsked
    | Tick
    | Desired
    | Run
    | Cancel
    | VoucherNote
    | Ack
    | ChainSaid
    | Launched
    | LaunchFailed
    | HostClean
    | TxDone
    | InputsReady
    | InputsFailed
    | Exited
    | Stored
    | StoreFailed
    | Committed
)
