"""What a sender's rows become, given what the chain says. Pure: rows and a view in, changed rows out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millpond.chain.eth import TxReceipt
from millpond.chain.outbox import OutboxRow, TxState
from millpond.protocol.ids import Bytes32

_UNMINED = (TxState.SIGNED, TxState.BROADCAST)


@dataclass(frozen=True, slots=True)
class ChainView:
    """One look at the chain. `latest` and `pending` count the sender's transactions in blocks, and with those that wait.

    `taken` names, for a nonce of ours that is used up in a final block, the transaction found there.
    """

    head: int
    latest: int
    pending: int
    receipts: Mapping[Bytes32, TxReceipt] = field(default_factory=dict)
    taken: Mapping[int, Bytes32] = field(default_factory=dict)

    def receipt_of(self, row: OutboxRow) -> TxReceipt | None:
        return next((self.receipts[item] for item in reversed(row.hashes) if item in self.receipts), None)


def watched(rows: Iterable[OutboxRow]) -> list[Bytes32]:
    """Hashes whose receipts the view must hold."""
    return [item for row in rows if row.state in (*_UNMINED, TxState.MINED) for item in row.hashes]


def passed(rows: Iterable[OutboxRow], view: ChainView) -> list[int]:
    """Nonces of ours that are used up although none of their transactions has a receipt: another program may have used them."""
    return [row.nonce for row in rows if row.nonce is not None and _is_passed(row, view)]


def reconcile(rows: Iterable[OutboxRow], view: ChainView, finality: int) -> list[OutboxRow]:
    """The rows that change: mined, final, undone by a reorganisation, or in need of a new nonce."""
    changed = ((row, _next(row, view, finality)) for row in rows if row.nonce is not None)
    return [after for before, after in changed if after != before]


def _next(row: OutboxRow, view: ChainView, finality: int) -> OutboxRow:
    if row.state is TxState.FINAL:
        return _undone(row) if row.nonce is not None and row.nonce >= view.latest else row
    receipt = view.receipt_of(row)
    if receipt is not None:
        return _mined(row, receipt, view.head - receipt.block_number >= finality)
    if row.state is TxState.MINED:
        return _undone(row)
    return _released(row, view) if _is_passed(row, view) else row


def _released(row: OutboxRow, view: ChainView) -> OutboxRow:
    """Only another transaction, seen on the chain under its nonce, frees an intent to be signed again: a receipt may just be late."""
    taker = view.taken.get(row.nonce or 0)
    if taker is None or taker in row.hashes:
        return row
    return row.with_(state=TxState.INTENT, nonce=None, raw=b"", hashes=(), fees=None)


def _mined(row: OutboxRow, receipt: TxReceipt, is_final: bool) -> OutboxRow:
    return row.with_(
        state=TxState.FINAL if is_final else TxState.MINED,
        mined_hash=receipt.tx_hash,
        block_number=receipt.block_number,
        block_hash=receipt.block_hash,
        is_ok=receipt.is_ok,
        gas_used=receipt.gas_used,
    )


def _undone(row: OutboxRow) -> OutboxRow:
    return row.with_(state=TxState.SIGNED, mined_hash=None, block_number=0, block_hash=None, is_ok=None, gas_used=0)


def _is_passed(row: OutboxRow, view: ChainView) -> bool:
    is_used = row.nonce is not None and row.nonce < view.latest
    return is_used and row.state in _UNMINED and view.receipt_of(row) is None


def next_nonce(rows: Iterable[OutboxRow], view: ChainView) -> int:
    """First nonce that neither the chain nor a row uses."""
    used = [row.nonce + 1 for row in rows if row.nonce is not None]
    return max([view.latest, view.pending, *used])


def gaps(rows: Iterable[OutboxRow], view: ChainView) -> list[int]:
    """Nonces below our unmined rows that nobody fills: without them nothing after them is ever mined."""
    mine = {row.nonce for row in rows if row.nonce is not None}
    top = max((nonce for nonce in mine if nonce >= view.latest), default=view.latest)
    return [nonce for nonce in range(max(view.latest, view.pending), top) if nonce not in mine]


def unmined(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Signed rows that wait for a block, by nonce."""
    return sorted((row for row in rows if row.state in _UNMINED), key=lambda row: row.nonce or 0)
