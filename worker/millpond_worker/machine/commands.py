"""What the agent shall do. `Report` becomes an outbox row and leaves after its commit; `SendTx` waits for the commit too; the rest starts at once."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import AttemptEnded, AttemptLost, Ended, Ready, Started, Unpaid, VoucherKept
from millpond_worker.machine.events import Outcome
from millpond_worker.machine.model import AttemptKey, TxKind


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the node, at least once until it acknowledges `seq`. An `AttemptEnded` is signed when it leaves, never before."""

    seq: int
    body: Ready | Started | AttemptEnded | AttemptLost | VoucherKept | Unpaid | Ended


@dataclass(frozen=True, slots=True)
class DropReports:
    """The node has every report up to `seq`."""

    seq: int


@dataclass(frozen=True, slots=True)
class Note:
    """For the log: something was refused."""

    message: str


@dataclass(frozen=True, slots=True)
class Pull:
    lease: Bytes32
    image: str


@dataclass(frozen=True, slots=True)
class CheckChain:
    """Ask the worker's own RPC about the lease."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Launch:
    """Carve the slice and start the lease's container."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Pause:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Resume:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class Clear:
    """Kill the lease's containers, wipe what it left, release its slice; answer `HostClean`."""

    lease: Bytes32


@dataclass(frozen=True, slots=True)
class SendTx:
    """Through the durable outbox, under the key `kind:lease:number`."""

    lease: Bytes32
    kind: TxKind
    number: int
    cumulative: int = 0
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Get code, arguments and inputs of an attempt."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Execute:
    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Adopt:
    """Wait for the cold container of an attempt that outlived the worker's last run."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Stop:
    """End an attempt that is fetching or running; `Exited` follows where it ran."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Seal:
    """Store what the attempt left by CID and answer `Stored`."""

    key: AttemptKey
    outcome: Outcome
    started_at: int
    ended_at: int


Command = (
    Report
    | DropReports
    | Note
    | Pull
    | CheckChain
    | Launch
    | Pause
    | Resume
    | Clear
    | SendTx
    | Fetch
    | Execute
    | Adopt
    | Stop
    | Seal
)
