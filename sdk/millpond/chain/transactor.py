"""Sends the transactions of one key, so that each intent becomes one transaction whatever crashes, drops or reorganises.

A transaction is signed and stored before it leaves, under the caller's key: the same key twice is the same transaction. The loop
re-sends what servers dropped, fills nonce gaps, replaces what is stuck, and takes back what a reorganisation undid.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from millpond.chain import outbox_rules as rules
from millpond.chain.calls import Call
from millpond.chain.errors import (
    FeeCapError,
    IntentConflictError,
    OutOfFundsError,
    RpcResponseError,
    RpcUnreachableError,
    TransactionTimeoutError,
)
from millpond.chain.eth import Eth, TxReceipt, parse_header
from millpond.chain.fees import FeePolicy, Fees
from millpond.chain.finality import finality_of
from millpond.chain.keys import Wallet
from millpond.chain.nonces import transaction_at
from millpond.chain.outbox import LIVE, OutboxRow, OutboxStore, TxState
from millpond.chain.outbox_rules import ChainView
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import quantity
from millpond.chain.transactions import Transaction, transaction_hash
from millpond.protocol.errors import ChainError, MillpondError
from millpond.protocol.ids import Address, Bytes32

DEFAULT_WAIT_S = 120.0
DEFAULT_TIP = 10**9
_MAX_BACKOFF_S = 5.0
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class TransactorConfig:
    """`finality` in blocks (None: 2 on the development chain, else 64); times in seconds."""

    finality: int | None = None
    poll_s: float = 0.25
    idle_poll_s: float = 3.0
    resend_after_s: float = 3.0
    bump_after_s: float = 60.0
    fees: FeePolicy = field(default_factory=FeePolicy)


@dataclass(frozen=True, slots=True)
class Market:
    """What gas costs now, wei per gas, and what the sender has, wei."""

    base_fee: int
    tip: int
    balance: int


class TxHandle:
    """One intent's transaction. Any number of tasks may wait on it."""

    def __init__(self, transactor: Transactor, key: str) -> None:
        self._transactor = transactor
        self.key = key

    @property
    def row(self) -> OutboxRow:
        return self._transactor.row(self.key)

    @property
    def hash(self) -> Bytes32 | None:
        """Hash of the mined version, else of the newest one; None before it is signed."""
        row = self.row
        return row.mined_hash or (row.hashes[-1] if row.hashes else None)

    async def mined(self, timeout_s: float = DEFAULT_WAIT_S) -> TxReceipt:
        """The receipt, one block deep. Raises `ContractRevertError` kinds when it reverted, `TransactionTimeoutError`."""
        return await self._transactor.wait(self.key, frozenset({TxState.MINED, TxState.FINAL}), timeout_s)

    async def final(self, timeout_s: float = DEFAULT_WAIT_S) -> TxReceipt:
        """The receipt, once final. Raises as `mined` does."""
        return await self._transactor.wait(self.key, frozenset({TxState.FINAL}), timeout_s)


class Transactor:
    """The only sender of `wallet` on this chain: two for one key and chain would fight over nonces."""

    def __init__(
        self,
        eth: Eth,
        wallet: Wallet,
        store: OutboxStore,
        config: TransactorConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.eth = eth
        self.wallet = wallet
        self.config = config or TransactorConfig()
        self._store = store
        self._clock = clock
        self._rows: dict[str, OutboxRow] = {}
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._sent_at: dict[str, float] = {}
        self._signed_at: dict[str, float] = {}
        self._refusals: dict[str, MillpondError] = {}
        self._alarms: dict[str, MillpondError] = {}
        self._task: asyncio.Task[None] | None = None
        self._lane = ""
        self._chain_id = 0
        self._finality = 0

    @property
    def address(self) -> Address:
        return self.wallet.address

    @property
    def alarms(self) -> dict[str, MillpondError]:
        """What holds transactions up now, by intent key ("" for the chain itself): no funds, fee cap, RPC down."""
        return dict(self._alarms)

    async def start(self) -> None:
        """Loads the outbox, compares it with the chain, and starts the loop. Raises `RpcUnreachableError`, `WrongChainError`."""
        self._chain_id = await self.eth.chain_id()
        self.wallet.check_chain(self._chain_id)
        self._finality = finality_of(self._chain_id, self.config.finality)
        genesis = await self.eth.header(0)
        self._lane = f"{self.address}@{self._chain_id}:{genesis.hash[:18] if genesis else ''}"
        self._rows = {row.key: row for row in await self._store.rows(self._lane)}
        await self.tick()
        self._task = asyncio.create_task(self._run(), name=f"transactor {self.address}")

    async def stop(self) -> None:
        """Stops the loop; nothing is lost. Stopping twice does nothing."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # INTENTS

    async def send(
        self,
        key: str,
        to: Address,
        data: bytes,
        value: int = 0,
        *,
        label: str = "",
        gas: int | None = None,
        is_urgent: bool = False,
    ) -> TxHandle:
        """Signs, stores and sends. `value` in wei; `gas` given skips the estimate. The same `key` again returns the same transaction.

        Raises, with nothing stored: `ContractRevertError` kinds, `OutOfFundsError`, `FeeCapError`, `RpcUnreachableError`,
        `IntentConflictError` when `key` stands for another transaction.
        """
        async with self._lock:
            row = self._find(key, to, data, value)
            if row is None:
                row = await self._signed(self._intent(key, to, data, value, label, is_urgent), gas)
                await self._save(row)
                await self._broadcast(row)
            self._wake.set()
            return TxHandle(self, key)

    async def send_call(self, key: str, call: Call, *, gas: int | None = None, is_urgent: bool = False) -> TxHandle:
        """`send` for a call that a binding built."""
        return await self.send(key, call.to, call.data, call.value, label=call.label, gas=gas, is_urgent=is_urgent)

    async def enqueue(self, key: str, call: Call, *, is_urgent: bool = False) -> TxHandle:
        """Stores the intent and returns at once; the loop sends it when the chain, the funds and the fees allow.

        A call that then reverts becomes REFUSED and its handle raises the revert; enqueueing a refused key tries again.
        """
        async with self._lock:
            if self._find(key, call.to, call.data, call.value) is None:
                await self._save(self._intent(key, call.to, call.data, call.value, call.label, is_urgent))
            self._wake.set()
            return TxHandle(self, key)

    def handle(self, key: str) -> TxHandle | None:
        return TxHandle(self, key) if key in self._rows else None

    def row(self, key: str) -> OutboxRow:
        return self._rows[key]

    def rows(self) -> list[OutboxRow]:
        """All transactions of the key on this chain, by order of intent."""
        return sorted(self._rows.values(), key=lambda row: row.sequence)

    async def wait(self, key: str, states: frozenset[TxState], timeout_s: float) -> TxReceipt:
        """The receipt of `key` once its row is in one of `states`; see `TxHandle`."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    changed = self._changed
                    receipt = await self._outcome(key, states)
                    if receipt is not None:
                        return receipt
                    self._check_loop()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), _LOOK_AGAIN_S)
        except TimeoutError as error:
            row = self._rows[key]
            cause = self._alarms.get(key) or self._alarms.get("")
            raise TransactionTimeoutError(
                f"{row.label or key} is {row.state} after {timeout_s:.0f} s" + (f": {cause}" if cause else ""),
                key=key,
                state=row.state.value,
                hashes=list(row.hashes),
            ) from error

    # LOOP

    async def tick(self) -> None:
        """One comparison of the outbox with the chain. The loop calls it; tests may."""
        async with self._lock:
            if not self._rows:
                return
            view = await self._view()
            for row in rules.reconcile(self._rows.values(), view, self._finality):
                await self._save(row)
            await self._fill_gaps(view)
            await self._sign_intents()
            await self._push_unmined()
            self._alarms.pop("", None)

    async def _run(self) -> None:
        delay = self.config.poll_s
        while True:
            self._wake.clear()
            try:
                await self.tick()
                delay = self.config.poll_s
            except ChainError as error:
                self._alarms[""] = error
                delay = min(2 * delay, _MAX_BACKOFF_S)
            if any(row.state in LIVE for row in self._rows.values()):
                await asyncio.sleep(delay)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self.config.idle_poll_s)

    def _check_loop(self) -> None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            error = self._task.exception()
            if error is not None:
                raise error

    async def _view(self) -> ChainView:
        rows = list(self._rows.values())
        hashes = rules.watched(rows)
        head, latest, pending = await self.eth.rpc.batch(
            [
                ("eth_blockNumber", ()),
                ("eth_getTransactionCount", (self.address, "latest")),
                ("eth_getTransactionCount", (self.address, "pending")),
            ]
        )
        receipts = {item.tx_hash: item for item in await self.eth.receipts(hashes) if item is not None}
        view = ChainView(
            quantity(head, "eth_blockNumber"),
            quantity(latest, "eth_getTransactionCount"),
            quantity(pending, "eth_getTransactionCount"),
            receipts,
        )
        nonces = rules.passed(rows, view)
        return replace(view, taken=await self._takers(nonces, view.head - self._finality)) if nonces else view

    async def _takers(self, nonces: list[int], last: int) -> dict[int, Bytes32]:
        """The transactions that final blocks hold under our nonces, as far as the server can tell."""
        found = {}
        for nonce in nonces:
            with contextlib.suppress(RpcResponseError):  # the server may keep no state of those blocks
                found[nonce] = await transaction_at(self.eth, self.address, nonce, last)
        return {nonce: tx_hash for nonce, tx_hash in found.items() if tx_hash is not None}

    async def _fill_gaps(self, view: ChainView) -> None:
        for nonce in rules.gaps(self._rows.values(), view):
            row = self._intent(f"gap:{nonce}", self.address, b"", 0, "nonce gap", False)
            await self._save(await self._signed(row, None, nonce))

    async def _sign_intents(self) -> None:
        for row in self.rows():
            if row.state is not TxState.INTENT:
                continue
            try:
                await self._save(await self._signed(row, None))
                self._alarms.pop(row.key, None)
            except ContractRevertError as error:
                self._refusals[row.key] = error
                self._alarms.pop(row.key, None)
                await self._save(row.with_(state=TxState.REFUSED, reason=f"{error.code}: {error.message}"))
            except (OutOfFundsError, FeeCapError, RpcResponseError) as error:
                self._alarms[row.key] = error
                return

    async def _push_unmined(self) -> None:
        now = self._clock()
        for row in rules.unmined(self._rows.values()):
            is_stuck = now - self._signed_at.setdefault(row.key, now) >= self.config.bump_after_s
            newest = await self._bumped(row) if is_stuck else row
            is_due = now - self._sent_at.get(row.key, float("-inf")) >= self.config.resend_after_s
            if newest.state is TxState.SIGNED or is_due:
                await self._broadcast(newest)

    # ONE TRANSACTION

    def _intent(self, key: str, to: Address, data: bytes, value: int, label: str, is_urgent: bool) -> OutboxRow:
        sequence = 1 + max((row.sequence for row in self._rows.values()), default=0)
        return OutboxRow(self._lane, key, sequence, to, data, value, label, is_urgent)

    def _find(self, key: str, to: Address, data: bytes, value: int) -> OutboxRow | None:
        row = self._rows.get(key)
        if row is None or row.state is TxState.REFUSED:
            return None
        if (row.to, row.data, row.value) != (to, data, value):
            raise IntentConflictError(
                f"the key {key!r} already stands for another transaction", key=key, label=row.label
            )
        return row

    async def _signed(self, row: OutboxRow, gas: int | None, nonce: int | None = None) -> OutboxRow:
        if gas is None:
            estimate = await self.eth.estimate_gas(self.address, row.to, row.data, row.value, row.label)
            gas = self.config.fees.gas_limit(estimate)
        market, view = await self._market()
        fees = self.config.fees.offer(market.base_fee, market.tip, row.is_urgent)
        needed = gas * fees.max_fee + row.value
        if market.balance < needed:
            raise OutOfFundsError(
                f"{self.address} has {market.balance} wei, {row.label or row.key} needs up to {needed}",
                address=self.address,
                balance=market.balance,
                needed=needed,
            )
        if nonce is None:
            nonce = rules.next_nonce(self._rows.values(), view)
        return self._with_signature(row.with_(nonce=nonce, gas=gas), fees)

    def _with_signature(self, row: OutboxRow, fees: Fees) -> OutboxRow:
        assert row.nonce is not None
        transaction = Transaction(
            self._chain_id, row.nonce, fees.tip, fees.max_fee, row.gas, row.to, row.value, row.data
        )
        raw = transaction.sign(self.wallet.key)
        self._signed_at[row.key] = self._clock()
        return row.with_(state=TxState.SIGNED, fees=fees, raw=raw, hashes=(*row.hashes, transaction_hash(raw)))

    async def _market(self) -> tuple[Market, ChainView]:
        answers = await self.eth.rpc.batch_settled(
            [
                ("eth_getBlockByNumber", ("latest", False)),
                ("eth_getBalance", (self.address, "latest")),
                ("eth_getTransactionCount", (self.address, "latest")),
                ("eth_getTransactionCount", (self.address, "pending")),
                ("eth_maxPriorityFeePerGas", ()),
            ]
        )
        head, balance, latest, pending = answers[:4]
        for answer in answers[:4]:
            if isinstance(answer, RpcResponseError):
                raise answer
        header = parse_header(head)
        if header is None:
            raise RpcResponseError("the RPC knows no latest block", method="eth_getBlockByNumber")
        has_tip = not isinstance(answers[4], RpcResponseError)
        tip = quantity(answers[4], "eth_maxPriorityFeePerGas") if has_tip else DEFAULT_TIP
        market = Market(header.base_fee, tip, quantity(balance, "eth_getBalance"))
        counts = [quantity(item, "eth_getTransactionCount") for item in (latest, pending)]
        return market, ChainView(header.number, counts[0], counts[1])

    async def _bumped(self, row: OutboxRow) -> OutboxRow:
        assert row.fees is not None
        market, _ = await self._market()
        try:
            fees = self.config.fees.bump(row.fees, market.base_fee, market.tip, row.is_urgent)
        except FeeCapError as error:
            self._alarms[row.key] = error
            return row
        after = self._with_signature(row, fees)
        await self._save(after)
        return after

    async def _broadcast(self, row: OutboxRow) -> None:
        self._sent_at[row.key] = self._clock()
        try:
            await self.eth.send_raw(row.raw)
        except RpcUnreachableError as error:
            self._alarms[row.key] = error
            return
        except RpcResponseError as error:
            if not _is_known(error):
                self._alarms[row.key] = _refusal(error, row, self.address)
                if _is_underpriced(error):
                    self._signed_at[row.key] = float("-inf")
                return
        self._alarms.pop(row.key, None)
        if row.state is not TxState.BROADCAST:
            await self._save(row.with_(state=TxState.BROADCAST))

    async def _save(self, row: OutboxRow) -> None:
        await self._store.put(row)
        self._rows[row.key] = row
        self._changed.set()
        self._changed = asyncio.Event()

    async def _outcome(self, key: str, states: frozenset[TxState]) -> TxReceipt | None:
        row = self._rows[key]
        if row.state is TxState.REFUSED:
            raise self._refusals.get(key) or ContractRevertError(row.reason, key=key)
        if row.state not in states or row.mined_hash is None:
            return None
        with contextlib.suppress(RpcUnreachableError):
            receipt = await self.eth.receipt(row.mined_hash)
            if receipt is not None and not receipt.is_ok:
                raise await self._why_reverted(row, receipt)
            return receipt
        return None

    async def _why_reverted(self, row: OutboxRow, receipt: TxReceipt) -> ContractRevertError:
        context = row.label or row.key
        try:
            await self.eth.call(row.to, row.data, sender=self.address, block=receipt.block_number - 1, context=context)
        except ContractRevertError as error:
            error.fields["tx_hash"] = receipt.tx_hash
            return error
        except ChainError:
            pass  # the server keeps no state of that block, and so no reason
        return ContractRevertError(f"{context}: reverted on chain", tx_hash=receipt.tx_hash, gas_used=receipt.gas_used)


def _is_known(error: RpcResponseError) -> bool:
    """The server has the transaction, or its nonce is used: the next look at the receipts tells by which."""
    text = error.message.lower()
    return any(part in text for part in ("already known", "already imported", "already exists", "nonce too low"))


def _is_underpriced(error: RpcResponseError) -> bool:
    text = error.message.lower()
    return "underpriced" in text or "less than block base fee" in text or "fee too low" in text


def _refusal(error: RpcResponseError, row: OutboxRow, sender: Address) -> MillpondError:
    if "insufficient funds" in error.message.lower():
        return OutOfFundsError(f"{sender} cannot pay for {row.label or row.key}: {error.message}", address=sender)
    return error
