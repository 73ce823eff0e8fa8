"""The attempt machine: QUEUED -> RUNNING -> SEALING -> SEALED -> DONE."""

from __future__ import annotations

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Cancel, LossCause, Run
from millpond.protocol.messages import AttemptStatus
from millpond_worker.machine.commands import Adopt, Command, DropReports, Execute, Fetch, Report, Seal, Stop
from millpond_worker.machine.events import Exited, InputsFailed, Outcome, Stored
from millpond_worker.machine.model import (
    LIVE,
    RUNNABLE,
    Attempt,
    AttemptKey,
    AttemptLost,
    AttemptState,
    LeaseState,
    ReportBody,
    Started,
    WorkerState,
)

ANNOUNCE_SECONDS = 1
NOT_HELD = "the worker holds nothing of this attempt any more"


def _report(state: WorkerState, body: ReportBody) -> Report:
    return Report(state.take_seq(), body)


def run(state: WorkerState, event: Run) -> list[Command]:
    """Takes an attempt once: a number at or below the task's fence has been accepted before, and is never run again.

    Where it still goes on, or its report waits, the node will hear of it; where nothing of it is held the node is told so.
    """
    key = AttemptKey(event.lease, event.task.id, event.attempt)
    fence = state.fences.get(event.lease, {}).get(key.task, 0)
    if event.attempt <= fence:
        return [] if state.attempt(key) else [_report(state, _lost(key, NOT_HELD, LossCause.WORKER))]
    row = state.leases.get(event.lease)
    if row is None or row.state not in LIVE:
        return [_report(state, _lost(key, "the lease is not served here", LossCause.LEASE))]
    older = _stop_older(state, key)
    if len(state.attempts) >= state.terms.max_queued:
        turned_away = Attempt(key, event.task, AttemptState.QUEUED)
        return [*older, *lose(state, turned_away, "too many attempts wait here", LossCause.LEASE)]
    state.put_attempt(Attempt(key, event.task, AttemptState.QUEUED))
    return [*older, Fetch(key)]


def _stop_older(state: WorkerState, key: AttemptKey) -> list[Command]:
    older = state.attempts.get((key.lease, key.task))
    return [Stop(older.key)] if older is not None and older.state in RUNNABLE else []


def inputs_ready(state: WorkerState, key: AttemptKey, now: int) -> list[Command]:
    found = state.attempt(key)
    if found is None or found.state is not AttemptState.QUEUED:
        return []
    found = state.put_attempt(found.with_(is_fetched=True), is_durable=False)
    row = state.leases.get(key.lease)
    return [_start(state, found, now)] if row is not None and row.state is LeaseState.READY else []


def start_fetched(state: WorkerState, lease: Bytes32, now: int) -> list[Command]:
    """What waited for the lease to be ready, in the order it came."""
    waiting = [found for found in state.of_lease(lease) if found.state is AttemptState.QUEUED and found.is_fetched]
    return [_start(state, found, now) for found in waiting]


def _start(state: WorkerState, found: Attempt, now: int) -> Command:
    is_cold = bool(found.spec.command)  # its container may outlive this process, and is then told by this row
    state.put_attempt(found.with_(state=AttemptState.RUNNING, started_at=now), is_durable=is_cold)
    return Execute(found.key)


def inputs_failed(state: WorkerState, event: InputsFailed) -> list[Command]:
    found = state.attempt(event.key)
    if found is None or found.state is not AttemptState.QUEUED:
        return []
    return lose(state, found, event.message, event.cause)


def exited(state: WorkerState, event: Exited) -> list[Command]:
    found = state.attempt(event.key)
    if found is None or found.state not in RUNNABLE:
        return []
    if event.outcome.status is None:
        message = event.outcome.failure.message if event.outcome.failure else "the container ended under the attempt"
        return lose(state, found, message, event.outcome.cause)
    state.put_attempt(found.with_(state=AttemptState.SEALING), is_durable=False)
    return [Seal(event.key, event.outcome, event.started_at, event.ended_at)]


def cancel(state: WorkerState, event: Cancel, now: int) -> list[Command]:
    key = AttemptKey(event.lease, event.task, event.attempt)
    found = state.attempt(key)
    if found is None or found.state not in RUNNABLE:
        return []
    if found.state is AttemptState.RUNNING:
        return [Stop(key)]
    stopped = Exited(key, Outcome(AttemptStatus.CANCELLED), now, now)
    return [Stop(key), *exited(state, stopped)]


def stored(state: WorkerState, event: Stored) -> list[Command]:
    """The receipt goes into the journal here, unsigned; it is signed when its report leaves, after the commit."""
    found = state.attempt(event.key)
    if found is None or found.state is not AttemptState.SEALING or found.seq:
        return []
    sent = _report(state, event.body)
    state.put_attempt(found.with_(seq=sent.seq))
    state.unsealed.append((sent.seq, (event.key.lease, event.key.task)))
    return [sent]


def store_failed(state: WorkerState, key: AttemptKey, message: str) -> list[Command]:
    found = state.attempt(key)
    if found is None or found.state is not AttemptState.SEALING or found.seq:
        return []
    return lose(state, found, message)


def committed(state: WorkerState, seq: int) -> list[Command]:
    while state.unsealed and state.unsealed[0][0] <= seq:
        number, task = state.unsealed.popleft()
        found = state.attempts.get(task)
        if found is not None and found.seq == number:
            state.put_attempt(found.with_(state=AttemptState.SEALED), is_durable=False)
            state.sealed.append((number, task))
    return []


def acked(state: WorkerState, seq: int) -> list[Command]:
    """The node has it: the rows of the outbox go, the fences stay."""
    if seq <= state.acked_seq or seq >= state.next_seq:
        return []
    state.acked_seq = seq
    while state.sealed and state.sealed[0][0] <= seq:
        number, task = state.sealed.popleft()
        found = state.attempts.get(task)
        if found is not None and found.seq == number:
            state.put_attempt(found.with_(state=AttemptState.DONE), is_durable=False)
    return [DropReports(seq)]


def lose(state: WorkerState, found: Attempt, reason: str, cause: LossCause = LossCause.TASK) -> list[Command]:
    """Ends an attempt of which nothing was signed; the node may run it again under the next number."""
    state.put_attempt(found.with_(state=AttemptState.DONE))
    return [_report(state, _lost(found.key, reason, cause))]


def lose_all(state: WorkerState, lease: Bytes32, reason: str) -> list[Command]:
    """For reasons of the worker's or the lease's own."""
    commands: list[Command] = []
    for found in state.of_lease(lease):
        if found.state in RUNNABLE:
            commands += [Stop(found.key), *lose(state, found, reason, LossCause.LEASE)]
    return commands


def announce(state: WorkerState, now: int) -> list[Command]:
    """`Started` only for attempts that last: short ones are told by their receipts."""
    commands: list[Command] = []
    for found in list(state.attempts.values()):
        if (
            found.state is AttemptState.RUNNING
            and not found.is_announced
            and now - found.started_at >= ANNOUNCE_SECONDS
        ):
            state.put_attempt(found.with_(is_announced=True), is_durable=False)
            commands.append(_report(state, Started(found.key.lease, found.key.task, found.key.attempt)))
    return commands


def restarted(state: WorkerState, running: frozenset[AttemptKey]) -> list[Command]:
    """What was not sealed is lost with the process, unless its own container still runs."""
    commands: list[Command] = []
    for found in list(state.attempts.values()):
        if found.state not in RUNNABLE:
            continue
        if found.key in running and found.state is AttemptState.RUNNING:
            commands.append(Adopt(found.key))
        else:
            commands += lose(state, found, "the worker was restarted", LossCause.CRASH)
    return commands


def _lost(key: AttemptKey, reason: str, cause: LossCause) -> AttemptLost:
    return AttemptLost(key.lease, key.task, key.attempt, reason, cause)
