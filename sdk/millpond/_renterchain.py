"""The renter's side of the contracts: funds, closing, settlement. Addresses come from the chain, never from the node's word."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millpond._settlement import Settlement
from millpond.chain.bindings import Controller, Escrow, MockToken
from millpond.chain.bindings.structs import LeaseAccount
from millpond.chain.calls import Call
from millpond.chain.eth import Eth, TxReceipt
from millpond.chain.keys import wallet_of
from millpond.chain.outbox import SqliteOutbox
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.errors import InputError, SettingsError
from millpond.protocol import vouchers
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32, bytes32
from millpond.protocol.units import format_amount
from millpond.protocol.views import PoolView
from millpond.settings import Network

NODE_SERVICE = bytes32(keccak256(b"millpond.node"))
LOG_BLOCKS = 10_000
DEPOSIT_TRIES = 3
ALLOWANCE_SPENT = "ERC20InsufficientAllowanceError"
"""Another process of the same wallet deposited between this one's approval and its deposit."""


class InsufficientEscrowError(InputError):
    """Escrow holds less than the leases can cost."""


class InsufficientWalletError(InputError):
    """The wallet holds less of the token than was asked for."""


@dataclass(frozen=True, slots=True)
class Funds:
    """Of one account, in token base units; `gas` in wei. `free` includes `noticed`."""

    wallet: int
    free: int
    noticed: int
    owed: int
    gas: int


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """`paid` left Escrow now; `noticed` can leave at `ready_at` (Unix seconds)."""

    paid: int
    noticed: int
    ready_at: int


class RenterChain:
    """One renter on one pool. Transactions go through a durable outbox, one sender at a time per home."""

    def __init__(self, eth: Eth, transactor: Transactor, outbox: SqliteOutbox, controller: Controller) -> None:
        self._eth = eth
        self._transactor = transactor
        self._outbox = outbox
        self._controller = controller
        self._escrow = Escrow(eth, ZERO_ADDRESS)
        self._token = MockToken(eth, ZERO_ADDRESS)

    @classmethod
    async def connect(cls, network: Network, key: bytes, home: Path) -> RenterChain:
        """Raises `WrongChainError`, `RpcUnreachableError`, `SettingsError` where no pool is at the given address."""
        eth = Eth(Rpc(network.rpc_url, chain_id=network.chain_id))
        try:
            if not await eth.code(network.controller):
                raise SettingsError(
                    f"there is no pool at {network.controller} on chain {network.chain_id}",
                    remedy="Check MILLPOND_POOL; a development chain that was reset needs `millpond dev up` again.",
                )
            controller = Controller(eth, network.controller)
            wallet = wallet_of(key)
            folder = home / "outbox"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            outbox = SqliteOutbox(folder / f"{network.chain_id}-{wallet.address}.db")
            transactor = Transactor(eth, wallet, outbox)
            chain = cls(eth, transactor, outbox, controller)
            await transactor.start()
            chain._escrow = Escrow(eth, await controller.escrow())
            chain._token = MockToken(eth, (await controller.params()).token)
        except BaseException:
            await eth.rpc.close()
            raise
        return chain

    async def aclose(self) -> None:
        await self._transactor.stop()
        self._outbox.close()
        await self._eth.rpc.close()

    @property
    def address(self) -> Address:
        return self._transactor.address

    async def find_node(self) -> str:
        """The URL the pool's node announces on chain; raises `SettingsError` when it announces none."""
        node = await self._controller.node()
        service = await self._controller.service_of(node, NODE_SERVICE)
        if not service.uri:
            raise SettingsError(
                f"the node {node} of pool {self._controller.address} announces no URL on chain",
                remedy="Ask the pool's operator whether its node runs, or set MILLPOND_NODE_URL.",
            )
        return service.uri

    async def enter_pool(self, pool: PoolView) -> None:
        """Refuses a node whose addresses are not those of the pool on chain: what is signed for them would be lost."""
        expected = {
            "escrow": self._escrow.address,
            "token": self._token.address,
            "node": await self._controller.node(),
        }
        for name, address in expected.items():
            if getattr(pool, name) != address:
                raise SettingsError(
                    f"the node says the pool's {name} is {getattr(pool, name)}, the chain says {address}",
                    remedy="Do not use this node; tell the pool's operator.",
                )

    # MONEY

    async def funds(self) -> Funds:
        token, me = self._token.address, self.address
        free, noticed, owed, wallet, gas = await asyncio.gather(
            self._escrow.free(token, me),
            self._escrow.noticed(token, me),
            self._escrow.owed(token, me),
            self._token.balance_of(me),
            self._eth.balance(me),
        )
        return Funds(wallet, free, noticed[0], owed, gas)

    async def deposit(self, amount: int) -> None:
        """Approves what is missing and deposits; raises `InsufficientWalletError`, `EscrowTokenNotListedError`, ..."""
        balance = await self._token.balance_of(self.address)
        if balance < amount:
            decimals, symbol = await self._token.decimals(), await self._token.symbol()
            raise InsufficientWalletError(
                f"the wallet {self.address} holds {format_amount(balance, decimals, decimals)} {symbol}, "
                f"{format_amount(amount, decimals, decimals)} are needed",
                remedy="Send tokens to the wallet first, or fund less.",
                balance=balance,
                needed=amount,
            )
        is_short = await self._token.allowance(self.address, self._escrow.address) < amount
        for tries_left in reversed(range(DEPOSIT_TRIES)):
            if is_short:
                await self._send(self._token.approve(self._escrow.address, amount))
            try:
                await self._send(self._escrow.deposit(self._token.address, amount))
            except ContractRevertError as error:
                if error.code != ALLOWANCE_SPENT or not tries_left:
                    raise
                is_short = True
            else:
                return

    async def withdraw(self, amount: int | None, to: Address) -> Withdrawal:
        """Pays what is owed and what was noticed long enough ago, then gives notice of what is still wanted."""
        token, me, paid = self._token.address, self.address, 0
        owed = await self._escrow.owed(token, me)
        if owed:
            await self._send(self._escrow.withdraw_owed_to(token, to))
            paid += owed
        noticed, ready_at = await self._escrow.noticed(token, me)
        if noticed and await self._chain_time() >= ready_at:
            before = await self._escrow.free(token, me)
            await self._send(self._escrow.withdraw(token, to))
            return Withdrawal(paid + before - await self._escrow.free(token, me), 0, 0)
        free = await self._escrow.free(token, me)
        wanted = free if amount is None else min(amount, free)
        if not noticed and wanted:
            await self._send(self._escrow.notice_withdrawal(token, wanted))
            noticed, ready_at = await self._escrow.noticed(token, me)
        return Withdrawal(paid, noticed, ready_at)

    # LEASES

    async def close_lease(self, lease: Bytes32) -> None:
        """Closes; a lease that is closed already stays so."""
        if (await self._controller.lease_of(lease)).closedAt:
            return
        try:
            await self._send(self._controller.close_lease(lease))
        except ContractRevertError as error:
            if error.code != "ControllerLeaseNotOpenError":
                raise

    async def collect(self, lease: Bytes32, cumulative: int, signature: bytes) -> None:
        """Pays a voucher out, if it would pay anything now."""
        if await self._escrow.collectable(self._controller.address, lease, cumulative):
            await self._send(self._escrow.collect(self._controller.address, lease, cumulative, signature))

    async def cancel_request(self, nonce: int) -> bool:
        """False where the request has become a lease, or was cancelled already."""
        try:
            if await self._escrow.is_nonce_used(self.address, nonce):
                return False
            await self._send(self._escrow.cancel_request(nonce))
        except ContractRevertError:
            return False
        return True

    async def is_settled(self, lease: Bytes32) -> bool:
        return (await self._account(lease)).isSettled

    async def settlement(self, lease: Bytes32) -> Settlement:
        """What became of the earmark, added up from Escrow's events of the lease."""
        account = await self._account(lease)
        earmark = vouchers.earmark(account.pricePerSecond, account.duration, account.depositSeconds)
        paid = fee = burnt = refunded = 0
        for name, args in await self._lease_events(lease, account.openedAt):
            if name == "VoucherCollected":
                fee, burnt = fee + args["fee"], burnt + args["burnt"]
                paid += args["paid"] - args["fee"] - args["burnt"]
            elif name == "OpeningDepositReturned":
                refunded += args["amount"]
            elif name == "LeaseSettled":
                refunded, burnt = refunded + args["refunded"], burnt + args["burnt"]
        return Settlement(lease, earmark, paid, fee, burnt, refunded, account.isSettled)

    # PARTS

    async def _account(self, lease: Bytes32) -> LeaseAccount:
        return await self._escrow.lease_account(self._controller.address, lease)

    async def _send(self, call: Call) -> TxReceipt:
        """Each user action is one intent: the key is the action and the moment, so that asking again is a new one."""
        handle = await self._transactor.send_call(f"{call.label}:{time.time_ns()}", call)
        return await handle.mined()

    async def _chain_time(self) -> int:
        header = await self._eth.header()
        return header.timestamp if header is not None else 0

    async def _lease_events(self, lease: Bytes32, opened_at: int) -> list[tuple[str, dict[str, Any]]]:
        from millpond.chain.abi import decode_event
        from millpond.chain.eth import parse_log

        last = await self._eth.block_number()
        first = await self._block_before(opened_at, last)
        events = []
        for start in range(first, last + 1, LOG_BLOCKS):
            query = {
                "address": self._escrow.address,
                "fromBlock": hex(start),
                "toBlock": hex(min(start + LOG_BLOCKS - 1, last)),
                "topics": [None, "0x" + bytes(12).hex() + self._controller.address[2:].lower(), lease],
            }
            for item in await self._eth.rpc.call("eth_getLogs", query):
                log = parse_log(item)
                signature = self._escrow.abi.events.get(log.topics[0])
                if signature is not None:
                    events.append((signature.name, decode_event(signature, log.topics, log.data)))
        return events

    async def _block_before(self, timestamp: int, last: int) -> int:
        """The last block older than `timestamp`, by bisection."""
        low, high = 0, last
        while low < high:
            middle = (low + high + 1) // 2
            header = await self._eth.header(middle)
            if header is not None and header.timestamp < timestamp:
                low = middle
            else:
                high = middle - 1
        return low
