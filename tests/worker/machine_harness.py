"""A worker without an agent: interprets the machines' commands, commits and crashes where a test says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from worker_world import ATTESTATIONS, CHAIN_ID, OPERATOR, START, desired, fact, spec, state, voucher

from millpond.protocol import wire
from millpond.protocol.ids import ZERO_BYTES32, Bytes32
from millpond.protocol.link import AttemptEnded, LeasePhase, Ready, Run, VoucherKept
from millpond.protocol.link import Report as Framed
from millpond.protocol.messages import AttemptStatus, SignedReceipt
from millpond.protocol.signed import Receipt
from millpond.protocol.signing import Domain
from millpond.storage.journal import Batch, MemoryJournal
from millpond_worker.agent.reports import LANE, Reports
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


class Disk:
    """What survives a crash: the journal, with the rows of the machines and the outbox of reports."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def reports(self) -> Reports:
        return Reports(self.journal, Domain(CHAIN_ID, ATTESTATIONS), OPERATOR.key)

    def load(self) -> WorkerState:
        made, reports = state(), self.reports()
        made.next_seq = reports.added + 1
        rows.load(made, self.journal.scan(rows.LEASE_TABLE), self.journal.scan(rows.TASK_TABLE), reports.acked)
        return made

    @property
    def next_seq(self) -> int:
        return self.journal.outbox_next(LANE)

    @property
    def outbox(self) -> dict[int, object]:
        return {row.position: wire.read(Framed, row.body).body for row in self.journal.outbox(LANE)}

    def fences(self) -> dict[tuple[str, str], int]:
        """The newest attempt of each task that the journal holds, read without the worker's own code."""
        found = [(key.partition("/"), json.loads(value)) for key, value in self.journal.scan(rows.TASK_TABLE)]
        return {(name[0], name[2]): int(body["attempt"]) for name, body in found}


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
        self.state, self.reports = self.disk.load(), self.disk.reports()
        self.fences: dict[tuple[str, str], int] = {}
        self.executed: set[AttemptKey] = set()
        self.promised: dict[Bytes32, int] = {}
        self.host = Host()
        self.chain: dict[Bytes32, LeaseFact] = {}
        self.block = 100
        self.todo: list[Command] = []
        self.signed: dict[AttemptKey, set[str]] = {}
        self.runs = 0
        self.delivered: list[tuple[int, object]] = []
        self.paid: dict[Bytes32, int] = {}

    # EVENTS AND COMMITS

    def post(self, event: Event) -> None:
        for command in handle(self.state, event, self.now):
            if isinstance(command, Report):
                self.reports.add(command.seq, command.body)
            elif isinstance(command, DropReports):
                self.reports.drop(command.seq)
            else:
                self.todo.append(command)

    def commit(self) -> None:
        """As the agent does it."""
        batch = Batch()
        for change in rows.take_changes(self.state):
            if change.value is not None:
                batch.put(change.table, change.key, change.value)
            elif change.key.endswith("/"):
                batch.delete_prefix(change.table, change.key)
            else:
                batch.delete(change.table, change.key)
        seq = self.reports.write(batch)
        self.disk.journal.submit(batch).result()
        assert seq == self.disk.next_seq - 1
        if seq > self.reports.committed:
            self.post(Committed(seq))
            self.reports.commit(seq)

    def crash(self) -> None:
        """kill -9 and start again: what was not committed is gone, and so are warm containers."""
        self.host = Host()
        self.todo = []
        self.disk.journal = MemoryJournal(self.disk.journal.image())
        self.state, self.reports = self.disk.load(), self.disk.reports()
        self.fences, self.executed = self.disk.fences(), set()
        self.post(Restarted())

    @property
    def unsent(self) -> list[int]:
        """Numbers of the reports that no commit holds yet."""
        return list(range(self.reports.committed + 1, self.reports.added + 1))

    def send(self) -> None:
        """Everything leaves that the outbox lets go; receipts are signed as they do."""
        for seq in range(self.reports.acked + 1, self.reports.added + 1):
            frame = self.reports.frame(seq)
            if frame is None:
                continue
            assert seq < self.disk.next_seq, "a report left, and was signed, before its commit"
            body = wire.read(Framed, frame).body
            if isinstance(body, AttemptEnded):
                receipt = body.signed.receipt
                key = AttemptKey(receipt.lease, receipt.task, receipt.attempt)
                self.signed.setdefault(key, set()).add(receipt.struct_hash())
            elif isinstance(body, VoucherKept):
                self.promised[body.lease] = max(body.cumulative, self.promised.get(body.lease, 0))
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
            case Execute(key=key):
                assert key.attempt > self.fences.get((key.lease, key.task), 0), "an attempt runs again after a restart"
                assert key not in self.executed, "an attempt runs twice"
                self.executed.add(key)
                self.host.executing.add(key)
            case Adopt(key=key):
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
            TxKind.COLLECT: {"collected": command.cumulative},
            TxKind.DEMAND: {"demanded_at": self.now},
            TxKind.CLOSE: {"status": LeaseStatus.CLOSED, "closed_at": self.now},
            TxKind.CLOSE_UNPAID: {"status": LeaseStatus.CLOSED, "closed_at": self.now},
            TxKind.COLLECT_FINAL: {"is_settled": True},
            TxKind.RELEASE: {"status": LeaseStatus.RELEASED},
        }
        if command.kind is TxKind.COLLECT_FINAL:
            assert known.status is LeaseStatus.CLOSED
            assert not known.is_settled
            assert command.cumulative >= self.promised.get(lease, 0), (
                "a voucher the worker said it keeps is not collected"
            )
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
