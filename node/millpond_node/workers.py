"""Workers at the edge: hello, offers, reports and their acknowledgement, and what the machines want sent to them."""

from __future__ import annotations

import asyncio
from itertools import count

from millpond.protocol import wire
from millpond.protocol.errors import InputError
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import Address, Bytes32, raw32
from millpond.protocol.link import (
    AttemptEnded,
    AttemptLost,
    Cancel,
    Desired,
    Ended,
    Hello,
    LeasePhase,
    NodeMessage,
    Ready,
    Report,
    ReportBody,
    Run,
    Started,
    Unpaid,
    VoucherKept,
    Welcome,
)
from millpond.protocol.messages import INLINE_BYTES, AttemptStatus, SignedOffer
from millpond.protocol.receipts import check_signature
from millpond.protocol.signing import recover
from millpond_node.chain.port import DeviceFacts
from millpond_node.core import Core, Offered, log
from millpond_node.desk import input_digest
from millpond_node.errors import SequenceGapError, VersionSkewError, WorkerRefusedError
from millpond_node.machine.commands import (
    Cordon,
    EndSession,
    LoseWorker,
    SendCancel,
    SendDesired,
    SendRun,
    SendVoucher,
    Uncordon,
)
from millpond_node.machine.leases import (
    LeaseRecord,
    WorkerAway,
    WorkerBack,
    WorkerEnded,
    WorkerKept,
    WorkerReady,
    WorkerUnpaid,
)
from millpond_node.machine.tasks import AttemptDone, AttemptGone, AttemptStarted
from millpond_node.machine.workers import BeatCame, HelloCame, SessionEnded, WorkerRecord, WorkerState
from millpond_node.policy.port import Listing, OffersListed, WorkerSeen
from millpond_node.sessions import Session
from millpond_node.settle import Settlement
from millpond_node.version import speaks_with

MAX_OFFERS = 256
OFFER_AHEAD_S = 3600 + 60


class BadReportError(InputError):
    remedy_text = "The attempt runs again under the next number; update or repair the worker."


class WorkersEdge:
    """Rows: `worker` (number of the last report processed). Sessions are of this process only."""

    def __init__(self, core: Core, settlement: Settlement) -> None:
        self._core, self._settlement = core, settlement
        self.sessions: dict[Address, Session] = {}
        self._devices: dict[Address, dict[Bytes32, DeviceFacts]] = {}
        self._hellos: dict[Address, Hello] = {}
        self._numbers = count(1)
        self._acks: dict[Address, int] = {}
        self.wake: asyncio.Event | None = None
        core.performs(SendRun, lambda c: self._send_lease(c.lease, Run(c.lease, c.attempt, c.spec)))
        core.performs(SendCancel, lambda c: self._send_lease(c.lease, Cancel(c.lease, c.task, c.attempt)))
        core.performs(
            SendDesired, lambda c: self._send_lease(c.lease, self.desired(core.books.leases.records[c.lease]))
        )
        core.performs(SendVoucher, lambda c: self._send_voucher(c.lease))
        core.performs(Cordon, lambda c: core.tell(WorkerSeen(c.worker, False)))
        core.performs(Uncordon, lambda c: core.tell(WorkerSeen(c.worker, True)))
        core.performs(LoseWorker, lambda c: self._lose(c.worker))
        core.performs(EndSession, lambda c: self._end(c.worker, c.session))
        core.durable.before.append(self._flush_acks)

    # CONNECTION

    async def hello(self, signer: Address, hello: Hello) -> Session:
        """Opens the worker's session, with its welcome queued. Raises what refuses it, and then nothing changed."""
        core = self._core
        if hello.worker != signer:
            raise WorkerRefusedError(f"signed by {signer}, the hello names {hello.worker}")
        if not speaks_with(hello.version):
            raise VersionSkewError(
                f"the worker runs {hello.version}, which this node does not speak", version=hello.version
            )
        devices = await self._facts(hello)
        if not devices:
            raise WorkerRefusedError(f"{hello.worker} is the operator of no device in the pool {core.facts.controller}")
        await core.durable.settled()
        session = Session(hello.worker, next(self._numbers), hello.instance)
        commands = core.on_worker(HelloCame(hello.worker, hello.instance, session.number, hello.last_seq))
        core.perform([command for command in commands if isinstance(command, EndSession)])
        self.sessions[hello.worker], self._devices[hello.worker], self._hellos[hello.worker] = session, devices, hello
        session.send(self._welcome(hello.worker))
        self._list(hello.worker, hello.offers)
        core.perform([command for command in commands if not isinstance(command, EndSession)])
        for lease in list(core.books.leases.by_worker.get(hello.worker, ())):
            self._send_voucher(lease)
            core.on_lease(WorkerBack(lease))
        log.info("worker %s connected with %d devices", hello.worker, len(devices))
        return session

    def alive(self, session: Session) -> None:
        """Any frame is a sign of life."""
        self._core.perform(self._core.on_worker(BeatCame(session.worker, session.number)))

    def left(self, session: Session) -> None:
        """The connection ended."""
        session.end()
        if self.sessions.get(session.worker) is session:
            del self.sessions[session.worker]
        self._core.perform(self._core.on_worker(SessionEnded(session.worker, session.number)))

    def offers(self, session: Session, offers: tuple[SignedOffer, ...]) -> None:
        self._list(session.worker, offers)

    async def refresh(self, worker: Address) -> None:
        """Reads the worker's devices on chain again; offers that no longer hold are dropped."""
        hello = self._hellos.get(worker)
        if hello is None:
            return
        self._devices[worker] = await self._facts(hello)
        signed = tuple(item.signed for item in self._core.books.offers.values() if item.worker == worker)
        self._list(worker, signed)

    def report(self, session: Session, report: Report) -> None:
        """Processes a report once; it is acknowledged when its effects are on disk. Raises `SequenceGapError`."""
        record = self._core.books.workers.records[session.worker]
        if not session.has_reported:
            session.has_reported = True
            self._take_up(record, report.seq)
        if report.seq > record.acked_seq + 1:
            raise SequenceGapError(
                f"report {report.seq} came, {record.acked_seq + 1} is next", expected=record.acked_seq + 1
            )
        if report.seq == record.acked_seq + 1:
            self._body(session.worker, report.body)
            record.acked_seq = report.seq
        self._acks[session.worker] = record.acked_seq
        self._core.durable.touch()

    def desired(self, record: LeaseRecord) -> Desired:
        image = self._core.config.task_image
        return Desired(
            record.lease,
            record.offer,
            record.request,
            record.phase,
            image,
            record.opened_at,
            record.ends_at,
            record.block_hash,
        )

    def restore(self) -> None:
        """Workers of the last run are given the time to come back before their attempts run elsewhere."""
        core = self._core
        for key, value in core.journal.scan("worker"):
            worker = Address(key)
            record = WorkerRecord(
                worker, acked_seq=int(value), last_beat=core.clock.monotonic(), state=WorkerState.SUSPECT
            )
            core.books.workers.records[worker] = record

    # HELLO AND OFFERS

    def _welcome(self, worker: Address) -> Welcome:
        books = self._core.books
        leases = [books.leases.records[lease] for lease in books.leases.by_worker.get(worker, ())]
        wanted = [item for item in leases if item.ended is None or item.phase is not LeasePhase.CLOSED]
        acked = books.workers.records[worker].acked_seq
        return Welcome(self._core.facts.node, acked, tuple(self.desired(item) for item in wanted))

    async def _facts(self, hello: Hello) -> dict[Bytes32, DeviceFacts]:
        """The hello's devices that are in this pool and have this operator."""
        async with asyncio.timeout(20):
            found = [await self._core.chain.device(entry.device) for entry in hello.devices[:MAX_OFFERS]]
        controller = self._core.facts.controller
        return {
            facts.device: facts
            for facts in found
            if facts is not None and facts.pool == controller and facts.operator == hello.worker
        }

    def _list(self, worker: Address, offers: tuple[SignedOffer, ...]) -> None:
        core, hello = self._core, self._hellos[worker]
        entries = {entry.device: entry for entry in hello.devices}
        for old in [hash_ for hash_, item in core.books.offers.items() if item.worker == worker]:
            del core.books.offers[old]
        listings = []
        for signed in offers[:MAX_OFFERS]:
            facts, entry = self._devices[worker].get(signed.offer.device), entries.get(signed.offer.device)
            if facts is None or entry is None or not self._is_good(signed, facts):
                core.counters["offers_refused"] += 1
                continue
            hash_ = signed.offer.struct_hash()
            core.books.offers[hash_] = Offered(hash_, signed, worker, facts.provider, entry, hello.launcher)
            healthy = entry.is_healthy and not facts.is_draining
            listings.append(Listing(hash_, signed.offer, worker, facts.provider, facts.memory_mib, healthy))
        core.tell(OffersListed(worker, tuple(listings)))
        if self.wake is not None:
            self.wake.set()

    def _is_good(self, signed: SignedOffer, facts: DeviceFacts) -> bool:
        core, offer = self._core, signed.offer
        if offer.controller != core.facts.controller or offer.epoch != facts.epoch:
            return False
        if not core.now() < offer.deadline <= core.now() + OFFER_AHEAD_S:
            return False
        try:
            return recover(offer, core.envelope_domain, signed.signature) == facts.operator
        except InputError:
            return False

    # REPORTS

    def _body(self, worker: Address, body: ReportBody) -> None:
        core = self._core
        record = core.books.leases.records.get(
            body.signed.receipt.lease if isinstance(body, AttemptEnded) else body.lease
        )
        if record is None or record.worker != worker:
            core.counters["reports_ignored"] += 1
            return
        match body:
            case AttemptEnded():
                self._ended(record, body)
            case Started(lease=lease, task=task, attempt=attempt):
                core.on_task(AttemptStarted(lease, task, attempt))
            case AttemptLost(lease=lease, task=task, attempt=attempt, reason=reason, cause=cause):
                core.on_task(AttemptGone(lease, task, attempt, reason, cause))
            case Ready(lease=lease, at=at):
                core.on_lease(WorkerReady(lease, at))
            case VoucherKept(lease=lease, cumulative=cumulative):
                core.on_lease(WorkerKept(lease, cumulative))
            case Unpaid(lease=lease, unpaid_seconds=seconds):
                core.on_lease(WorkerUnpaid(lease, seconds))
            case Ended(lease=lease, reason=reason, message=message):
                core.on_lease(WorkerEnded(lease, reason, message[:1000]))

    def _ended(self, record: LeaseRecord, body: AttemptEnded) -> None:
        core, receipt = self._core, body.signed.receipt
        lane = core.books.desk.lanes.get(receipt.lease)
        found = lane.outstanding.get(receipt.task) if lane is not None else None
        if found is None or found[1].attempt != receipt.attempt:
            core.books.desk.stale += 1
            return
        job, task = found
        try:
            assert task.spec is not None
            self._check(record, body, input_digest(task.spec))
        except InputError as error:
            log.warning("receipt of %s for task %s refused: %s", record.worker, receipt.task, error.code)
            core.counters["receipts_refused"] += 1
            core.on_task(AttemptGone(receipt.lease, receipt.task, receipt.attempt, error.message))
            return
        core.on_task(AttemptDone(body.signed, body.value, body.failure))
        self._settlement.add(job.id, task.id, task.cursor, body.signed)

    def _check(self, record: LeaseRecord, body: AttemptEnded, input_: bytes) -> None:
        signed, receipt = body.signed, body.signed.receipt
        if signed.worker != record.worker or receipt.device != record.device:
            raise BadReportError("the receipt names another worker or device than its lease")
        if receipt.status not in AttemptStatus._value2member_map_ or receipt.endedAt < receipt.startedAt:
            raise BadReportError("the receipt's status or times are impossible")
        if raw32(receipt.input) != input_:
            raise BadReportError("the receipt names other inputs than the task's")
        if body.value is not None and (
            len(body.value) > INLINE_BYTES or sha256(body.value) != raw32(receipt.resultHash)
        ):
            raise BadReportError("the value is not the one the receipt names")
        check_signature(signed, self._core.receipt_domain)

    def _take_up(self, record: WorkerRecord, seq: int) -> None:
        """The first report of a connection is the baseline where it lies ahead: a worker drops only what was acknowledged,
        so the reports between were taken by a node whose journal is gone, or older now."""
        if seq > record.acked_seq + 1:
            log.warning("worker %s goes on with report %d, the last here is %d", record.worker, seq, record.acked_seq)
            self._core.counters["baselines_taken"] += 1
            record.acked_seq = seq - 1

    def _flush_acks(self) -> None:
        acks, self._acks = self._acks, {}
        if not acks:
            return
        for worker, seq in acks.items():
            self._core.durable.batch.put("worker", worker, str(seq).encode())
        self._core.durable.after(lambda: self._acknowledge(acks))

    def _acknowledge(self, acks: dict[Address, int]) -> None:
        for worker, seq in acks.items():
            session = self.sessions.get(worker)
            if session is not None:
                session.acknowledge(seq)

    # COMMANDS

    def _send_lease(self, lease: Bytes32, message: NodeMessage) -> None:
        record = self._core.books.leases.records.get(lease)
        session = self.sessions.get(record.worker) if record is not None else None
        if session is not None:
            session.send(message)

    def _send_voucher(self, lease: Bytes32) -> None:
        note = self._core.books.leases.records[lease].note
        if note is not None:
            self._core.durable.after(lambda: self._send_lease(lease, note))

    def _lose(self, worker: Address) -> None:
        log.warning("worker %s is lost", worker)
        self._core.counters["workers_lost"] += 1
        self._list_nothing(worker)
        for lease in list(self._core.books.leases.by_worker.get(worker, ())):
            self._core.on_lease(WorkerAway(lease))

    def _list_nothing(self, worker: Address) -> None:
        if worker in self._hellos:
            self._list(worker, ())

    def _end(self, worker: Address, number: int) -> None:
        session = self.sessions.get(worker)
        if session is not None and session.number == number:
            session.end()


def read_hello(data: str) -> Hello:
    """The first frame. Raises `WireError` on anything else."""
    return wire.read(Hello, data)
