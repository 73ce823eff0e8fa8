"""Sends the transactions of one key, so that each intent becomes one transaction whatever crashes, drops or reorganises.

A transaction is signed and stored before it leaves, under the caller's key: the same key twice is the same transaction. The loop
re-sends what servers dropped, fills nonce gaps, replaces what is stuck, and takes back what a reorganisation undid.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from millpond.chain import outbox_rules as rules
from millpond.chain.calls import Call
from millpond.chain.errors import (
    FeeCapError,
    IntentConflictError,
    NonceGapError,
    OutOfFundsError,
    RpcDisagreementError,
    RpcQuorumError,
    RpcResponseError,
    RpcUnreachableError,
    TransactionTimeoutError,
)
from millpond.chain.eth import Eth, TxReceipt
from millpond.chain.fees import FeePolicy, Fees
from millpond.chain.finality import finality_of
from millpond.chain.keys import Wallet
from millpond.chain.outbox import LIVE, OutboxRow, OutboxStore, TxState, intent_digest, revived
from millpond.chain.outbox_rules import ChainView
from millpond.chain.reverts import ContractRevertError
from millpond.chain.sender import Market, Sender
from millpond.chain.transactions import Transaction, transaction_hash
from millpond.protocol.errors import ChainError, MillpondError
from millpond.protocol.ids import Address, Bytes32

DEFAULT_WAIT_S = 120.0
_MAX_BACKOFF_S = 5.0
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class TransactorConfig:
    """`finality` in blocks (None: 2 on the development chain, else 64); times in seconds.

    A queued call that reverts is tried for `patience_s` while earlier transactions are on their way. Rows are deleted, and only their
    keys kept, `purge_after_blocks` after their block.
    """

    finality: int | None = None
    poll_s: float = 0.25
    idle_poll_s: float = 3.0
    resend_after_s: float = 3.0
    bump_after_s: float = 60.0
    patience_s: float = 30.0
    purge_after_blocks: int = 10_000
    fees: FeePolicy = field(default_factory=FeePolicy)


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
        self._sender = Sender(eth, wallet.address)
        self._store = store
        self._clock = clock
        self._rows: dict[str, OutboxRow] = {}
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._sent_at: dict[str, float] = {}
        self._signed_at: dict[str, float] = {}
        self._reverts_since: dict[str, float] = {}
        self._refusals: dict[str, MillpondError] = {}
        self._alarms: dict[str, MillpondError] = {}
        self._task: asyncio.Task[None] | None = None
        self._lane = ""
        self._time = 0
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
        urgent_from: int = 0,
    ) -> TxHandle:
        """Signs, stores and sends. `value` in wei; `gas` given skips the estimate. The same `key` again returns the same transaction.

        An urgent one may offer more for gas; `urgent_from` is when it becomes so, Unix seconds of the chain.

        Raises, with nothing stored: `ContractRevertError` kinds, `OutOfFundsError`, `FeeCapError`, `RpcUnreachableError`,
        `IntentConflictError` when `key` stands for another transaction.
        """
        async with self._lock:
            row = await self._find(key, to, data, value)
            if row is None:
                row = await self._signed(self._intent(key, to, data, value, label, is_urgent, urgent_from), gas)
                await self._save(row)
                await self._broadcast(row)
            self._wake.set()
            return TxHandle(self, key)

    async def send_call(self, key: str, call: Call, *, gas: int | None = None, is_urgent: bool = False) -> TxHandle:
        """`send` for a call that a binding built."""
        return await self.send(key, call.to, call.data, call.value, label=call.label, gas=gas, is_urgent=is_urgent)

    async def enqueue(self, key: str, call: Call, *, is_urgent: bool = False, urgent_from: int = 0) -> TxHandle:
        """Stores the intent and returns at once; the loop sends it when the chain, the funds and the fees allow.

        A call that then reverts becomes REFUSED and its handle raises the revert; enqueueing a refused key tries again.
        """
        async with self._lock:
            if await self._find(key, call.to, call.data, call.value) is None:
                intent = self._intent(key, call.to, call.data, call.value, call.label, is_urgent, urgent_from)
                await self._save(intent)
            self._wake.set()
            return TxHandle(self, key)

    @property
    def count(self) -> int:
        """How many intents the key ever had, those with deleted rows too."""
        return max((row.sequence for row in self._rows.values()), default=0)

    def handle(self, key: str) -> TxHandle | None:
        """None for a key that is unknown, or whose row was deleted long after it was final; sending it again tells."""
        return TxHandle(self, key) if key in self._rows else None

    def row(self, key: str) -> OutboxRow:
        return self._rows[key]

    def rows(self) -> list[OutboxRow]:
        """The key's transactions on this chain by order of intent, but for those final long ago."""
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
            try:
                view = await self._sender.view(list(self._rows.values()), self._finality)
            except (RpcDisagreementError, RpcQuorumError):
                await self._resend()  # harms nobody, and may be what a deadline needs
                raise
            for row in rules.reconcile(self._rows.values(), view, self._finality):
                await self._save(row)
            await self._repair_nonces(view)
            await self._sign_intents()
            await self._replace_stuck(view)
            await self._resend()
            for row in rules.purgeable(self._rows.values(), view.head, self.config.purge_after_blocks):
                await self._retire(row)
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

    async def _repair_nonces(self, view: ChainView) -> None:
        try:
            missing = rules.gaps(self._rows.values(), view)
        except NonceGapError as error:
            self._alarms["nonces"] = error
            return
        self._alarms.pop("nonces", None)
        for nonce in missing:
            row = self._intent(f"gap:{nonce}", self.address, b"", 0, "nonce gap", False)
            await self._save(await self._signed(row, None, nonce))

    async def _sign_intents(self) -> None:
        for row in rules.intents(self._rows.values(), self._time):
            try:
                await self._save(await self._signed(row, None))
            except ContractRevertError as error:
                await self._refused(row, error)
            except (OutOfFundsError, FeeCapError, RpcResponseError) as error:
                self._alarms[row.key] = error  # the others may be cheaper, or urgent
            else:
                self._alarms.pop(row.key, None)
                self._reverts_since.pop(row.key, None)

    async def _refused(self, row: OutboxRow, error: ContractRevertError) -> None:
        now = self._clock()
        reverts_for_s = now - self._reverts_since.setdefault(row.key, now)
        if not rules.is_refused(row, self._rows.values(), reverts_for_s, self.config.patience_s):
            self._alarms[row.key] = error
            return
        self._refusals[row.key] = error
        self._alarms.pop(row.key, None)
        self._reverts_since.pop(row.key, None)
        await self._save(row.with_(state=TxState.REFUSED, reason=f"{error.code}: {error.message}"))

    async def _replace_stuck(self, view: ChainView) -> None:
        now = self._clock()
        rows = rules.unmined(self._rows.values())
        waited = {row.key: now - self._signed_at.setdefault(row.key, now) for row in rows}
        if not any(seconds >= self.config.bump_after_s for seconds in waited.values()):
            return
        market, _ = await self._ask_market()
        for row in rules.stuck(rows, view, market.base_fee, waited, self.config.bump_after_s):
            await self._bump(row, market)

    async def _resend(self) -> None:
        now = self._clock()
        for row in rules.unmined(self._rows.values()):
            is_due = now - self._sent_at.get(row.key, float("-inf")) >= self.config.resend_after_s
            if row.state is TxState.SIGNED or is_due:
                await self._broadcast(row)

    # ONE TRANSACTION

    def _intent(
        self, key: str, to: Address, data: bytes, value: int, label: str, is_urgent: bool, urgent_from: int = 0
    ) -> OutboxRow:
        sequence = 1 + self.count
        return OutboxRow(self._lane, key, sequence, to, data, value, label, is_urgent, urgent_from=urgent_from)

    async def _find(self, key: str, to: Address, data: bytes, value: int) -> OutboxRow | None:
        row = self._rows.get(key)
        if row is None:
            return await self._revived(key, to, data, value)
        if row.state is TxState.REFUSED:
            return None
        if (row.to, row.data, row.value) != (to, data, value):
            raise _conflict(key, row.label)
        return row

    async def _revived(self, key: str, to: Address, data: bytes, value: int) -> OutboxRow | None:
        """A row of a key whose own was deleted, in memory only: the key was used and is not used again."""
        kept = await self._store.retired(self._lane, key)
        if kept is None:
            return None
        if kept.digest != intent_digest(to, data, value):
            raise _conflict(key, "")
        row = revived(kept, OutboxRow(self._lane, key, 0, to, data, value))
        self._rows[key] = row
        return row

    async def _retire(self, row: OutboxRow) -> None:
        await self._store.retire(row)
        for table in (self._rows, self._sent_at, self._signed_at):
            table.pop(row.key, None)

    async def _signed(self, row: OutboxRow, gas: int | None, nonce: int | None = None) -> OutboxRow:
        if gas is None:
            gas = self.config.fees.gas_limit(await self._sender.estimate(row))
        market, view = await self._ask_market()
        fees = self.config.fees.offer(market.base_fee, market.tip, row.is_urgent_at(market.time), gas)
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

    async def _ask_market(self) -> tuple[Market, ChainView]:
        market, view = await self._sender.market()
        self._time = market.time
        return market, view

    async def _bump(self, row: OutboxRow, market: Market) -> None:
        assert row.fees is not None
        is_urgent = row.is_urgent_at(market.time)
        try:
            fees = self.config.fees.bump(row.fees, market.base_fee, market.tip, is_urgent, row.gas)
        except FeeCapError as error:
            self._alarms[row.key] = error
            return
        await self._save(self._with_signature(row, fees))

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
        with contextlib.suppress(RpcUnreachableError, RpcDisagreementError):
            receipt = await self._sender.receipt(row.mined_hash)
            if receipt is not None and not receipt.is_ok:
                raise await self._sender.why_reverted(row, receipt)
            return receipt
        return None


def _conflict(key: str, label: str) -> IntentConflictError:
    return IntentConflictError(f"the key {key!r} already stands for another transaction", key=key, label=label)


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
