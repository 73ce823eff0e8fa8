"""When each state ends at the latest, and what it becomes then. Pure; times are Unix seconds.

What ends with the chain alone (an attestation's finality, a close's) has a next state and no deadline: nobody here knows the time of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.protocol.views import LeaseState, RequestState, TaskStage
from millpond_node.machine.leases import LeaseRecord
from millpond_node.machine.requests import RequestRecord
from millpond_node.machine.tasks import Stage, Task, TaskState

Due = tuple[int | None, str]
STAYS: Due = (None, "")
_STAGES = {
    Stage.NONE: TaskStage.ENDED,
    Stage.SIGNED: TaskStage.SIGNED,
    Stage.ATTESTED: TaskStage.ATTESTED,
    Stage.FINAL: TaskStage.FINAL,
}


def due_of_request(record: RequestRecord, lease: LeaseRecord | None) -> Due:
    """An opening is over with the signature that expires first; only another offer can be tried then."""
    deadline = record.signed.request.deadline
    match record.state:
        case RequestState.QUEUED:
            return deadline, RequestState.EXPIRED
        case RequestState.OPENING if lease is not None and lease.offer.offer.deadline < deadline:
            return lease.offer.offer.deadline, RequestState.QUEUED
        case RequestState.OPENING:
            return deadline, RequestState.REFUSED
        case _:
            return STAYS


def due_of_lease(record: LeaseRecord) -> Due:
    match record.state:
        case LeaseState.OPENING:
            return min(record.offer.offer.deadline, record.request.request.deadline), LeaseState.CLOSED
        case LeaseState.OPEN | LeaseState.SERVING | LeaseState.UNPAID:
            return record.ends_at or None, LeaseState.CLOSING
        case LeaseState.CLOSING:
            return None, LeaseState.CLOSED
        case _:
            return STAYS


def stage_of(task: Task) -> TaskStage:
    if task.state is TaskState.QUEUED:
        return TaskStage.QUEUED
    if task.state is TaskState.SENT:
        return TaskStage.RUNNING if task.is_started else TaskStage.SENT
    return _STAGES[task.stage]


def due_of_task(task: Task, leases: Iterable[LeaseRecord], orphan_s: int, now: int) -> Due:
    """Seconds from now. `leases` are those of its job: with the last of them its tasks wait `orphan_s` for another one."""
    ends = {record.lease: max(0, record.ends_at - now) for record in leases if not record.is_over}
    stage = stage_of(task)
    match stage:
        case TaskStage.QUEUED:
            return max(ends.values(), default=0) + orphan_s, TaskStage.ENDED
        case TaskStage.SENT | TaskStage.RUNNING:
            left = next((left for lease, left in ends.items() if lease == task.lease), 0)
            limit = int(task.spec.time_limit_s) if task.spec is not None else 0
            is_cut = stage is TaskStage.SENT or left < limit
            return (left, TaskStage.QUEUED) if is_cut else (limit, TaskStage.ENDED)
        case TaskStage.SIGNED:
            return None, TaskStage.ATTESTED
        case TaskStage.ATTESTED:
            return None, TaskStage.FINAL
        case _:
            return STAYS
