"""The chain's port over `millpond.chain`: follower, transactor and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from millpond.chain import artefacts
from millpond.chain.bindings import Attestations, Controller, Devices, Escrow, MockToken
from millpond.chain.calls import Call
from millpond.chain.cursor import ChainEvent, Cursor
from millpond.chain.eth import Eth
from millpond.chain.follower import (
    DEVELOPMENT_FINALITY,
    LIVE_FINALITY,
    EventBatch,
    Final,
    Follower,
    FollowerConfig,
    Seen,
)
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.protocol.errors import MillpondError
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32
from millpond.protocol.signed import Offer, Request
from millpond_node.chain.port import (
    Announce,
    ChainBatch,
    ChainFact,
    CloseLease,
    DeviceChangedOn,
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

SERVICE_KIND = bytes32(keccak256(b"millpond.node"))
MINED_SECONDS = 3600.0


async def read_facts(
    eth: Eth, controller: Address, tokens: Address, attestations: Address, finality: int | None
) -> PoolFacts:
    """What the chain says of the pool. Raises the errors of `Rpc`, `EmptyRevertError` where there is no pool."""
    pool = Controller(eth, controller)
    params = await pool.params()
    token = MockToken(eth, params.token)
    chain_id = await eth.chain_id()
    default = DEVELOPMENT_FINALITY if chain_id == DEVELOPMENT_CHAIN_ID else LIVE_FINALITY
    return PoolFacts(
        chain_id=chain_id,
        controller=controller,
        node=await pool.node(),
        escrow=await pool.escrow(),
        staking=await pool.staking(),
        devices=await pool.devices(),
        attestations=attestations,
        tokens=tokens,
        token=params.token,
        token_symbol=(await token.symbol())[:32],
        token_decimals=await token.decimals(),
        fee_ppm=params.feePpm,
        burn_ppm=params.burnPpm,
        deposit_seconds=params.depositSeconds,
        max_duration=params.maxDuration,
        finality=default if finality is None else finality,
    )


class LiveChain:
    """`transactor` is started by the caller, and belongs to it; the RPC is closed with this."""

    def __init__(self, eth: Eth, pool: PoolFacts, transactor: Transactor, start_block: int) -> None:
        self._eth, self._pool, self._transactor, self._start = eth, pool, transactor, start_block
        self._controller = Controller(eth, pool.controller)
        self._devices = Devices(eth, pool.devices)
        self._escrow = Escrow(eth, pool.escrow)
        self._attestations = Attestations(eth, pool.attestations)

    @classmethod
    def over(cls, rpc: Rpc, pool: PoolFacts, transactor: Transactor, start_block: int) -> LiveChain:
        return cls(Eth(rpc), pool, transactor, start_block)

    async def facts(self) -> PoolFacts:
        pool = self._pool
        return await read_facts(self._eth, pool.controller, pool.tokens, pool.attestations, pool.finality)

    async def device(self, device: Bytes32) -> DeviceFacts | None:
        try:
            found = await self._devices.device_of(device)
            standing = await self._devices.standing_of(device)
        except ContractRevertError:
            return None
        return DeviceFacts(
            device,
            standing.provider,
            standing.operator,
            standing.pool,
            standing.offerEpoch,
            found.memoryMiB,
            found.isDraining,
        )

    async def free_escrow(self, renter: Address) -> int:
        return await self._escrow.free(self._pool.token, renter)

    async def batches(self, cursor: str) -> AsyncIterator[ChainBatch]:
        contracts = {
            self._pool.controller: artefacts.load("Controller").abi,
            self._pool.devices: artefacts.load("Devices").abi,
            self._pool.attestations: artefacts.load("Attestations").abi,
        }
        start = Cursor.from_json(cursor) if cursor else Cursor(self._start)
        follower = Follower(self._eth, contracts, start, FollowerConfig(finality=self._pool.finality))
        async for batch in follower.run():
            yield self._batch(batch)

    async def send(self, intent: Intent) -> Refusal | None:
        handle = await self._transactor.enqueue(intent.key, self._call(intent), is_urgent=isinstance(intent, OpenLease))
        try:
            await handle.mined(MINED_SECONDS)
        except ContractRevertError as error:
            return Refusal(intent.key, error.code, error.message)
        return None

    async def aclose(self) -> None:
        with suppress(MillpondError):
            await self._transactor.stop()
        await self._eth.rpc.close()

    def _call(self, intent: Intent) -> Call:
        match intent:
            case OpenLease(
                offer=offer, offer_signature=signature, request=request, request_signature=request_signature
            ):
                assert isinstance(request, Request)
                return self._controller.open_lease(offer, signature, request, request_signature)
            case CloseLease(lease=lease):
                return self._controller.close_lease(lease)
            case PostReceipts(root=root, count=count, data_hash=data_hash):
                return self._attestations.post_receipts(self._pool.controller, root, count, data_hash)
            case Announce(url=url, ttl_s=ttl_s):
                return self._controller.announce(SERVICE_KIND, url, ZERO_BYTES32, ttl_s)

    def _batch(self, batch: EventBatch) -> ChainBatch:
        notices: list[Notice] = []
        for notice in batch.notices:
            fact = self._fact(notice.event)
            if fact is None:
                continue
            if isinstance(notice, Seen):
                notices.append(SeenOn(fact))
            else:
                notices.append(FinalOn(fact) if isinstance(notice, Final) else UndoneOn(fact))
        return ChainBatch(tuple(notices), batch.cursor.to_json(), batch.head, batch.time)

    def _fact(self, event: ChainEvent) -> ChainFact | None:
        args = event.args
        match event.name:
            case "LeaseOpened":
                return _opened(args, event.block_hash)
            case "LeaseClosed":
                return LeaseClosedOn(args["lease"], args["at"])
            case "ReceiptsPosted":
                is_ours = args["pool"] == self._pool.controller
                return ReceiptsPostedOn(args["poster"], args["root"]) if is_ours else None
            case "OffersCancelled" | "DeviceDraining" | "DeviceJoined" | "DeviceLeft":
                return DeviceChangedOn(args["device"], None)
            case "OperatorChanged":
                return DeviceChangedOn(None, args["provider"])
            case _:
                return None


def _opened(args: dict[str, Any], block_hash: str) -> LeaseOpenedOn:
    terms = Offer(**args["terms"])
    return LeaseOpenedOn(
        args["lease"],
        args["request"],
        terms.struct_hash(),
        terms,
        args["renter"],
        args["openedAt"],
        args["endsAt"],
        block_hash,
    )
