"""The chain's fake: blocks are mined when asked, and can be taken back. It checks what the contracts check of a lease's opening."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address, Bytes32, bytes32, lease_id
from millpond.protocol.signed import Request
from millpond.protocol.units import SHARE_FULL
from millpond.protocol.vouchers import earmark
from millpond_node.chain.port import (
    Announce,
    ChainBatch,
    ChainFact,
    CloseLease,
    DeviceFacts,
    FinalOn,
    Intent,
    LeaseClosedOn,
    LeaseOpenedOn,
    Notice,
    OpenLease,
    PoolFacts,
    PostReceipts,
    ReceiptsPostedOn,
    Refusal,
    SeenOn,
    UndoneOn,
)


@dataclass
class FakeBlock:
    number: int
    time: int
    hash: Bytes32
    facts: list[ChainFact] = field(default_factory=list)


@dataclass
class _View:
    """How far one follower is."""

    told: list[FakeBlock]
    final: set[Bytes32] = field(default_factory=set)


class FakeChain:
    """`sent` are the intents by key, in order; those not yet mined are in `mempool`. `is_down` makes every call fail."""

    def __init__(self, facts: PoolFacts, now: int, *, automine: bool = True) -> None:
        self.pool, self.automine, self.now = facts, automine, now
        self.devices: dict[Bytes32, DeviceFacts] = {}
        self.escrow: dict[Address, int] = {}
        self.sent: dict[str, Intent] = {}
        self.mempool: dict[str, Intent] = {}
        self.refuses: dict[str, Refusal] = {}
        self.blocks: list[FakeBlock] = []
        self.down: Exception | None = None
        self._forks = 0
        self._news = asyncio.Event()

    async def facts(self) -> PoolFacts:
        self._check_up()
        return self.pool

    async def device(self, device: Bytes32) -> DeviceFacts | None:
        self._check_up()
        return self.devices.get(device)

    async def free_escrow(self, renter: Address) -> int:
        self._check_up()
        return self.escrow.get(renter, 0)

    async def send(self, intent: Intent) -> Refusal | None:
        self._check_up()
        refusal = self.refuses.get(intent.key) or self._check(intent)
        if refusal is not None:
            return refusal
        if intent.key not in self.sent:
            self.sent[intent.key] = self.mempool[intent.key] = intent
            if self.automine:
                self.mine()
        return None

    def mine(self, blocks: int = 1) -> None:
        """Puts what waits into a block, and more empty blocks after it."""
        for _ in range(blocks):
            self._append(list(self.mempool.values()))
            self.mempool.clear()
        self._tell()

    def reorg(self, depth: int, *, keeps: bool = True) -> None:
        """Replaces the last `depth` blocks by one empty block; `keeps`: their transactions wait again, as an outbox re-sends them."""
        dropped, self.blocks = self.blocks[-depth:], self.blocks[:-depth]
        self._forks += 1
        for block in dropped:
            for fact in block.facts:
                self._take_back(fact, keeps)
        self._append([])
        self._tell()

    def close_lease(self, lease: Bytes32) -> None:
        """As the renter does."""
        self.mempool[f"renter-close:{lease}"] = CloseLease(lease)
        self.mine()

    async def batches(self, cursor: str) -> AsyncIterator[ChainBatch]:
        known = {block.hash: block for block in self.blocks}
        view = _View([known[hash_] for hash_ in (json.loads(cursor) if cursor else []) if hash_ in known])
        while True:
            batch = self._next(view)
            if batch is not None:
                yield batch
                continue
            news = self._news
            await news.wait()

    async def aclose(self) -> None:
        self._tell()

    def open_leases(self) -> dict[Bytes32, LeaseOpenedOn]:
        opened = {fact.lease: fact for block in self.blocks for fact in block.facts if isinstance(fact, LeaseOpenedOn)}
        for block in self.blocks:
            for fact in block.facts:
                if isinstance(fact, LeaseClosedOn):
                    opened.pop(fact.lease, None)
        return opened

    def _next(self, view: _View) -> ChainBatch | None:
        told, same = view.told, 0
        while same < len(told) and same < len(self.blocks) and told[same].hash == self.blocks[same].hash:
            same += 1
        undone, fresh = told[same:], self.blocks[same:]
        settled = self.blocks[: max(0, len(self.blocks) - self.pool.finality)]
        final = [block for block in settled if block.hash not in view.final]
        if not undone and not fresh and not final:
            return None
        view.final.update(block.hash for block in final)
        view.told = list(self.blocks)
        notices: list[Notice] = [UndoneOn(fact) for block in reversed(undone) for fact in reversed(block.facts)]
        notices += [SeenOn(fact) for block in fresh for fact in block.facts]
        notices += [FinalOn(fact) for block in final for fact in block.facts]
        cursor = json.dumps([block.hash for block in view.told])
        return ChainBatch(tuple(notices), cursor, len(self.blocks), self.now)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _append(self, intents: list[Intent]) -> None:
        number = len(self.blocks) + 1
        block = FakeBlock(number, self.now, bytes32(keccak256(f"{number}/{self._forks}/{self.now}".encode())))
        self.blocks.append(block)
        for intent in intents:
            if self._check(intent) is None:
                block.facts += self._effect(intent, block)

    def _effect(self, intent: Intent, block: FakeBlock) -> list[ChainFact]:
        match intent:
            case OpenLease(lease=lease, offer=offer, request=request):
                assert isinstance(request, Request)
                ends = self.now + request.duration
                hashes = (request.struct_hash(), offer.struct_hash())
                return [LeaseOpenedOn(lease, *hashes, offer, request.renter, self.now, ends, block.hash)]
            case CloseLease(lease=lease):
                return [LeaseClosedOn(lease, self.now)]
            case PostReceipts(root=root):
                return [ReceiptsPostedOn(self.pool.node, root)]
            case Announce():
                return []

    def _take_back(self, fact: ChainFact, keeps: bool) -> None:
        if not keeps:
            return
        for intent in self.sent.values():
            opened = isinstance(fact, LeaseOpenedOn) and isinstance(intent, OpenLease) and intent.lease == fact.lease
            posted = (
                isinstance(fact, ReceiptsPostedOn) and isinstance(intent, PostReceipts) and intent.root == fact.root
            )
            if opened or posted:
                self.mempool[intent.key] = intent

    def _check(self, intent: Intent) -> Refusal | None:
        if not isinstance(intent, OpenLease):
            return None
        offer, request = intent.offer, intent.request
        assert isinstance(request, Request)
        used = [fact.terms for fact in self.open_leases().values() if fact.terms.device == offer.device]
        share = sum(terms.share for terms in used)
        if (
            lease_id(self.pool.chain_id, self.pool.controller, offer.struct_hash(), request.struct_hash())
            != intent.lease
        ):
            return Refusal(intent.key, "ControllerLeaseUnknownError", "another id")
        if share + offer.share > SHARE_FULL:
            return Refusal(intent.key, "DevicesShareFullError", f"free {SHARE_FULL - share}, needed {offer.share}")
        needed = earmark(offer.pricePerSecond, request.duration, request.depositSeconds)
        if self.escrow.get(request.renter, 0) < needed:
            return Refusal(
                intent.key, "EscrowInsufficientFreeError", f"free {self.escrow.get(request.renter, 0)}, needed {needed}"
            )
        return None

    def _check_up(self) -> None:
        if self.down is not None:
            raise self.down
