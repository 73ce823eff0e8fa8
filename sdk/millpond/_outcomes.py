"""From a task's result to a value or a typed error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond._verify import check_value
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

if TYPE_CHECKING:
    from millpond._asyncclient import AsyncClient

_ERRORS: dict[int, type[TaskError]] = {
    AttemptStatus.FAILED: TaskFailedError,
    AttemptStatus.TIMED_OUT: TaskTimedOutError,
    AttemptStatus.OUT_OF_MEMORY: TaskOutOfMemoryError,
    AttemptStatus.CANCELLED: TaskCancelledError,
}
_REMEDIES = {
    "ImageMissingError": "Check the image's name, and that the worker can pull it; without `image` the pool's own is used.",
    "CommandStartError": "Check that the image has the command, or give its full path.",
    "ProcessEnded": "Read what the command printed above.",
}


def value_of(encoded: bytes | None) -> Any:
    """The returned value; None where a task returns none."""
    return None if encoded is None else values.decode(encoded)


async def fetch_value(client: AsyncClient, result: TaskResult) -> Any:
    """The value of a result, fetched by CID when it did not travel inline; raises a `TaskError` kind."""
    error = error_of(result)
    if error is not None:
        raise error
    encoded = result.value
    if encoded is None and result.signed is not None and result.signed.value_cid:
        encoded = await client.fetch(result.signed.value_cid)
        check_value(client.api.url, result, encoded)
    return value_of(encoded)


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
    name = failure.type if failure else ""
    return kind(
        message, remedy=_remedy(kind, name, trace), task=result.task, index=result.index, type=name, traceback=trace
    )


def _remedy(kind: type[TaskError], name: str, trace: str) -> str | None:
    """Of a failure without a traceback: no Python of the renter's ran."""
    if kind is not TaskFailedError or trace:
        return None
    return _REMEDIES.get(name, "Read the message above and what the task printed.")
