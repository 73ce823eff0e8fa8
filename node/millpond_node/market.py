"""Requests and leases at the edge: checks, rows, decisions, and the transactions that open and close."""

from __future__ import annotations

import asyncio

from millpond.chain.errors import IntentConflictError
from millpond.protocol import wire
from millpond.protocol.errors import InputError
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, lease_id
from millpond.protocol.messages import SignedRequest, VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import verify
from millpond.protocol.views import LeaseState, RequestState
from millpond.storage.journal import JournalFailedError
from millpond_node.chain.port import CloseLease, Intent, OpenLease, Refusal
from millpond_node.core import Core, Offered, log
from millpond_node.errors import BacklogError, NotAPartyError, NotFoundError, RequestRefusedError
from millpond_node.machine.commands import (
    Free,
    LeaseDropped,
    Occupy,
    Purge,
    Queue,
    SaveLease,
    SaveRequest,
    SendClose,
    SendOpen,
    StartLane,
    StopLane,
    Unqueue,
)
from millpond_node.machine.leases import LeaseNotOpened, LeaseRecord, Planned, VoucherGiven
from millpond_node.machine.requests import Chosen, OpenFailed, RequestRecord, Submitted
from millpond_node.machine.tasks import LaneOpened, LaneStopped
from millpond_node.machine.workers import WorkerState
from millpond_node.policy.port import (
    FundsKnown,
    OfferAvoided,
    RequestGone,
    RequestQueued,
    SliceFreed,
    SliceTaken,
    Start,
)

AVOID_S = 30
DECISIONS_PER_TURN = 64
OPEN_AHEAD_S = 10
RETRY_S = 3.0
RETRYABLE = frozenset(
    {
        "ControllerOfferCancelledError",
        "ControllerOfferExpiredError",
        "ControllerOfferTooFarError",
        "ControllerPausedError",
        "ControllerRenterAtCapError",
        "ControllerDeviceNotHereError",
        "ControllerBadOfferSignatureError",
        "DevicesDrainingError",
        "DevicesMemoryFullError",
        "DevicesReservationTooLongError",
        "DevicesShareFullError",
        "StakingInsufficientUnreservedError",
    }
)
"""Refusals that concern the offer: another one, or a later time, may do."""


class Market:
    """`decide()` turns the policy's decisions into openings; `wake` is set when there may be something to decide."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.wake = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._reasons: dict[Bytes32, Refusal] = {}
        self._funds: dict[Address, int] = {}
        core.performs(SaveRequest, lambda command: self._save_request(command.request))
        core.performs(Queue, self._queue)
        core.performs(Unqueue, lambda command: core.tell(RequestGone(command.request)))
        core.performs(SaveLease, lambda command: self._save_lease(command.lease))
        core.performs(SendOpen, lambda command: self._open(command.lease))
        core.performs(SendClose, lambda command: self.send(CloseLease(command.lease)))
        core.performs(Occupy, lambda command: self._occupy(command.lease))
        core.performs(Free, lambda command: self._free(command.lease))
        core.performs(LeaseDropped, self._dropped)
        core.performs(Purge, lambda command: self.purge(command.lease))
        core.performs(StartLane, lambda command: self._start_lane(command.lease))
        core.performs(
            StopLane, lambda command: core.on_task(LaneStopped(command.lease, command.is_over, command.counts))
        )

    # REQUESTS

    def submit(self, caller: Address, signed: SignedRequest) -> RequestRecord:
        """The record; durable once `core.durable.settled()` returns. The same request again changes nothing."""
        request = signed.request
        if caller not in (request.renter, request.voucherSigner):
            raise NotAPartyError(f"{caller} is neither the request's renter nor its session key")
        verify(request, self._core.escrow_domain, signed.signature, request.renter)
        hash_ = request.struct_hash()
        books = self._core.books.requests
        known = books.records.get(hash_)
        if known is not None:
            return known
        self._check_request(signed)
        self._check_room(request.renter)
        self._core.on_request(Submitted(hash_, signed))
        self._core.counters["requests"] += 1
        return books.records[hash_]

    def request_of(self, caller: Address, hash_: Bytes32) -> RequestRecord:
        record = self._core.books.requests.records.get(hash_)
        if record is None or caller not in (record.renter, record.signed.request.voucherSigner):
            raise NotFoundError(f"there is no request {hash_}")
        return record

    def lease_of(self, caller: Address, lease: Bytes32) -> LeaseRecord:
        """Raises `NotFoundError`, alike for an unknown lease and another's."""
        record = self._core.books.leases.records.get(lease)
        if record is None or not (record.has_party(caller) or caller in (record.worker, record.provider)):
            raise NotFoundError(f"there is no lease {lease}")
        return record

    def voucher(self, caller: Address, note: VoucherNote) -> int:
        """The highest cumulative amount kept. Raises `SignatureError` for one the lease's session key did not sign."""
        record = self._core.books.leases.records.get(note.lease)
        if record is None or not record.has_party(caller):
            raise NotFoundError(f"there is no lease {note.lease}")
        voucher = Voucher(note.lease, note.cumulative)
        verify(voucher, self._core.escrow_domain, note.signature, record.voucher_signer)
        self._core.on_lease(VoucherGiven(note))
        return record.note.cumulative if record.note is not None else 0

    async def learn_funds(self, renter: Address) -> None:
        """Asks the chain for a renter's free escrow; without an answer the policy goes without it."""
        try:
            free = await asyncio.wait_for(self._core.chain.free_escrow(renter), 10)
        except (TimeoutError, Exception) as error:  # noqa: BLE001 - the chain decides at the opening
            log.info("free escrow of %s is unknown: %s", renter, type(error).__name__)
            return
        if self._funds.get(renter) != free:
            self._funds[renter] = free
            self._core.tell(FundsKnown(renter, free))
            self.wake.set()

    # DECISIONS

    def decide(self) -> int:
        """Performs the policy's decisions; how many there were."""
        core = self._core
        decisions = core.policy.decide(core.now(), DECISIONS_PER_TURN)
        for start in decisions:
            core.record(
                "Start", {"request": start.request, "offer": start.offer, "now": core.now(), "trail": start.trail}
            )
            self._start(start)
        return len(decisions)

    def _start(self, start: Start) -> None:
        core, books = self._core, self._core.books
        record = books.requests.records[start.request]
        offered = books.offers[start.offer]
        lease = lease_id(core.facts.chain_id, core.facts.controller, start.offer, start.request)
        core.tell(SliceFreed(start.request))  # what the decision held; the lease takes it next
        core.on_request(Chosen(start.request, start.offer, lease))
        core.on_lease(Planned(new_lease(lease, record, offered)))

    def _open(self, lease: Bytes32) -> None:
        record = self._core.books.leases.records[lease]
        request, offer = record.request, record.offer
        self.send(OpenLease(lease, offer.offer, offer.signature, request.request, request.signature))

    def send(self, intent: Intent) -> None:
        """Sends in the background, behind the journal; what the contract refuses comes back as an event."""
        if intent.key not in self._sending:
            task = asyncio.create_task(self._send(intent), name=intent.key)
            self._sending[intent.key] = task
            task.add_done_callback(lambda _: self._sending.pop(intent.key, None))

    async def _send(self, intent: Intent) -> None:
        core = self._core
        try:
            await core.durable.settled()
        except JournalFailedError:
            return  # the node is going down; the intent is read back at its next start
        while True:
            try:
                refusal = await core.chain.send(intent)
                break
            except (InputError, IntentConflictError) as error:
                log.error("%s cannot be sent: %s", intent.key, error.message)
                return
            except Exception as error:  # noqa: BLE001 - an RPC that fails today answers tomorrow
                core.counters["chain_errors"] += 1
                log.warning("%s waits for the chain: %s", intent.key, error)
                await core.clock.sleep(RETRY_S)
        if refusal is not None:
            self.refused(intent, refusal)

    def refused(self, intent: Intent, refusal: Refusal) -> None:
        """The contract refuses what the node asked."""
        log.warning("%s refused: %s %s", intent.key, refusal.code, refusal.message)
        self._core.counters["refused_transactions"] += 1
        if isinstance(intent, OpenLease):
            self._reasons[intent.lease] = refusal
            self._core.on_lease(LeaseNotOpened(intent.lease, f"{refusal.code}: {refusal.message}"))

    def resend(self) -> None:
        """After a restart: what is under way is asked again, under its old key."""
        for record in list(self._core.books.leases.records.values()):
            if record.state is LeaseState.OPENING and record.is_ours:
                self._open(record.lease)
            elif record.is_close_sent and not record.closed_at:
                self.send(CloseLease(record.lease))

    async def aclose(self) -> None:
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # COMMANDS

    def _save_request(self, hash_: Bytes32) -> None:
        record = self._core.books.requests.records[hash_]
        self._core.durable.batch.put("request", hash_, wire.write(record))

    def _queue(self, command: Queue) -> None:
        core = self._core
        record = core.books.requests.records[command.request]
        if command.avoid is not None:
            core.tell(OfferAvoided(record.hash, command.avoid, core.now() + AVOID_S))
        core.tell(RequestQueued(record.hash, record.signed.request, record.signed.priority, record.order))
        self.wake.set()

    def _save_lease(self, lease: Bytes32) -> None:
        record = self._core.books.leases.records[lease]
        self._core.durable.batch.put("lease", lease, wire.write(record))

    def _occupy(self, lease: Bytes32) -> None:
        record = self._core.books.leases.records[lease]
        offer = record.offer.offer
        self._core.tell(SliceTaken(lease, offer.device, offer.share, offer.memoryMiB, record.renter))

    def _free(self, lease: Bytes32) -> None:
        self._core.tell(SliceFreed(lease))
        self.wake.set()

    def _dropped(self, command: LeaseDropped) -> None:
        refusal = self._reasons.pop(command.lease, None)
        is_refusal = refusal is None or refusal.code not in RETRYABLE
        reason = f"{refusal.code}: {refusal.message}" if refusal else "the lease cannot be opened"
        self._core.on_request(OpenFailed(command.request, command.lease, reason, is_refusal))

    def purge(self, lease: Bytes32) -> None:
        self._core.books.leases.forget(lease)
        self._core.durable.batch.delete("lease", lease)

    def _start_lane(self, lease: Bytes32) -> None:
        record = self._core.books.leases.records[lease]
        worker = self._core.books.workers.records.get(record.worker)
        if worker is not None and worker.state is not WorkerState.LOST:
            self._core.on_task(LaneOpened(lease))

    def _check_request(self, signed: SignedRequest) -> None:
        request, facts = signed.request, self._core.facts
        if request.controller != facts.controller:
            raise RequestRefusedError(f"the request is for the pool {request.controller}, this is {facts.controller}")
        if request.token != facts.token:
            raise RequestRefusedError(f"the request pays in {request.token}, this pool takes {facts.token}")
        if request.submitter != facts.node and (request.submitter != ZERO_ADDRESS or request.offer == ZERO_BYTES32):
            raise RequestRefusedError(
                f"the request names {request.submitter} as its submitter, this node is {facts.node}"
            )
        if not 0 < request.duration <= facts.max_duration:
            raise RequestRefusedError(f"{request.duration} s are asked, this pool leases 1 to {facts.max_duration} s")
        if request.deadline <= self._core.now() + OPEN_AHEAD_S:
            raise RequestRefusedError("the request's deadline is too near or over", deadline=request.deadline)

    def _check_room(self, renter: Address) -> None:
        books, limits = self._core.books.requests, self._core.config.limits
        if len(books.live) >= limits.open_requests:
            raise BacklogError(f"{len(books.live)} requests wait, no more are taken")
        if sum(books.records[hash_].renter == renter for hash_ in books.live) >= limits.open_requests_per_renter:
            raise BacklogError(f"{limits.open_requests_per_renter} requests of {renter} wait, no more are taken")


def new_lease(lease: Bytes32, record: RequestRecord, offered: Offered) -> LeaseRecord:
    return LeaseRecord(
        lease, record.hash, offered.hash, record.signed, offered.signed, offered.provider, offered.worker
    )


def sweep(core: Core, market: Market) -> None:
    """Forgets requests and leases that ended long ago."""
    keep, now = core.config.job_retention_s, core.now()
    for record in list(core.books.leases.records.values()):
        if record.state is LeaseState.CLOSED and now - record.closed_at > keep:
            market.purge(record.lease)
    books = core.books.requests
    for request in list(books.records.values()):
        has_lease = request.lease in core.books.leases.records
        if request.hash not in books.live and not has_lease and now - request.signed.request.deadline > keep:
            del books.records[request.hash]
            core.durable.batch.delete("request", request.hash)


def restore(core: Core) -> None:
    """Reads requests, leases and slices back, and tells the policy."""
    for _, data in core.journal.scan("request"):
        core.books.requests.adopt(wire.read(RequestRecord, data))
    for _, data in core.journal.scan("lease"):
        core.books.leases.adopt(wire.read(LeaseRecord, data))
    for _, data in core.journal.scan("slice"):
        core.policy.apply(wire.read(SliceTaken, data))
    queued = [core.books.requests.records[hash_] for hash_ in core.books.requests.live]
    for record in sorted(queued, key=lambda item: item.order):
        if record.state is RequestState.QUEUED:
            core.policy.apply(RequestQueued(record.hash, record.signed.request, record.signed.priority, record.order))
