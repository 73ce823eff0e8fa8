"""What travels between renter, node and worker, as plain frozen dataclasses; `wire` reads and writes them.

Here is what more than one of them sends: tasks and their results, offers, requests and vouchers. What only worker and node say to
each other is in `link`, what only the node tells renters in `views`.

Amounts are token base units, times Unix seconds, cursors and sequence numbers count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Literal

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signed import Offer, Receipt, Request
from millpond.protocol.typed import AmountForm

Amount = Annotated[int, AmountForm()]
"""Token base units; a decimal string in JSON."""

INLINE_BYTES = 64 << 10
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
    """Tasks of one job, to run on any of `leases`. A 202 means durable; ids are the client's, so a duplicate changes nothing."""

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
    """How a task ended, replayed from a cursor. `value` is inline up to 64 KiB, else it is the block or file `signed.value_cid`.

    `signed` is None where no worker ended it: it was cancelled in the queue, or lost more often than its `max_attempts`.
    """

    cursor: int
    job: Bytes32
    task: Bytes32
    index: int
    signed: SignedReceipt | None
    value: bytes | None = None
    failure: Failure | None = None


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


@dataclass(frozen=True, slots=True)
class VoucherNote(Message):
    """A voucher as it travels, renter to node to worker: the highest wins."""

    lease: Bytes32
    cumulative: Amount
    signature: bytes
    kind: Literal["voucher"] = "voucher"
