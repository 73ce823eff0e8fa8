"""The worker's chain: reads at its own RPC, transactions through the durable outbox of its operator key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millpond.chain.agreement import agreed_call, agreed_header
from millpond.chain.bindings import Controller, Devices, Escrow, MockToken, Staking
from millpond.chain.calls import Call, Contract
from millpond.chain.errors import RpcResponseError, TransactionTimeoutError
from millpond.chain.eth import Eth, Header
from millpond.chain.keys import Wallet
from millpond.chain.outbox import SqliteOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address, Bytes32, bytes32
from millpond_worker.errors import NodeUnknownError
from millpond_worker.machine.commands import SendTx
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.model import TxKind
from millpond_worker.ports import Head, NodeRef, PoolFacts

NODE_KIND = bytes32(keccak256(b"millpond.node"))
WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A withdrawal that was mined. `amount` in token base units."""

    token: Address
    payout: Address
    amount: int
    tx_hash: Bytes32
    gas_used: int
    symbol: str
    decimals: int

    def as_dict(self) -> dict[str, object]:
        return {
            "token": self.token,
            "payout": self.payout,
            "amount": str(self.amount),
            "symbol": self.symbol,
            "decimals": self.decimals,
            "tx": self.tx_hash,
            "gas_used": self.gas_used,
        }


class EvmChain:
    """`Chain` over one RPC URL, or several with commas. `node_url` given: the node is not looked up, only its key."""

    def __init__(
        self,
        rpc_url: str,
        chain_id: int,
        controller: Address,
        attestations: Address,
        wallet: Wallet,
        outbox: Path,
        *,
        node_url: str = "",
        finality: int = 2,
    ) -> None:
        self.eth = Eth(Rpc(rpc_url, chain_id=chain_id))
        self.chain_id = chain_id
        self.controller = Controller(self.eth, controller)
        self._attestations = attestations
        self._node_url = node_url
        self._outbox = SqliteOutbox(outbox)
        self._transactor = Transactor(self.eth, wallet, self._outbox, TransactorConfig(finality=finality))
        self._is_started = False
        self._starting = asyncio.Lock()
        self._pool: PoolFacts | None = None

    async def start(self) -> None:
        async with self._starting:
            if not self._is_started:
                await self._transactor.start()
                self._is_started = True

    async def pool(self) -> PoolFacts:
        if self._pool is None:
            params, escrow, devices = await asyncio.gather(
                self.controller.params(), self.controller.escrow(), self.controller.devices()
            )
            self._pool = PoolFacts(
                chain_id=self.chain_id,
                controller=self.controller.address,
                escrow=escrow,
                devices=devices,
                attestations=self._attestations,
                token=params.token,
                grace=params.grace,
                claim_window=params.claimWindow,
                dispute_window=params.disputeWindow,
                max_duration=params.maxDuration,
                exposure_ppm=params.exposurePpm,
            )
        return self._pool

    async def node(self) -> NodeRef:
        address = await self.controller.node()
        if self._node_url:
            return NodeRef(address, self._node_url)
        service = await self.controller.service_of(address, NODE_KIND)
        if not service.uri:
            raise NodeUnknownError(
                f"the node {address} of pool {self.controller.address} has announced no URL",
                controller=self.controller.address,
            )
        return NodeRef(address, service.uri)

    async def head(self) -> Head:
        header = await self.eth.header()
        if header is None:
            raise RpcResponseError("the RPC knows no latest block", method="eth_getBlockByNumber")
        return Head(header.number, header.timestamp)

    async def facts(self, leases: Sequence[Bytes32]) -> list[LeaseFact]:
        if not leases:
            return []
        pool = await self.pool()
        header = await agreed_header(self.eth)
        head = Head(header.number, header.timestamp)
        escrow = Escrow(self.eth, pool.escrow)
        found = await self._read_many(self.controller, "leaseOf", [(lease,) for lease in leases], header)
        known = [lease for lease, item in zip(leases, found, strict=True) if item["status"]]
        accounts = await self._read_many(
            escrow, "leaseAccount", [(self.controller.address, lease) for lease in known], header
        )
        by_lease = dict(zip(known, accounts, strict=True))
        return [_fact(lease, item, by_lease.get(lease), head) for lease, item in zip(leases, found, strict=True)]

    async def offer_epoch(self, device: Bytes32) -> int:
        pool = await self.pool()
        return (await Devices(self.eth, pool.devices).standing_of(device)).offerEpoch

    async def cancel_offers(self, device: Bytes32, epoch: int) -> None:
        await self.start()
        if await self.offer_epoch(device) > epoch:
            return
        devices, head = Devices(self.eth, (await self.pool()).devices), await self.head()
        key = f"cancel_offers:{device}:{epoch}:{head.number}"
        await (await self._transactor.send_call(key, devices.cancel_offers(device))).mined(WAIT_S)

    async def unreserved(self, provider: Address) -> int:
        staking = Staking(self.eth, await self.controller.staking())
        return await staking.unreserved(self.controller.address, provider)

    async def send(self, command: SendTx) -> None:
        await self.start()
        key = f"{command.kind.value}:{command.lease}:{command.number}"
        handle = await self._transactor.enqueue(key, self._call(command, (await self.pool()).escrow))
        while True:
            try:
                await handle.mined(WAIT_S)
                return
            except TransactionTimeoutError:
                continue  # kept and sent again by the transactor, whatever holds it up

    async def _urgent_from(self, command: SendTx) -> int:
        """From half of its claim window on, collecting may cost more gas: after the window nothing is paid. 0: never."""
        if command.kind is not TxKind.COLLECT_FINAL:
            return 0
        return (await self.head()).time + (await self.pool()).claim_window // 2

    async def withdraw(self, provider: Address) -> Withdrawn:
        """Pays what Escrow owes the provider's payout address to it, in a transaction of the operator's.

        Raises `ContractRevertError` kinds (nothing owed), and the errors of `Rpc`.
        """
        await self.start()
        pool = await self.pool()
        escrow, devices = Escrow(self.eth, pool.escrow), Devices(self.eth, pool.devices)
        payout = (await devices.provider_of(provider)).payout
        amount = await escrow.owed(pool.token, payout)
        head = await self.head()
        handle = await self._transactor.send_call(
            f"withdraw:{payout}:{head.number}", escrow.withdraw_owed(pool.token, payout)
        )
        receipt = await handle.mined()
        token = MockToken(self.eth, pool.token)
        symbol, decimals = await asyncio.gather(token.symbol(), token.decimals())
        return Withdrawn(pool.token, payout, amount, receipt.tx_hash, receipt.gas_used, symbol, decimals)

    async def close(self) -> None:
        await self._transactor.stop()
        self._outbox.close()
        await self.eth.rpc.close()

    def _call(self, command: SendTx, escrow: Address) -> Call:
        lease, signed = command.lease, (command.cumulative, command.signature)
        match command.kind:
            case TxKind.COLLECT:
                return Escrow(self.eth, escrow).collect(self.controller.address, lease, *signed)
            case TxKind.NOTICE:
                return self.controller.give_notice(lease)
            case TxKind.DEMAND:
                return self.controller.demand_payment(lease)
            case TxKind.CLOSE:
                return self.controller.close_lease(lease)
            case TxKind.CLOSE_UNPAID:
                return self.controller.close_unpaid(lease)
            case TxKind.COLLECT_FINAL:
                return self.controller.collect_final(lease, *signed)
            case TxKind.RELEASE:
                return self.controller.release_exposure(lease)

    async def _read_many(self, contract: Contract, name: str, args: Sequence[Sequence[Any]], at: Header) -> list[Any]:
        """One view of many leases, in one request, all of the same block, as a majority of the RPC servers says."""
        if not args:
            return []
        calls = [
            (
                "eth_call",
                ({"to": contract.address, "data": "0x" + contract.abi.encode_call(name, *each).hex()}, hex(at.number)),
            )
            for each in args
        ]
        return [contract.abi.decode_result(name, answer) for answer in await agreed_call(self.eth, at, calls)]


def _fact(lease: Bytes32, item: dict[str, Any], account: dict[str, Any] | None, head: Head) -> LeaseFact:
    if account is None:
        return LeaseFact(lease, LeaseStatus.NONE, head.number, head.time)
    return LeaseFact(
        lease=lease,
        status=LeaseStatus(item["status"]),
        block=head.number,
        head_time=head.time,
        opened_at=account["openedAt"],
        ends_at=account["openedAt"] + account["duration"],
        closed_at=item["closedAt"],
        notice_ends_at=item["noticeEndsAt"],
        demanded_at=item["demandedAt"],
        is_settled=account["isSettled"],
        collected=account["collected"],
    )
