"""A worker without an agent: interprets the machines' commands, commits and crashes where a test says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from worker_world import START, desired, fact, spec, state, voucher

from millpond.protocol.ids import ZERO_BYTES32, Bytes32
from millpond.protocol.link import AttemptEnded, LeasePhase, Ready, Run
from millpond.protocol.messages import AttemptStatus, SignedReceipt
from millpond.protocol.signed import Receipt
from millpond_worker.machine import rows
from millpond_worker.machine.commands import (
    Adopt,
    CheckChain,
    Clear,
    Command,
    DropReports,
    Execute,
    Fetch,
    Launch,
    Pause,
    Report,
    Resume,
    Seal,
    SendTx,
    Stop,
)
from millpond_worker.machine.events import (
    Ack,
    ChainSaid,
    Committed,
    Connected,
    Event,
    Exited,
    HostClean,
    InputsReady,
    Launched,
    LaunchFailed,
    LeaseFact,
    LeaseStatus,
    Outcome,
    Restarted,
    Stored,
    TxDone,
)
from millpond_worker.machine.handle import handle
from millpond_worker.machine.model import AttemptKey, TxKind, WorkerState

DURATION = 3600


@dataclass
class Disk:
    """What survives a crash."""

    rows: dict[tuple[str, str], bytes] = field(default_factory=dict)
    outbox: dict[int, object] = field(default_factory=dict)
    next_seq: int = 1

    def load(self) -> WorkerState:
        made = state()
        made.next_seq = self.next_seq
        acked = min(self.outbox, default=self.next_seq) - 1
        tables = {
            name: [(key, value) for (table, key), value in sorted(self.rows.items()) if table == name]
            for name in ("lease", "task")
        }
        rows.load(made, tables["lease"], tables["task"], acked)
        return made


@dataclass
class Host:
    """The machine: containers by lease, whether they are paused, and what runs in them."""

    running: dict[Bytes32, bool] = field(default_factory=dict)
    executing: set[AttemptKey] = field(default_factory=set)


class Harness:
    """Commands wait in `todo` until the test performs them, in any order it likes."""

    def __init__(self) -> None:
        self.now = START
        self.disk = Disk()
        self.state = self.disk.load()
        self.host = Host()
        self.chain: dict[Bytes32, LeaseFact] = {}
        self.block = 100
        self.todo: list[Command] = []
        self.unsent: list[tuple[int, object]] = []
        self.signed: dict[AttemptKey, set[str]] = {}
        self.runs = 0
        self.delivered: list[tuple[int, object]] = []
        self.paid: dict[Bytes32, int] = {}

    # EVENTS AND COMMITS

    def post(self, event: Event) -> None:
        for command in handle(self.state, event, self.now):
            if isinstance(command, Report):
                self.unsent.append((command.seq, command.body))
            elif isinstance(command, DropReports):
                self.disk.outbox = {seq: body for seq, body in self.disk.outbox.items() if seq > command.seq}
            else:
                self.todo.append(command)

    def commit(self) -> None:
        for change in rows.take_changes(self.state):
            if change.value is not None:
                self.disk.rows[change.table, change.key] = change.value
            else:
                for table, key in list(self.disk.rows):
                    if table == change.table and (
                        key == change.key or (change.key.endswith("/") and key.startswith(change.key))
                    ):
                        del self.disk.rows[table, key]
        unsent, self.unsent = self.unsent, []
        for seq, body in unsent:
            assert seq == self.disk.next_seq
            self.disk.outbox[seq] = body
            self.disk.next_seq = seq + 1
        self.post(Committed(self.disk.next_seq - 1))

    def crash(self) -> None:
        """kill -9 and start again: what was not committed is gone, and so are warm containers."""
        self.host = Host()
        self.todo, self.unsent = [], []
        self.state = self.disk.load()
        self.post(Restarted())

    def send(self) -> None:
        """Everything durable leaves; receipts are signed as they do."""
        for seq, body in sorted(self.disk.outbox.items()):
            if isinstance(body, AttemptEnded):
                receipt = body.signed.receipt
                key = AttemptKey(receipt.lease, receipt.task, receipt.attempt)
                self.signed.setdefault(key, set()).add(receipt.struct_hash())
            self.delivered.append((seq, body))

    def ack(self) -> None:
        if self.delivered:
            self.post(Ack(max(seq for seq, _ in self.delivered)))

    # COMMANDS

    def step(self, index: int = 0) -> None:
        """Performs one waiting command."""
        if self.todo:
            self.perform(self.todo.pop(index % len(self.todo)))

    def settle(self, rounds: int = 40) -> None:
        """Performs and commits until nothing waits."""
        for _ in range(rounds):
            self.commit()
            if not self.todo:
                return
            waiting, self.todo = self.todo, []
            for command in waiting:
                self.perform(command)

    def perform(self, command: Command) -> None:
        match command:
            case CheckChain(lease=lease):
                self.look(lease)
            case Launch(lease=lease):
                self.host.running[lease] = True
                self.post(Launched(lease))
            case Clear(lease=lease):
                self.host.running.pop(lease, None)
                self.host.executing = {key for key in self.host.executing if key.lease != lease}
                self.post(HostClean(lease))
            case Pause(lease=lease) | Resume(lease=lease):
                if lease in self.host.running:
                    self.host.running[lease] = isinstance(command, Resume)
            case Fetch(key=key):
                self.post(InputsReady(key))
            case Execute(key=key) | Adopt(key=key):
                self.host.executing.add(key)
            case Stop(key=key):
                self.finish(key, AttemptStatus.CANCELLED)
            case Seal():
                self.post(
                    Stored(
                        command.key, AttemptEnded(SignedReceipt(self._receipt(command), b"", self.state.terms.operator))
                    )
                )
            case SendTx():
                self._transact(command)

    def finish(self, key: AttemptKey, status: AttemptStatus | None = AttemptStatus.SUCCEEDED) -> None:
        if key in self.host.executing:
            self.host.executing.discard(key)
            self.post(Exited(key, Outcome(status), self.now, self.now))

    def fail_launches(self) -> None:
        for command in [command for command in self.todo if isinstance(command, Launch)]:
            self.todo.remove(command)
            self.post(LaunchFailed(command.lease, "no image"))

    def _receipt(self, command: Seal) -> Receipt:
        self.runs += 1
        key = command.key
        zero = ZERO_BYTES32
        status = int(command.outcome.status or 0)
        return Receipt(key.lease, key.task, key.attempt, zero, zero, zero, zero, zero, self.runs, self.runs, 0, status)

    # CHAIN

    def look(self, lease: Bytes32) -> None:
        self.post(ChainSaid(self.fact(lease)))

    def fact(self, lease: Bytes32) -> LeaseFact:
        none = fact(lease, LeaseStatus.NONE, opened_at=0, ends_at=0)
        return replace(self.chain.get(lease, none), block=self.block, head_time=self.now)

    def open(self, lease: Bytes32) -> None:
        self.block += 1
        self.chain[lease] = fact(lease, opened_at=self.now, ends_at=self.now + DURATION)

    def close(self, lease: Bytes32) -> None:
        if lease in self.chain and self.chain[lease].status is LeaseStatus.OPEN:
            self.block += 1
            self.chain[lease] = replace(self.chain[lease], status=LeaseStatus.CLOSED, closed_at=self.now)

    def drop(self, lease: Bytes32) -> None:
        self.block += 1
        self.chain.pop(lease, None)

    def _transact(self, command: SendTx) -> None:
        lease = command.lease
        known = self.chain.get(lease)
        if known is None:
            self.post(TxDone(lease, command.kind, command.number, "reverted"))
            return
        changes: dict[TxKind, dict[str, object]] = {
            TxKind.NOTICE: {"notice_ends_at": self.now + 120},
            TxKind.DEMAND: {"demanded_at": self.now},
            TxKind.CLOSE: {"status": LeaseStatus.CLOSED, "closed_at": self.now},
            TxKind.CLOSE_UNPAID: {"status": LeaseStatus.CLOSED, "closed_at": self.now},
            TxKind.COLLECT_FINAL: {"is_settled": True},
            TxKind.RELEASE: {"status": LeaseStatus.RELEASED},
        }
        if command.kind is TxKind.COLLECT_FINAL:
            assert known.status is LeaseStatus.CLOSED
            assert not known.is_settled
            self.paid[lease] = command.cumulative
        self.block += 1
        self.chain[lease] = replace(known, **changes[command.kind])  # type: ignore[arg-type]
        self.post(TxDone(lease, command.kind, command.number))
        self.look(lease)

    # SHORT CUTS

    def connect(self) -> None:
        self.post(Connected(self.state.acked_seq))

    def serve(self, nonce: int = 1) -> Bytes32:
        """A lease that is ready."""
        hint = desired(nonce)
        self.post(hint)
        self.open(hint.lease)
        self.post(desired(nonce, LeasePhase.SEEN))
        self.settle()
        return hint.lease

    def run(self, lease: Bytes32, index: int = 0, attempt: int = 1) -> AttemptKey:
        task = spec(index)
        self.post(Run(lease, attempt, task))
        return AttemptKey(lease, task.id, attempt)

    def pay(self, lease: Bytes32, cumulative: int) -> None:
        self.post(voucher(lease, cumulative))

    def reported(self, kind: type) -> list[object]:
        return [body for _, body in sorted(self.disk.outbox.items()) if isinstance(body, kind)]

    def ready_at(self, lease: Bytes32) -> int:
        return next(body.at for body in reversed(self.reported(Ready)) if body.lease == lease)  # type: ignore[attr-defined]
