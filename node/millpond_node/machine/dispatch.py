"""The dispatcher: FIFO inside a job, jobs in turn inside a lane, lanes by credit. Every step is O(1) per task."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import LossCause
from millpond.protocol.messages import AttemptStatus, Failure, SignedReceipt
from millpond_node.machine.commands import Changed, Command, SaveResult, SaveSent, SendCancel, SendRun
from millpond_node.machine.tasks import (
    MAX_CREDIT,
    MIN_CREDIT,
    WINDOW_S,
    AttemptDone,
    AttemptGone,
    AttemptStarted,
    CancelAsked,
    Desk,
    Job,
    JobOrphaned,
    Lane,
    LaneOpened,
    LaneStopped,
    ReceiptsAt,
    Stage,
    Task,
    TaskEvent,
    TasksSubmitted,
    TaskState,
    count_end,
    spec_bytes,
)

REASON_CHARS = 500
MOST_UNCOUNTED = 100
"""Losses that do not count as tries are bounded too: a worker that gives everything back would be sent a task for ever."""
SILENT = "its worker fell silent"
UNSAID = "its worker did not say why"


def handle(state: Desk, event: TaskEvent, now: float) -> list[Command]:
    """`now` is seconds of any clock that does not jump. A repeated event changes nothing."""
    commands: list[Command] = []
    match event:
        case AttemptDone():
            _done(state, event, now, commands)
        case AttemptStarted(lease=lease, task=task_id, attempt=attempt):
            found = _assigned(state, lease, task_id, attempt)
            if found is not None:
                found[1].is_started = True
        case TasksSubmitted():
            _submitted(state, event, commands)
        case AttemptGone():
            _gone(state, event, now, commands)
        case LaneOpened(lease=lease):
            _opened(state, _lane(state, lease), commands)
        case LaneStopped():
            _stopped(state, event, now, commands)
        case CancelAsked():
            _cancelled(state, event, now, commands)
        case JobOrphaned(job=job_id):
            _orphaned(state, job_id, now, commands)
        case ReceiptsAt():
            _settled(state, event, commands)
    return commands


def submit(state: Desk, event: TasksSubmitted) -> tuple[Job, list[Task]]:
    """Books the tasks that are new, without sending; also how a restart reads them back."""
    job = state.jobs.get(event.job)
    if job is None:
        job = state.jobs[event.job] = Job(event.job, event.owner)
    for lease in event.leases:
        job.leases[lease] = None
        state.jobs_of.setdefault(lease, {})[job.id] = job
    fresh = []
    for spec in event.tasks:
        if spec.id not in job.tasks:
            task = job.tasks[spec.id] = Task(spec.id, spec.index, spec)
            fresh.append(task)
            job.queue.append(task)
            state.open_bytes += spec_bytes(spec)
    job.queued += len(fresh)
    state.open += len(fresh)
    return job, fresh


def assign(state: Desk, job: Job, task: Task, lease: str, attempt: int, tries: int) -> None:
    """Books an attempt as sent to `lease`, or as back in the queue where that is empty."""
    if task.state is TaskState.ENDED:
        return
    _release(state, job, task)
    task.attempt, task.tries = attempt, tries
    if lease:
        task.state, task.lease = TaskState.SENT, lease
        job.queued -= 1
        job.running += 1
        _lane(state, Bytes32(lease)).outstanding[task.id] = (job, task)


def end(state: Desk, job: Job, task: Task, cursor: int, status: int | None, has_receipt: bool, now: float) -> None:
    """Books the end of a task."""
    _release(state, job, task)
    job.queued -= 1
    task.state, task.cursor = TaskState.ENDED, cursor
    job.cursor = max(job.cursor, cursor)
    if task.spec is not None:
        state.open_bytes -= spec_bytes(task.spec)
        task.spec = None
    state.open -= 1
    count_end(job, status)
    if has_receipt:
        task.stage = Stage.SIGNED
        job.receipts += 1
    if job.open == 0:
        job.ended_at = now


def forget(state: Desk, job_id: Bytes32) -> None:
    """Drops a job whose tasks have all ended."""
    job = state.jobs.get(job_id)
    if job is None or job.open:
        return
    del state.jobs[job_id]
    for lease in job.leases:
        jobs = state.jobs_of.get(lease, {})
        jobs.pop(job_id, None)
        if not jobs:
            state.jobs_of.pop(lease, None)


def close_lane(state: Desk, lease: Bytes32) -> None:
    state.lanes.pop(lease, None)


def requeue_front(job: Job, tasks: Iterable[Task]) -> None:
    """Puts tasks back in front, in the order they were submitted in."""
    job.queue.extendleft(sorted(tasks, key=lambda task: task.index, reverse=True))


def has_open_lane(state: Desk, job: Job) -> bool:
    return any(lease in state.lanes for lease in job.leases)


def _lane(state: Desk, lease: Bytes32) -> Lane:
    lane = state.lanes.get(lease)
    if lane is None:
        lane = state.lanes[lease] = Lane(lease)
    return lane


def _release(state: Desk, job: Job, task: Task) -> None:
    """Takes a SENT task back to QUEUED, in the books only."""
    if task.state is not TaskState.SENT:
        return
    lane = state.lanes.get(Bytes32(task.lease))
    if lane is not None:
        lane.outstanding.pop(task.id, None)
    task.state, task.lease, task.is_started = TaskState.QUEUED, "", False
    job.running -= 1
    job.queued += 1


def _assigned(state: Desk, lease: Bytes32, task_id: Bytes32, attempt: int) -> tuple[Job, Task] | None:
    """The fence: only the attempt that is out counts."""
    lane = state.lanes.get(lease)
    found = lane.outstanding.get(task_id) if lane is not None else None
    return found if found is not None and found[1].attempt == attempt else None


def _submitted(state: Desk, event: TasksSubmitted, commands: list[Command]) -> None:
    job, _ = submit(state, event)
    _spread(state, job, commands)
    commands.append(Changed(job.id))


def _spread(state: Desk, job: Job, commands: list[Command]) -> None:
    """One task per lane in turn, so that a short job uses all of its lanes."""
    lanes = [lane for lease in job.leases if (lane := state.lanes.get(lease)) is not None]
    for lane in lanes:
        if job not in lane.jobs:
            lane.jobs.append(job)
    while lanes:
        lanes = [lane for lane in lanes if _send_one(state, lane, commands)]


def _send_one(state: Desk, lane: Lane, commands: list[Command]) -> bool:
    if not lane.is_open or len(lane.outstanding) >= lane.credit:
        return False
    found = _next(lane)
    if found is None:
        return False
    job, task = found
    assign(state, job, task, lane.lease, task.attempt + 1, task.tries)
    commands.append(SaveSent(job.id, task.id, lane.lease, task.attempt, task.tries))
    assert task.spec is not None
    commands.append(SendRun(lane.lease, task.attempt, task.spec))
    return True


def _next(lane: Lane) -> tuple[Job, Task] | None:
    while lane.jobs:
        job = lane.jobs[0]
        while job.queue:
            task = job.queue.popleft()
            if task.state is TaskState.QUEUED:
                lane.jobs.rotate(-1)
                return job, task
        lane.jobs.popleft()
    return None


def _fill(state: Desk, lane: Lane, commands: list[Command]) -> None:
    while _send_one(state, lane, commands):
        pass


def _opened(state: Desk, lane: Lane, commands: list[Command]) -> None:
    lane.is_open = True
    for _, task in lane.outstanding.values():
        assert task.spec is not None
        commands.append(SendRun(lane.lease, task.attempt, task.spec))
        if task.is_cancelling:
            commands.append(SendCancel(lane.lease, task.id, task.attempt))
    for job in state.jobs_of.get(lane.lease, {}).values():
        if job.queued and job not in lane.jobs:
            lane.jobs.append(job)
    _fill(state, lane, commands)


def _stopped(state: Desk, event: LaneStopped, now: float, commands: list[Command]) -> None:
    lane = state.lanes.get(event.lease)
    if lane is None:
        return
    lane.is_open = False
    lost = list(lane.outstanding.values())
    if event.is_over:
        close_lane(state, event.lease)
    back: dict[Bytes32, tuple[Job, list[Task]]] = {}
    for job, task in lost:
        if _return(state, job, task, event.counts and task.is_started, now, commands, SILENT):
            back.setdefault(job.id, (job, []))[1].append(task)
    for job, tasks in back.values():
        requeue_front(job, tasks)
        _spread(state, job, commands)


def _return(state: Desk, job: Job, task: Task, counts: bool, now: float, commands: list[Command], reason: str) -> bool:
    """Whether a task whose attempt is lost goes back to the queue; else it ended here."""
    spec = task.spec
    assert spec is not None
    tries = task.tries + counts
    assign(state, job, task, "", task.attempt, tries)
    commands.append(SaveSent(job.id, task.id, "", task.attempt, tries))
    if task.is_cancelling:
        _end(state, job, task, None, None, Failure("Cancelled", "cancelled; its worker was lost"), now, commands)
        return False
    if tries >= spec.max_attempts:
        said = f"it was lost in {tries} of at most {spec.max_attempts} attempts: {reason or UNSAID}"
        _end(state, job, task, None, None, Failure("AttemptsExhausted", said), now, commands)
        return False
    if task.attempt >= spec.max_attempts + MOST_UNCOUNTED:
        said = f"it was given back {task.attempt} times, at last: {reason or UNSAID}"
        _end(state, job, task, None, None, Failure("AttemptsExhausted", said), now, commands)
        return False
    job.retried += 1
    return True


def _done(state: Desk, event: AttemptDone, now: float, commands: list[Command]) -> None:
    receipt = event.signed.receipt
    found = _assigned(state, receipt.lease, receipt.task, receipt.attempt)
    if found is None:
        state.stale += 1
        return
    job, task = found
    lane = state.lanes[receipt.lease]
    lane.is_open = True
    _end(state, job, task, event.signed, event.value, event.failure, now, commands)
    _pace(lane, now)
    _fill(state, lane, commands)


def _pace(lane: Lane, now: float) -> None:
    """Credit follows the rate at which the lane ends attempts."""
    since, lane.last_end = now - lane.last_end, now
    lane.interval_s = 0.8 * lane.interval_s + 0.2 * min(max(since, 1e-5), 10.0)
    lane.credit = max(MIN_CREDIT, min(MAX_CREDIT, int(WINDOW_S / lane.interval_s)))


def _gone(state: Desk, event: AttemptGone, now: float, commands: list[Command]) -> None:
    found = _assigned(state, event.lease, event.task, event.attempt)
    if found is None:
        state.stale += 1
        return
    job, task = found
    lane = state.lanes[event.lease]
    lane.is_open = lane.is_open and event.cause is not LossCause.LEASE
    counts = event.cause is LossCause.TASK or (event.cause is LossCause.CRASH and task.is_started)
    if _return(state, job, task, counts, now, commands, event.reason[:REASON_CHARS]):
        requeue_front(job, [task])
        _spread(state, job, commands)
    else:
        _fill(state, lane, commands)


def _end(
    state: Desk,
    job: Job,
    task: Task,
    signed: SignedReceipt | None,
    value: bytes | None,
    failure: Failure | None,
    now: float,
    commands: list[Command],
) -> None:
    cursor = job.cursor + 1
    status = signed.receipt.status if signed is not None else None
    if signed is None and failure is not None and failure.type == "Cancelled":
        status = AttemptStatus.CANCELLED
    end(state, job, task, cursor, status, signed is not None, now)
    commands.append(SaveResult(job.id, task.id, task.index, cursor, signed, value, failure))
    commands.append(Changed(job.id))


def _cancelled(state: Desk, event: CancelAsked, now: float, commands: list[Command]) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    for task_id in event.tasks or tuple(job.tasks):
        task = job.tasks.get(task_id)
        if task is None or task.is_cancelling:
            continue
        if task.state is TaskState.QUEUED:
            _end(state, job, task, None, None, Failure("Cancelled", "cancelled before it ran"), now, commands)
        elif task.state is TaskState.SENT:
            task.is_cancelling = True
            commands.append(SendCancel(Bytes32(task.lease), task.id, task.attempt))


def _orphaned(state: Desk, job_id: Bytes32, now: float, commands: list[Command]) -> None:
    job = state.jobs.get(job_id)
    if job is None or has_open_lane(state, job):
        return
    for task in job.tasks.values():
        if task.state is TaskState.QUEUED:
            said = "every lease of its job was closed, and none came in time"
            _end(state, job, task, None, None, Failure("LeaseEnded", said), now, commands)


def _settled(state: Desk, event: ReceiptsAt, commands: list[Command]) -> None:
    touched: dict[Bytes32, None] = {}
    for job_id, task_id in event.refs:
        job = state.jobs.get(job_id)
        task = job.tasks.get(task_id) if job is not None else None
        if job is None or task is None or task.stage is Stage.NONE:
            continue
        job.attested += (event.stage >= Stage.ATTESTED) - (task.stage >= Stage.ATTESTED)
        job.final += (event.stage >= Stage.FINAL) - (task.stage >= Stage.FINAL)
        task.stage = event.stage
        touched[job_id] = None
    commands += [Changed(job_id) for job_id in touched]
