"""The lease machine: NEW -> PREPARING -> STARTING -> READY <-> UNPAID -> CLOSING -> CLEAN, and back to PREPARING on a reorganisation."""

from __future__ import annotations

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Desired, LeasePhase, ReportBody
from millpond.protocol.messages import VoucherNote
from millpond_worker.machine import admission, attempt
from millpond_worker.machine.commands import CheckChain, Clear, Command, Launch, Note, Pause, Pull, Report, Resume
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.model import (
    LIVE,
    Ended,
    EndReason,
    LeaseRow,
    LeaseState,
    Ready,
    TxKind,
    Unpaid,
    VoucherKept,
    WorkerState,
)
from millpond_worker.machine.settle import is_void, settle

_STARTED = frozenset({LeaseState.STARTING, LeaseState.READY, LeaseState.UNPAID})


def report(state: WorkerState, body: ReportBody) -> Report:
    return Report(state.take_seq(), body)


def desired(state: WorkerState, event: Desired, now: int) -> list[Command]:
    row = state.leases.get(event.lease)
    is_on_chain = event.phase in (LeasePhase.SEEN, LeasePhase.FINAL, LeasePhase.CLOSED)
    if row is not None:
        return [CheckChain(row.lease), *_told_again(state, row, now, event.phase)] if is_on_chain else []
    if event.phase is LeasePhase.CLOSED:
        return []
    problem = admission.offer_problem(state.terms, event)
    if not problem and not is_on_chain:
        problem = admission.request_problem(state.terms, event)
    if problem:
        return [Note(f"lease {event.lease} refused: {problem}")]
    return _admit(state, event, now, is_on_chain)


def _told_again(state: WorkerState, row: LeaseRow, now: int, phase: LeasePhase) -> list[Command]:
    """A node that saw the lease taken back and opened again waits for READY, though the chain was never seen here without it."""
    if phase is LeasePhase.CLOSED or row.state not in (LeaseState.READY, LeaseState.UNPAID):
        return []
    ready: list[Command] = [report(state, Ready(row.lease, row.ready_at))]
    if row.state is LeaseState.UNPAID:
        ready.append(report(state, Unpaid(row.lease, row.unpaid_seconds(now))))
    return ready


def _admit(state: WorkerState, event: Desired, now: int, is_on_chain: bool) -> list[Command]:
    problem = admission.renter_problem(state.terms, event)
    problem = problem or admission.policy_problem(state.terms, event, now, is_on_chain)
    if not problem and state.is_draining and not is_on_chain:
        problem = "this worker is draining"
    row = LeaseRow(event.lease, LeaseState.PREPARING, event.offer, event.request, event.image)
    if not problem:
        state.put_lease(row)
        check: list[Command] = [CheckChain(row.lease)] if is_on_chain else []
        return [Pull(row.lease, row.image), *check]
    if is_on_chain:
        reason = EndReason.LAUNCH_FAILED
        state.put_lease(row.with_(state=LeaseState.CLEAN, reason=reason, message=problem, ended_at=now))
    ended = report(state, Ended(event.lease, EndReason.LAUNCH_FAILED, problem))
    return [Note(f"lease {event.lease} refused: {problem}"), ended]


def chain_said(state: WorkerState, fact: LeaseFact, now: int) -> list[Command]:
    row = state.leases.get(fact.lease)
    if row is None or fact.block < row.seen_block:
        return []  # a server that lags knows less than we do
    match fact.status:
        case LeaseStatus.OPEN:
            commands = _opened(state, row, fact, now)
        case LeaseStatus.NONE:
            commands = _absent(state, row, fact, now)
        case LeaseStatus.CLOSED | LeaseStatus.RELEASED:
            commands = _closed(state, row, now) if row.state in LIVE else []
    if fact.lease in state.leases:
        commands += settle(state, state.leases[fact.lease], fact, now)
    return commands


def _opened(state: WorkerState, row: LeaseRow, fact: LeaseFact, now: int) -> list[Command]:
    if (row.opened_at, row.ends_at) != (fact.opened_at, fact.ends_at) or not row.seen_block:
        row = row.with_(opened_at=fact.opened_at, ends_at=fact.ends_at, seen_block=row.seen_block or fact.block)
        state.put_lease(row)
    if row.state not in LIVE:
        return []
    if fact.head_time >= fact.ends_at:
        return end(state, row, EndReason.EXPIRED, "", now)
    row = _noted(state, row, fact)
    if row.state is LeaseState.UNPAID:
        return _resume_if_paid(state, row, now)
    if row.state is not LeaseState.PREPARING:
        return []
    state.put_lease(row.with_(state=LeaseState.STARTING))
    return [Launch(row.lease)]


def _noted(state: WorkerState, row: LeaseRow, fact: LeaseFact) -> LeaseRow:
    """A renter may pay at the chain itself; a demand that is seen while the lease is served has been answered."""
    answered = fact.demanded_at if row.state is LeaseState.READY else 0
    found = (max(row.collected, fact.collected), max(row.answered_at, answered))
    if found == (row.collected, row.answered_at):
        return row
    return state.put_lease(row.with_(collected=found[0], answered_at=found[1]))


def _closed(state: WorkerState, row: LeaseRow, now: int) -> list[Command]:
    if row.state is LeaseState.UNPAID and row.mark(TxKind.CLOSE_UNPAID) is not None:
        return end(state, row, EndReason.UNPAID, f"{row.unpaid_seconds(now)} s were not paid for", now)
    return end(state, row, EndReason.CLOSED, "", now)


def _absent(state: WorkerState, row: LeaseRow, fact: LeaseFact, now: int) -> list[Command]:
    """The chain has no such lease: not yet, never, or no more since a reorganisation."""
    if row.state in _STARTED:
        back = row.stopped(now).with_(state=LeaseState.PREPARING, seen_block=0, opened_at=0, unpaid_at=0)
        state.put_lease(back.with_(collected=0, answered_at=0, is_frozen=False))
        lost = attempt.lose_all(state, row.lease, "the chain took the lease back")
        return [*lost, Clear(row.lease)]
    if not is_void(row, fact):
        return []
    if row.state is LeaseState.PREPARING:
        return end(state, row, EndReason.CLOSED, "the lease never opened", now)
    if row.state is LeaseState.CLEAN:
        state.forget(row.lease)
    return []


def launched(state: WorkerState, lease: Bytes32, now: int) -> list[Command]:
    row = state.leases.get(lease)
    if row is None or row.state is not LeaseState.STARTING:
        return [] if row is not None and row.state in LIVE else [Clear(lease)]
    row = state.put_lease(row.resumed(now).with_(state=LeaseState.READY, unpaid_at=0))
    return [report(state, Ready(lease, row.ready_at)), *attempt.start_fetched(state, lease, now)]


def launch_failed(state: WorkerState, lease: Bytes32, message: str, now: int) -> list[Command]:
    row = state.leases.get(lease)
    if row is None or row.state is not LeaseState.STARTING:
        return []
    return end(state, row, EndReason.LAUNCH_FAILED, message, now)


def voucher(state: WorkerState, note: VoucherNote, now: int) -> list[Command]:
    """Keeps a better voucher, whatever the state: it pays also for a lease that has ended."""
    row = state.leases.get(note.lease)
    if row is None or note.cumulative <= row.cumulative:
        return []
    problem = admission.voucher_problem(state.terms, row, note)
    if problem:
        return [Note(f"voucher of lease {note.lease} refused: {problem}")]
    alive = now if row.state is LeaseState.READY else row.alive_at
    row = state.put_lease(row.with_(cumulative=note.cumulative, signature=note.signature, alive_at=alive))
    kept = report(state, VoucherKept(row.lease, row.cumulative))
    return [kept, *_resume_if_paid(state, row, now)]


def _resume_if_paid(state: WorkerState, row: LeaseRow, now: int) -> list[Command]:
    if row.state is not LeaseState.UNPAID or row.unpaid_seconds(now) > _patience(state, row):
        return []
    if not row.is_frozen:
        state.put_lease(row.with_(state=LeaseState.STARTING))
        return [Launch(row.lease)]
    row = state.put_lease(row.resumed(now).with_(state=LeaseState.READY, unpaid_at=0, is_frozen=False))
    return [
        Resume(row.lease),
        report(state, Ready(row.lease, row.ready_at)),
        *attempt.start_fetched(state, row.lease, now),
    ]


def tick(state: WorkerState, now: int) -> list[Command]:
    commands: list[Command] = []
    for row in list(state.leases.values()):
        commands += _tick_lease(state, row, now)
    return commands


def _tick_lease(state: WorkerState, row: LeaseRow, now: int) -> list[Command]:
    if row.state in LIVE and row.stopped_at > now:
        row = state.put_lease(row.set_back(now))
    if row.state in _STARTED and now >= row.ends_at:
        return end(state, row, EndReason.EXPIRED, "", now)
    if row.state is LeaseState.READY and row.unpaid_seconds(now) > _patience(state, row):
        row = state.put_lease(row.stopped(now).with_(state=LeaseState.UNPAID, unpaid_at=now, is_frozen=True))
        return [Pause(row.lease), report(state, Unpaid(row.lease, row.unpaid_seconds(now)))]
    return []


def _patience(state: WorkerState, row: LeaseRow) -> int:
    return state.terms.unpaid_ticks * row.offer.offer.tick


def end(state: WorkerState, row: LeaseRow, reason: EndReason, message: str, now: int) -> list[Command]:
    row = row.stopped(now).with_(state=LeaseState.CLOSING, reason=reason, message=message, ended_at=now)
    state.put_lease(row)
    return [*attempt.lose_all(state, row.lease, f"the lease ended: {reason.value}"), Clear(row.lease)]


def host_clean(state: WorkerState, lease: Bytes32) -> list[Command]:
    row = state.leases.get(lease)
    if row is None or row.state is not LeaseState.CLOSING:
        return []
    row = state.put_lease(row.with_(state=LeaseState.CLEAN))
    ended = Ended(lease, row.reason or EndReason.CLOSED, row.message)
    return [report(state, ended), CheckChain(lease)]


def stopping(state: WorkerState, now: int) -> list[Command]:
    """Tells the node what is lost with this process, and stops the meters at the very second."""
    commands: list[Command] = []
    for row in list(state.leases.values()):
        if row.state is LeaseState.READY:
            state.put_lease(row.with_(alive_at=now))
        commands += attempt.lose_all(state, row.lease, "the worker is stopping")
    return commands


def restarted(state: WorkerState) -> list[Command]:
    """The warm containers died with the last process: what was served starts again, from the chain's word, if it is paid for."""
    commands: list[Command] = []
    for row in list(state.leases.values()):
        if row.state is LeaseState.CLOSING:
            commands.append(Clear(row.lease))
        elif row.state in LIVE:
            if row.state is LeaseState.UNPAID:
                state.put_lease(row.with_(is_frozen=False))
            elif row.state in _STARTED:
                state.put_lease(row.stopped(max(row.alive_at, row.ready_at)).with_(state=LeaseState.PREPARING))
            commands += [Pull(row.lease, row.image), CheckChain(row.lease)]
        else:
            commands.append(CheckChain(row.lease))
    return commands
