"""Ladders at the edge: checked, durable, and climbed a rung at a time. The node holds no key and signs nothing here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from millpond.protocol import wire
from millpond.protocol.errors import InputError
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.ladders import Ladder, LadderError, check_shape
from millpond.protocol.messages import VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import verify
from millpond.protocol.views import LeaseState
from millpond.protocol.vouchers import Meter
from millpond_node.core import Core
from millpond_node.errors import NotFoundError
from millpond_node.machine.ladder import Climb, Scene, climb, is_over
from millpond_node.machine.leases import LeaseRecord, VoucherGiven
from millpond_node.machine.workers import WorkerState

VERIFY_SECONDS = 30.0
VERIFY_AT_ONCE = 256


@dataclass(slots=True)
class Kept:
    """`body`: the ladder as it came, so that the same one again changes nothing."""

    ladder: Ladder
    body: bytes
    climb: Climb


class Ladders:
    """Rows: `ladder` (as it came), `climb` (how far it is). What was released is the lease's own voucher."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kept: dict[Bytes32, Kept] = {}
        self._gate = asyncio.Lock()

    async def keep(self, caller: Address, ladder: Ladder, body: bytes) -> None:
        """Takes the place of the lease's last ladder. Durable once `core.durable.settled()` returns.

        Raises `NotFoundError` for another's lease, `LadderError` and `SignatureError` for what the session key did not sign so;
        then the last ladder stays.
        """
        record = self._record_of(caller, ladder)
        kept = self._kept.get(ladder.lease)
        if kept is not None and kept.body == body:
            return
        offer = record.offer.offer
        check_shape(ladder, offer.pricePerSecond, offer.tick, record.request.request.duration)
        if ladder.rungs and ladder.rungs[0].cumulative > _given(record) + offer.tick * offer.pricePerSecond:
            raise LadderError("the first rung is more than a tick beyond the last voucher", given=_given(record))
        async with self._gate, asyncio.timeout(VERIFY_SECONDS):
            await self._verify(ladder, record.voucher_signer)
        self._put(Kept(ladder, body, Climb(self._core.now())))

    def climb(self) -> None:
        """Releases what is due. Called every second or so."""
        for lease, kept in list(self._kept.items()):
            record = self._core.books.leases.records.get(lease)
            if record is None or record.state is LeaseState.CLOSED or is_over(kept.ladder, _given(record)):
                self._drop(lease)
            else:
                self._climb(record, kept)

    def restore(self) -> None:
        for key, body in self._core.journal.scan("ladder"):
            state = self._core.journal.get("climb", key)
            at = Climb(self._core.now()) if state is None else wire.read(Climb, state)
            self._kept[Bytes32(key)] = Kept(wire.read(Ladder, body), body, at)

    def left(self, lease: Bytes32) -> int:
        """How much the lease's ladder may still release."""
        record, kept = self._core.books.leases.records.get(lease), self._kept.get(lease)
        if record is None or kept is None or not kept.ladder.rungs:
            return 0
        return max(0, kept.ladder.rungs[-1].cumulative - _given(record))

    def _climb(self, record: LeaseRecord, kept: Kept) -> None:
        core, before = self._core, replace(kept.climb)
        rung = climb(kept.ladder, kept.climb, self._scene(record), core.now())
        if kept.climb != before:
            core.durable.batch.put("climb", record.lease, wire.write(kept.climb))
            core.durable.touch()
        if rung is not None:
            core.counters["rungs_released"] += 1
            core.on_lease(VoucherGiven(VoucherNote(record.lease, rung.cumulative, rung.signature)))

    def _scene(self, record: LeaseRecord) -> Scene:
        books, offer = self._core.books, record.offer.offer
        worker = books.workers.records.get(record.worker)
        jobs = books.desk.jobs_of.get(record.lease, {})
        return Scene(
            record.state,
            worker is not None and worker.state is WorkerState.ONLINE,
            Meter(record.ready_at, record.ends_at, offer.pricePerSecond),
            offer.tick,
            _given(record),
            any(job.open for job in jobs.values()),
        )

    def _record_of(self, caller: Address, ladder: Ladder) -> LeaseRecord:
        books = self._core.books
        record = books.leases.records.get(ladder.lease)
        if record is None or not record.has_party(caller):
            raise NotFoundError(f"there is no lease {ladder.lease}")
        return record

    async def _verify(self, ladder: Ladder, signer: Address) -> None:
        """On a thread, in pieces: thousands of signatures must not hold up the vouchers of others."""
        for start in range(0, len(ladder.rungs), VERIFY_AT_ONCE):
            await asyncio.to_thread(self._verify_some, ladder, start, signer)

    def _verify_some(self, ladder: Ladder, start: int, signer: Address) -> None:
        for number, rung in enumerate(ladder.rungs[start : start + VERIFY_AT_ONCE], start):
            try:
                verify(Voucher(ladder.lease, rung.cumulative), self._core.escrow_domain, rung.signature, signer)
            except InputError as error:
                raise LadderError(
                    f"rung {number} is not signed by the lease's session key: {error.message}", rung=number
                ) from error

    def _put(self, kept: Kept) -> None:
        lease, batch = kept.ladder.lease, self._core.durable.batch
        if not kept.ladder.rungs:
            self._drop(lease)
            return
        self._kept[lease] = kept
        batch.put("ladder", lease, kept.body)
        batch.put("climb", lease, wire.write(kept.climb))
        self._core.durable.touch()

    def _drop(self, lease: Bytes32) -> None:
        if self._kept.pop(lease, None) is not None:
            self._core.durable.batch.delete("ladder", lease)
            self._core.durable.batch.delete("climb", lease)
            self._core.durable.touch()


def _given(record: LeaseRecord) -> int:
    """The highest voucher the node knows of."""
    return max(record.voucher, record.note.cumulative if record.note is not None else 0)
