"""Turns what an attempt left into its report: content stored by CID, and the receipt that commits to it. Unsigned still."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.hashing import sha256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32
from millpond.protocol.link import AttemptEnded
from millpond.protocol.messages import INLINE_BYTES, AttemptStatus, Failure, SignedReceipt
from millpond.protocol.signed import Receipt
from millpond.storage.cid import Cid, cid_of, cid_to_bytes
from millpond_worker.agent.inputs import input_cid
from millpond_worker.launch.port import OutputFile, TaskOutcome, TaskStatus
from millpond_worker.machine.commands import Seal
from millpond_worker.machine.events import Outcome
from millpond_worker.machine.model import Attempt
from millpond_worker.ports import Store

SMALL_LOG_BYTES = 256 << 10
"""One raw block, far below the chunk size, so that its CID is that of its bytes."""
STATUSES = {
    TaskStatus.OK: AttemptStatus.SUCCEEDED,
    TaskStatus.FAILED: AttemptStatus.FAILED,
    TaskStatus.OUTPUT: AttemptStatus.FAILED,
    TaskStatus.TIMEOUT: AttemptStatus.TIMED_OUT,
    TaskStatus.OOM: AttemptStatus.OUT_OF_MEMORY,
    TaskStatus.CANCELLED: AttemptStatus.CANCELLED,
    TaskStatus.LOST: None,
}


@dataclass(frozen=True, slots=True)
class Left:
    """What an attempt left behind. `image` is the 64 hexadecimal digits of the image's digest, empty where none ran."""

    value: bytes | None = None
    log: bytes = b""
    outputs: tuple[OutputFile, ...] = ()
    image: str = ""

    @property
    def needs_store(self) -> bool:
        """Whether content must be stored before the receipt may name it: all but an inline value and a small log."""
        return (
            bool(self.outputs)
            or len(self.log) > SMALL_LOG_BYTES
            or (self.value is not None and len(self.value) > INLINE_BYTES)
        )

    @property
    def late_log(self) -> bytes:
        """A log whose CID is known without storing it: it follows its receipt, so that printing costs a task no round trip."""
        return self.log if len(self.log) <= SMALL_LOG_BYTES else b""


@dataclass(frozen=True, slots=True)
class Cids:
    value: str = ""
    log: str = ""
    output: str = ""


def outcome_of(outcome: TaskOutcome, log: bytes, image: str) -> Outcome:
    """The launcher's outcome as the machine takes it."""
    said = outcome.failure
    failure = Failure(said.type, said.message, said.traceback) if said else None
    left = Left(outcome.value, log or outcome.log_tail, outcome.outputs, image)
    return Outcome(STATUSES[outcome.status], failure, left)


async def store(plane: Store, left: Left) -> Cids:
    """Puts value, log and outputs into the data plane. Raises `StorageError` kinds."""
    value = ""
    if left.value is not None:
        value = cid_of(left.value) if len(left.value) <= INLINE_BYTES else await plane.put(left.value)
    log = cid_of(left.late_log) if left.late_log else await plane.put(left.log) if left.log else ""
    outputs = {item.name: item.path for item in left.outputs}
    return Cids(value, log, await plane.put_folder(outputs) if outputs else "")


def cids_of(left: Left) -> Cids:
    """The names of content that need not be stored first."""
    value = cid_of(left.value) if left.value is not None else ""
    return Cids(value=value, log=cid_of(left.log) if left.log else "")


def ended(attempt: Attempt, command: Seal, cids: Cids, device: Bytes32, worker: Address) -> AttemptEnded:
    """The report of a sealed attempt, its receipt not yet signed."""
    outcome, left = command.outcome, left_of(command.outcome)
    source = input_cid(attempt.spec)
    assert outcome.status is not None
    receipt = Receipt(
        lease=attempt.key.lease,
        task=attempt.key.task,
        attempt=attempt.key.attempt,
        device=device,
        image=bytes32(left.image) if left.image else ZERO_BYTES32,
        input=_digest(source),
        output=_digest(cids.output),
        resultHash=ZERO_BYTES32 if left.value is None else bytes32(sha256(left.value)),
        startedAt=command.started_at,
        endedAt=max(command.ended_at, command.started_at),
        mode=0,
        status=int(outcome.status),
    )
    signed = SignedReceipt(receipt, b"", worker, source, cids.output, cids.value, cids.log)
    is_inline = left.value is not None and len(left.value) <= INLINE_BYTES
    return AttemptEnded(signed, left.value if is_inline else None, outcome.failure)


def left_of(outcome: Outcome) -> Left:
    return outcome.detail if isinstance(outcome.detail, Left) else Left()


def _digest(cid: str) -> Bytes32:
    return bytes32(cid_to_bytes(Cid(cid))[4:]) if cid else ZERO_BYTES32
