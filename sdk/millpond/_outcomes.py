"""From a task's result to a value or a typed error."""

from __future__ import annotations

from typing import Any

from millpond.errors import (
    PythonMismatchError,
    TaskCancelledError,
    TaskError,
    TaskFailedError,
    TaskLostError,
    TaskOutOfMemoryError,
    TaskTimedOutError,
)
from millpond.protocol import values
from millpond.protocol.messages import AttemptStatus, TaskResult

_ERRORS: dict[int, type[TaskError]] = {
    AttemptStatus.FAILED: TaskFailedError,
    AttemptStatus.TIMED_OUT: TaskTimedOutError,
    AttemptStatus.OUT_OF_MEMORY: TaskOutOfMemoryError,
    AttemptStatus.CANCELLED: TaskCancelledError,
}


def value_of(encoded: bytes | None) -> Any:
    """The returned value; None where a task returns none."""
    return None if encoded is None else values.decode(encoded)


def error_of(result: TaskResult) -> TaskError | None:
    """The error a result stands for, or None for a success."""
    failure = result.failure
    status = None if result.signed is None else result.signed.receipt.status
    if status == AttemptStatus.SUCCEEDED:
        return None
    kind = TaskLostError if status is None else _ERRORS.get(status, TaskFailedError)
    if failure is not None and failure.type == PythonMismatchError.__name__:
        kind = PythonMismatchError
    said = f"{failure.type}: {failure.message}" if failure else "the task did not end"
    trace = failure.traceback if failure else ""
    message = f"task {result.index}: {said}" + (f"\n\nremote traceback:\n{trace}" if trace else "")
    return kind(message, task=result.task, index=result.index, type=failure.type if failure else "", traceback=trace)
