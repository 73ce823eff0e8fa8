"""Rows of the machines as the journal keeps them: tables `lease` and `task`, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millpond.protocol import wire
from millpond.protocol.ids import bytes32
from millpond.protocol.messages import TaskSpec
from millpond_worker.machine.model import Attempt, AttemptKey, AttemptState, LeaseRow, LeaseState, WorkerState

LEASE_TABLE = "lease"
TASK_TABLE = "task"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One key of one table: its new value; None removes it, and every key below it where it ends with a slash."""

    table: str
    key: str
    value: bytes | None


def take_changes(state: WorkerState) -> list[RowChange]:
    """What changed since the last call, to be made durable together with the reports of the same events."""
    changes = [RowChange(LEASE_TABLE, name, wire.write(state.leases[name])) for name in sorted(state.dirty_leases)]
    changes += [_task_row(found) for found in state.dirty_tasks.values() if found.key.lease not in state.forgotten]
    for name in state.forgotten:
        changes += [RowChange(LEASE_TABLE, name, None), RowChange(TASK_TABLE, f"{name}/", None)]
    state.dirty_leases.clear()
    state.dirty_tasks.clear()
    state.forgotten.clear()
    return changes


def _task_row(found: Attempt) -> RowChange:
    """The fence, and what a restart must know. Only cold attempts outlive the process, so only they carry their task."""
    body: dict[str, object] = {"attempt": found.key.attempt, "state": found.state.value, "seq": found.seq}
    if found.seq:
        body["state"] = AttemptState.SEALED.value  # durable with its report, so sealed
    if found.spec.command and found.state is AttemptState.RUNNING:
        body["spec"] = wire.write(found.spec).decode()
        body["started_at"] = found.started_at
    return RowChange(
        TASK_TABLE, f"{found.key.lease}/{found.key.task}", json.dumps(body, separators=(",", ":")).encode()
    )


def load(
    state: WorkerState, leases: Iterable[tuple[str, bytes]], tasks: Iterable[tuple[str, bytes]], acked_seq: int
) -> None:
    """Fills an empty state from the journal's rows. `acked_seq` is the last report the outbox no longer holds."""
    state.acked_seq = acked_seq
    for _, value in leases:
        row = wire.read(LeaseRow, value)
        state.leases[row.lease] = _unpended(row)
    for found in _attempts(tasks):
        task = (found.key.lease, found.key.task)
        state.fences.setdefault(found.key.lease, {})[found.key.task] = found.key.attempt
        if found.state is AttemptState.SEALED and found.seq > acked_seq:
            state.attempts[task] = found
            state.sealed.append((found.seq, task))
        elif found.state not in (AttemptState.SEALED, AttemptState.DONE):
            state.attempts[task] = found
    state.sealed = type(state.sealed)(sorted(state.sealed))


def _unpended(row: LeaseRow) -> LeaseRow:
    """Nobody in this process waits for an earlier one's transactions: they are asked for again, under the same number."""
    marks = tuple(mark for mark in row.marks if not mark.is_pending)
    pending = [mark for mark in row.marks if mark.is_pending and mark.number > 1]
    kept = tuple(type(mark)(mark.kind, mark.number - 1, 0, is_pending=False) for mark in pending)
    state = LeaseState.PREPARING if row.state is LeaseState.NEW else row.state
    return row.with_(marks=marks + kept, state=state)


def _attempts(tasks: Iterable[tuple[str, bytes]]) -> Iterator[Attempt]:
    for name, value in tasks:
        lease, _, task = name.partition("/")
        body = json.loads(value)
        key = AttemptKey(bytes32(lease), bytes32(task), int(body["attempt"]))
        spec = wire.read(TaskSpec, body["spec"]) if "spec" in body else TaskSpec(key.task, 0)
        yield Attempt(
            key,
            spec,
            AttemptState(body["state"]),
            is_fetched=True,
            started_at=int(body.get("started_at", 0)),
            seq=int(body["seq"]),
        )
