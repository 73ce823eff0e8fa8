"""What a sender's rows become, given what the chain says. Pure: rows and a view in, changed rows out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millpond.chain.errors import NonceGapError
from millpond.chain.eth import TxReceipt
from millpond.chain.outbox import OutboxRow, TxState
from millpond.protocol.ids import Bytes32

_UNMINED = (TxState.SIGNED, TxState.BROADCAST)
MOST_GAPS = 64
"""More missing nonces than this come from a wrong answer, and filling them would cost money."""
MOST_PENDING = 256
PURGE_AT_ONCE = 100


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
    """First nonce that neither the chain nor a row uses. A pool that claims very many of our transactions is not believed."""
    used = [row.nonce + 1 for row in rows if row.nonce is not None]
    return max([view.latest, believed_pending(view), *used])


def believed_pending(view: ChainView) -> int:
    return view.pending if view.latest <= view.pending <= view.latest + MOST_PENDING else view.latest


def gaps(rows: Iterable[OutboxRow], view: ChainView) -> list[int]:
    """Nonces below our unmined rows that nobody fills: without them nothing after them is ever mined.

    Raises `NonceGapError` for more than 64: our nonces then came from a server that lied.
    """
    mine = {row.nonce for row in rows if row.nonce is not None}
    top = max((nonce for nonce in mine if nonce >= view.latest), default=view.latest)
    start = max(view.latest, believed_pending(view))
    missing = max(0, top - start) - sum(start <= nonce < top for nonce in mine)
    if missing > MOST_GAPS:
        raise NonceGapError(f"{missing} nonces from {start} to {top} are missing", first=start, last=top, count=missing)
    return [nonce for nonce in range(start, top) if nonce not in mine]


def unmined(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Signed rows that wait for a block, by nonce."""
    return sorted((row for row in rows if row.state in _UNMINED), key=lambda row: row.nonce or 0)


def intents(rows: Iterable[OutboxRow], now: int) -> list[OutboxRow]:
    """Rows to sign, the urgent first, then by order of intent. `now` in Unix seconds of the chain."""
    waiting = (row for row in rows if row.state is TxState.INTENT)
    return sorted(waiting, key=lambda row: (not row.is_urgent_at(now), row.sequence))


def stuck(
    rows: Iterable[OutboxRow], view: ChainView, base_fee: int, waited: Mapping[str, float], bump_after_s: float
) -> list[OutboxRow]:
    """Rows to replace by a higher offer, by nonce: those that waited too long and are next in line, or offer too little to be taken.

    A row behind the next in line that offers enough waits for that one only. `waited` in seconds since its newest version.
    """
    late = [row for row in unmined(rows) if waited.get(row.key, 0.0) >= bump_after_s]
    return [
        row
        for row in late
        if row.nonce == view.latest or (row.fees is not None and row.fees.max_fee < base_fee + row.fees.tip)
    ]


def is_refused(row: OutboxRow, rows: Iterable[OutboxRow], reverts_for_s: float, patience_s: float) -> bool:
    """Whether a queued call that reverts now is given up: not while an earlier transaction of ours, which it may need, is on its way."""
    has_earlier = any(other.sequence < row.sequence and other.state in _UNMINED for other in rows)
    return not has_earlier or reverts_for_s >= patience_s


def purgeable(rows: Iterable[OutboxRow], head: int, keep_blocks: int) -> list[OutboxRow]:
    """Rows final for `keep_blocks`, oldest first, some at a time. The newest row stays: the next takes its sequence from it."""
    ordered = sorted(rows, key=lambda row: row.sequence)
    settled = [row for row in ordered[:-1] if row.state is TxState.FINAL and row.nonce is not None]
    old = [row for row in settled if row.block_number + keep_blocks <= head]
    return old[:PURGE_AT_ONCE]
