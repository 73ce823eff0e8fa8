"""What a worker still owes the chain for a lease: close, collect, release. Level-triggered: each answer follows from the chain's last word."""

from __future__ import annotations

from millpond_worker.machine.commands import Command, SendTx
from millpond_worker.machine.events import LeaseFact, LeaseStatus, TxDone
from millpond_worker.machine.model import LIVE, EndReason, LeaseRow, LeaseState, TxKind, TxMark, WorkerState

ANSWER_SECONDS = 900
"""Between `demandPayment` and `closeUnpaid` (IController)."""
RETRY_SECONDS = 60
LAST_VOUCHER_SECONDS = 3
LAST_VOUCHER_LATEST_SECONDS = 600
VOID_MARGIN_SECONDS = 120
_ONE_SIDED = frozenset({EndReason.LAUNCH_FAILED, EndReason.DRAINED})


def is_void(row: LeaseRow, fact: LeaseFact) -> bool:
    """Whether the lease, absent from the chain, can never open."""
    return fact.head_time >= row.deadline + VOID_MARGIN_SECONDS


def settle(state: WorkerState, row: LeaseRow, fact: LeaseFact, now: int) -> list[Command]:
    """The next transaction of the lease, if one is due; forgets a lease with nothing left to do."""
    if fact.status is LeaseStatus.RELEASED and row.state not in LIVE:
        state.forget(row.lease)
        return []
    kind = due(state, row, fact, now)
    if kind is None:
        return []
    mark = row.mark(kind)
    if mark is not None and (mark.is_pending or now < mark.at + RETRY_SECONDS):
        return []
    number = mark.number + 1 if mark else 1
    state.put_lease(row.marked(TxMark(kind, number, now)))
    if kind in (TxKind.COLLECT, TxKind.COLLECT_FINAL):
        return [SendTx(row.lease, kind, number, row.cumulative, row.signature)]
    return [SendTx(row.lease, kind, number)]


def due(state: WorkerState, row: LeaseRow, fact: LeaseFact, now: int) -> TxKind | None:
    if fact.status is LeaseStatus.OPEN:
        if fact.head_time >= fact.ends_at:
            return TxKind.CLOSE
        return _against_unpaid(state, row, fact, now) if row.state is LeaseState.UNPAID else _way_out(state, row, fact)
    if fact.status is not LeaseStatus.CLOSED or row.state in LIVE:
        return None
    if not fact.is_settled:
        return TxKind.COLLECT_FINAL if _has_last_voucher(state, fact, now) else None
    released_at = fact.closed_at + state.terms.claim_window + state.terms.dispute_window
    return TxKind.RELEASE if fact.head_time >= released_at else None


def _way_out(state: WorkerState, row: LeaseRow, fact: LeaseFact) -> TxKind | None:
    """How a provider leaves an open lease that it does not serve, or every lease when it leaves the pool: by its notice."""
    is_wanted = not state.gives_notice if row.state in LIVE else row.reason not in _ONE_SIDED
    if is_wanted:
        return None
    if not fact.notice_ends_at:
        return TxKind.NOTICE
    return TxKind.CLOSE if fact.head_time >= fact.notice_ends_at else None


def _against_unpaid(state: WorkerState, row: LeaseRow, fact: LeaseFact, now: int) -> TxKind | None:
    """Demand payment after the grace, close after the answer time. The grace is this machine's time, the answer time the chain's.

    What was signed is collected before the demand: else an old voucher, posted by the renter, would answer it.
    """
    if not is_grace_over(state, row, now):
        return None
    if fact.demanded_at > row.answered_at:
        return TxKind.CLOSE_UNPAID if fact.head_time >= fact.demanded_at + ANSWER_SECONDS else None
    accrued = max(0, fact.head_time - fact.opened_at) * row.offer.offer.pricePerSecond
    return TxKind.COLLECT if fact.collected < min(row.cumulative, accrued) else TxKind.DEMAND


def is_grace_over(state: WorkerState, row: LeaseRow, now: int) -> bool:
    """The grace runs only while the node is there to bring a voucher: a cut line closes nothing."""
    return state.connected_at > 0 and now - max(row.unpaid_at, state.connected_at) > state.terms.grace


def _has_last_voucher(state: WorkerState, fact: LeaseFact, now: int) -> bool:
    """The final collection gives up what a later voucher would pay, so the node gets time to bring the last one."""
    heard = state.connected_at > 0 and now >= state.connected_at + LAST_VOUCHER_SECONDS
    age = fact.head_time - fact.closed_at
    return (heard and age >= LAST_VOUCHER_SECONDS) or age >= LAST_VOUCHER_LATEST_SECONDS


def tx_done(state: WorkerState, event: TxDone, now: int) -> list[Command]:
    """A mined transaction shows in the chain's next word; one that failed is tried again after a pause, under a new number."""
    row = state.leases.get(event.lease)
    mark = row.mark(event.kind) if row else None
    if row is None or mark is None or mark.number != event.number:
        return []
    state.put_lease(row.marked(TxMark(event.kind, event.number, now, is_pending=False)))
    return []
