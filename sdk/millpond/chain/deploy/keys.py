"""Which intent key a step takes: the same while its transaction may still succeed, a new one after it failed."""

from __future__ import annotations

from itertools import count

from millpond.chain.calls import Call
from millpond.chain.outbox import TxState
from millpond.chain.transactor import Transactor

_ENDED = (TxState.MINED, TxState.FINAL)


def intent_key(transactor: Transactor, base: str, call: Call, *, is_repeatable: bool = False) -> str:
    """`base`, or `base:N` after N transactions that reverted, or, for a repeatable change, that were carried out before."""
    keys = (f"{base}:{number}" if number else base for number in count())
    return next(key for key in keys if _is_usable(transactor, key, call, is_repeatable))


def _is_usable(transactor: Transactor, key: str, call: Call, is_repeatable: bool) -> bool:
    handle = transactor.handle(key)
    if handle is None:
        return True
    row = handle.row
    is_over = row.state in _ENDED and (is_repeatable or not row.is_ok)
    return (row.to, row.data, row.value) == (call.to, call.data, call.value) and not is_over
