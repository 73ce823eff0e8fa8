"""Receipts in batches: a Merkle root on chain, the receipts themselves as a file among the node's blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from millpond.protocol import merkle, wire
from millpond.protocol.ids import Address, Bytes32, bytes32
from millpond.protocol.messages import Message, SignedReceipt
from millpond.protocol.receipts import receipt_leaf
from millpond.protocol.views import ReceiptBundle
from millpond_node.chain.port import Intent, PostReceipts
from millpond_node.core import Core
from millpond_node.errors import ReceiptPendingError
from millpond_node.machine.tasks import ReceiptsAt, Stage

QUICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pending:
    """A receipt no batch has yet."""

    job: Bytes32
    task: Bytes32
    cursor: int
    signed: SignedReceipt


@dataclass(slots=True)
class Posting(Message):
    """A batch: `refs` are (job, task, cursor) in the tree's order, `leaves` 32 bytes each."""

    number: int
    root: Bytes32
    data_hash: Bytes32
    refs: list[tuple[Bytes32, Bytes32, int]]
    leaves: bytes
    stage: Stage = Stage.SIGNED

    @property
    def count(self) -> int:
        return len(self.refs)


@dataclass(slots=True)
class Postings:
    pending: list[Pending] = field(default_factory=list)
    by_root: dict[Bytes32, Posting] = field(default_factory=dict)
    place: dict[tuple[Bytes32, int], tuple[Posting, int]] = field(default_factory=dict)
    jobs: dict[Bytes32, set[Bytes32]] = field(default_factory=dict)
    number: int = 0


StoreFile = Callable[[bytes], Awaitable[bytes]]
"""Stores a file among the node's blocks; the digest in its CID."""


class Settlement:
    """Rows: `batch` (postings). `send` hands an intent to the chain."""

    def __init__(self, core: Core, store: StoreFile, send: Callable[[Intent], None]) -> None:
        self._core, self._store, self._send = core, store, send
        self.postings = Postings()
        self._since, self._is_posting = 0.0, False

    def add(self, job: Bytes32, task: Bytes32, cursor: int, signed: SignedReceipt) -> None:
        """A verified receipt; its result row is in the same batch."""
        if not self.postings.pending:
            self._since = self._core.clock.monotonic()
        self.postings.pending.append(Pending(job, task, cursor, signed))

    def is_due(self, now: float) -> bool:
        """Whether the receipts that wait should be posted: after some seconds, sooner when no task is open, at once when many wait."""
        pending = self.postings.pending
        if not pending or self._is_posting:
            return False
        wait = QUICK_SECONDS if self._core.books.desk.open == 0 else self._core.config.batch_seconds
        return len(pending) >= self._core.config.batch_receipts or now - self._since >= max(wait, 0.0)

    async def post(self) -> Posting | None:
        """Makes the next batch durable and sends its root."""
        if self._is_posting or not self.postings.pending:
            return None
        self._is_posting = True
        try:
            taken = self.postings.pending[: self._core.config.batch_receipts]
            digest = await self._store(wire.write([item.signed for item in taken], list[SignedReceipt]))
            del self.postings.pending[: len(taken)]
            posting = self._posting(taken, bytes32(digest))
        finally:
            self._is_posting = False
            self._since = self._core.clock.monotonic()
        self._core.durable.batch.put("batch", f"{posting.number:010}", wire.write(posting))
        self._core.durable.touch()
        self._core.counters["batches"] += 1
        self._send(PostReceipts(posting.root, posting.count, posting.data_hash))
        return posting

    def seen(self, poster: Address, root: Bytes32) -> None:
        self._reach(poster, root, Stage.ATTESTED)

    def undone(self, poster: Address, root: Bytes32) -> None:
        """The transaction is sent again by its outbox; until then the receipts are not attested."""
        self._reach(poster, root, Stage.SIGNED)
        posting = self.postings.by_root.get(root)
        if posting is not None:
            self._send(PostReceipts(posting.root, posting.count, posting.data_hash))

    def final(self, poster: Address, root: Bytes32) -> None:
        self._reach(poster, root, Stage.FINAL)

    def bundle(self, job: Bytes32, cursor: int, signed: SignedReceipt) -> ReceiptBundle:
        """Raises `ReceiptPendingError` until the batch is seen on chain."""
        found = self.postings.place.get((job, cursor))
        if found is None or found[0].stage < Stage.ATTESTED:
            raise ReceiptPendingError("the receipt is signed, its batch is not on chain yet", retry_after_s=3)
        posting, index = found
        leaves = [posting.leaves[at : at + 32] for at in range(0, len(posting.leaves), 32)]
        facts = self._core.facts
        return ReceiptBundle(
            facts.chain_id, facts.controller, facts.escrow, facts.devices, facts.attestations, facts.node,
            posting.root, posting.count, index, tuple(bytes32(item) for item in merkle.proof(leaves, index)), signed,
        )  # fmt: skip

    def restore_batches(self) -> None:
        """Reads postings back; call before the receipts come by `restore_receipt`."""
        for _, data in self._core.journal.scan("batch"):
            posting = wire.read(Posting, data)
            self.postings.number = max(self.postings.number, posting.number)
            self._index(posting)

    def restore_receipt(self, job: Bytes32, task: Bytes32, cursor: int, signed: SignedReceipt) -> None:
        """A receipt that is in no batch waits again."""
        if (job, cursor) not in self.postings.place:
            self.add(job, task, cursor, signed)

    def resume(self) -> None:
        """After a restart: tells the desk how far each batch is, and sends what is not seen."""
        for posting in self.postings.by_root.values():
            self._tell(posting)
            if posting.stage < Stage.ATTESTED:
                self._send(PostReceipts(posting.root, posting.count, posting.data_hash))

    def forget_jobs(self, gone: set[Bytes32]) -> None:
        """Drops batches of which no job is left."""
        for root, jobs in list(self.postings.jobs.items()):
            jobs.difference_update(gone)
            if not jobs:
                posting = self.postings.by_root.pop(root)
                del self.postings.jobs[root]
                self._core.durable.batch.delete("batch", f"{posting.number:010}")
                for job, _, cursor in posting.refs:
                    self.postings.place.pop((job, cursor), None)

    def _posting(self, taken: list[Pending], data_hash: Bytes32) -> Posting:
        leaves = [receipt_leaf(item.signed) for item in taken]
        self.postings.number += 1
        refs = [(item.job, item.task, item.cursor) for item in taken]
        posting = Posting(self.postings.number, bytes32(merkle.root(leaves)), data_hash, refs, b"".join(leaves))
        self._index(posting)
        return posting

    def _index(self, posting: Posting) -> None:
        self.postings.by_root[posting.root] = posting
        self.postings.jobs[posting.root] = {job for job, _, _ in posting.refs}
        for index, (job, _, cursor) in enumerate(posting.refs):
            self.postings.place[job, cursor] = (posting, index)

    def _reach(self, poster: Address, root: Bytes32, stage: Stage) -> None:
        posting = self.postings.by_root.get(root)
        if posting is None or poster != self._core.facts.node or posting.stage is stage:
            return
        posting.stage = stage
        self._core.durable.batch.put("batch", f"{posting.number:010}", wire.write(posting))
        self._tell(posting)

    def _tell(self, posting: Posting) -> None:
        self._core.on_task(ReceiptsAt(tuple((job, task) for job, task, _ in posting.refs), posting.stage))
