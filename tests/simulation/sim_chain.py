"""The simulated chain: one ledger for all, replayed from its blocks whenever some are taken back; and a durable outbox per key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sim_loop import Life
from sim_world import ESCROW_DOMAIN, FUNDS, RENTER, node_pool

from millpond.chain.errors import RpcUnreachableError
from millpond.protocol.errors import InputError
from millpond.protocol.ids import Bytes32
from millpond.protocol.signed import Offer, Request, Voucher
from millpond.protocol.signing import verify
from millpond.protocol.vouchers import earmark
from millpond_node.chain.fake import FakeBlock, FakeChain, _View
from millpond_node.chain.port import (
    ChainBatch,
    CloseLease,
    LeaseClosedOn,
    LeaseOpenedOn,
    OpenLease,
    PostReceipts,
    ReceiptsPostedOn,
)
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.settle import ANSWER_SECONDS

if TYPE_CHECKING:
    from sim_run import Sim


@dataclass(frozen=True, slots=True)
class Tx:
    """A worker's or the renter's transaction; the node's are its own intents."""

    key: str
    sender: str
    kind: str
    lease: Bytes32
    cumulative: int = 0
    signature: bytes = b""


@dataclass(slots=True)
class OnChain:
    offer: Offer
    request: Request
    fact: LeaseFact


class Ledger(FakeChain):
    """What the contracts keep of leases and money. `errors` holds what became of each transaction: empty where it did what it says."""

    def __init__(self, now: int, windows: tuple[int, int]) -> None:
        super().__init__(node_pool(), now, automine=False)
        self._windows = windows
        self._txs: dict[Bytes32, list[Any]] = {}
        self._archive: dict[Bytes32, FakeBlock] = {}
        self.mempool: dict[str, Any] = {}
        self._reset()

    def _reset(self) -> None:
        self.escrow = {RENTER.address: FUNDS}
        self.on_chain: dict[Bytes32, OnChain] = {}
        self.collected: dict[Bytes32, int] = {}
        self.errors: dict[str, str] = {}
        self.roots: list[Bytes32] = []
        self.blocks: list[FakeBlock] = []

    def rollback(self, depth: int) -> None:
        """The last blocks are gone, and all that waited: the state is what the rest gives when it is played again."""
        kept = self.blocks[: len(self.blocks) - depth]
        self._forks += 1
        self.mempool.clear()
        self._reset()
        for block in kept:
            before, block.facts = block.facts, []
            self._play(block, self._txs[block.hash])
            assert block.facts == before, "the same blocks played again give another state"
        self._tell()

    def _append(self, intents: list[Any]) -> None:
        super()._append([])
        block = self.blocks.pop()
        self._txs[block.hash], self._archive[block.hash] = intents, block
        self._play(block, intents)

    def _play(self, block: FakeBlock, intents: list[Any]) -> None:
        self.blocks.append(block)
        for intent in intents:
            if intent.key not in self.errors:
                self.errors[intent.key] = self._execute(intent, block)

    def _execute(self, intent: Any, block: FakeBlock) -> str:
        match intent:
            case OpenLease():
                return self._open(intent, block)
            case CloseLease(lease=lease):
                return self._perform(Tx(intent.key, "anyone", "close", lease), block)
            case PostReceipts(root=root):
                self.roots.append(root)
                block.facts.append(ReceiptsPostedOn(self.pool.node, root))
            case Tx():
                return self._perform(intent, block)
        return ""

    def _open(self, intent: OpenLease, block: FakeBlock) -> str:
        refusal, request = self._check(intent), intent.request
        assert isinstance(request, Request)
        if refusal is not None or intent.lease in self.on_chain:
            return refusal.code if refusal is not None else "ControllerLeaseKnownError"
        if block.time >= min(request.deadline, intent.offer.deadline):
            return "ControllerOfferExpiredError"
        ends = block.time + request.duration
        fact = LeaseFact(intent.lease, LeaseStatus.OPEN, 0, 0, opened_at=block.time, ends_at=ends)
        self.on_chain[intent.lease] = OnChain(intent.offer, request, fact)
        self.escrow[request.renter] -= earmark(intent.offer.pricePerSecond, request.duration, request.depositSeconds)
        hashes = (request.struct_hash(), intent.offer.struct_hash())
        block.facts.append(
            LeaseOpenedOn(intent.lease, *hashes, intent.offer, request.renter, block.time, ends, block.hash)
        )
        return ""

    def _perform(self, tx: Tx, block: FakeBlock) -> str:
        found = self.on_chain.get(tx.lease)
        if found is None:
            return "ControllerLeaseUnknownError"
        fact = found.fact
        match tx.kind:
            case "close" | "close_unpaid":
                return self._close(tx, found, block)
            case "collect" | "collect_final":
                return self._collect(tx, found, block)
            case "notice":
                found.fact = replace(fact, notice_ends_at=block.time + found.offer.notice)
            case "demand":
                found.fact = replace(fact, demanded_at=block.time)
            case "release":
                if fact.status is not LeaseStatus.CLOSED or block.time < fact.closed_at + sum(self._windows):
                    return "ControllerExposureHeldError"
                found.fact = replace(fact, status=LeaseStatus.RELEASED)
        return ""

    def _close(self, tx: Tx, found: OnChain, block: FakeBlock) -> str:
        fact = found.fact
        is_unpaid = tx.kind == "close_unpaid" and 0 < fact.demanded_at <= block.time - ANSWER_SECONDS
        is_noticed = 0 < fact.notice_ends_at <= block.time
        may = tx.sender == "renter" or is_unpaid or is_noticed or block.time >= fact.ends_at
        if fact.status is not LeaseStatus.OPEN or not may:
            return "ControllerLeaseNotOpenError"
        found.fact = replace(fact, status=LeaseStatus.CLOSED, closed_at=block.time)
        block.facts.append(LeaseClosedOn(tx.lease, block.time))
        return ""

    def _collect(self, tx: Tx, found: OnChain, block: FakeBlock) -> str:
        fact, price = found.fact, found.offer.pricePerSecond
        is_final = tx.kind == "collect_final"
        if fact.is_settled or (is_final and fact.status is not LeaseStatus.CLOSED):
            return "EscrowSettledError"
        try:
            if tx.cumulative:
                verify(Voucher(tx.lease, tx.cumulative), ESCROW_DOMAIN, tx.signature, found.request.voucherSigner)
        except InputError:
            return "EscrowBadVoucherSignatureError"
        accrued = ((fact.closed_at or block.time) - fact.opened_at) * price
        collected = max(fact.collected, min(tx.cumulative, accrued))
        found.fact = replace(fact, collected=collected, is_settled=is_final)
        self.collected[tx.lease] = collected
        if is_final:
            most = earmark(price, found.request.duration, found.request.depositSeconds)
            self.escrow[found.request.renter] += most - collected
        return ""

    def open_leases(self) -> dict[Bytes32, LeaseOpenedOn]:
        return {
            fact.lease: fact
            for block in self.blocks
            for fact in block.facts
            if isinstance(fact, LeaseOpenedOn) and self.on_chain[fact.lease].fact.status is LeaseStatus.OPEN
        }

    def money(self) -> int:
        """All there is: free, earmarked and paid out."""
        held = 0
        for found in self.on_chain.values():
            most = earmark(found.offer.pricePerSecond, found.request.duration, found.request.depositSeconds)
            held += found.fact.collected if found.fact.is_settled else most
        return sum(self.escrow.values()) + held

    def fact(self, lease: Bytes32) -> LeaseFact:
        found = self.on_chain.get(lease)
        number, at = len(self.blocks), self.blocks[-1].time if self.blocks else self.now
        none = LeaseFact(lease, LeaseStatus.NONE, 0, 0)
        return replace(found.fact if found is not None else none, block=number, head_time=at)

    async def batches(self, cursor: str) -> AsyncIterator[ChainBatch]:
        """Like the fake's, and what a follower was told of blocks that are gone is taken back."""
        view = _View([self._archive[hash_] for hash_ in (json.loads(cursor) if cursor else [])])
        while True:
            batch = self._next(view)
            if batch is not None:
                yield batch
                continue
            await self._news.wait()


class Outbox:
    """What a key has promised to send, in the order it did: outlives its process, and is sent again until it is mined."""

    def __init__(self, sim: Sim) -> None:
        self._sim, self.rows = sim, dict[str, Any]()

    async def send(self, life: Life, tx: Any) -> str:
        """Returns once it is mined: the contract's refusal, or nothing."""
        sim = self._sim
        if tx.key not in self.rows:
            sim.point(life, f"intent before {tx.key.split(':')[0]}")
            self.rows[tx.key] = tx
            sim.point(life, f"intent after {tx.key.split(':')[0]}")
        self.broadcast(life)
        while tx.key not in sim.ledger.errors:
            await asyncio.sleep(0.5)
            life.check()
        return sim.ledger.errors[tx.key]

    def broadcast(self, life: Life) -> None:
        """What is not on chain is sent, unless the RPC is away."""
        sim = self._sim
        if sim.has_rpc(life.name):
            for key, tx in list(self.rows.items()):
                if key not in sim.ledger.errors and key not in sim.ledger.mempool:
                    sim.ledger.mempool[key] = tx
                    sim.point(life, f"broadcast {key.split(':')[0]}")

    async def broadcast_forever(self, life: Life) -> None:
        while True:
            await asyncio.sleep(1.0)
            life.check()
            self.broadcast(life)


def check_rpc(sim: Sim, life: Life) -> None:
    life.check()
    if not sim.has_rpc(life.name):
        raise RpcUnreachableError("the simulated RPC is away", url="sim")


__all__ = ["Ledger", "OnChain", "Outbox", "Tx", "check_rpc"]
