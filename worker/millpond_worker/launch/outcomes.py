"""Pure: from what the runner and the engine say to a `TaskOutcome`, and from that to an error."""

from __future__ import annotations

import dataclasses
from typing import Any

from millpond.protocol.errors import LaunchError, TaskError

from . import errors
from .port import Limits, OutputFile, TaskFailure, TaskFrame, TaskOutcome, TaskStatus
from .spool import Usage


def breach_of(usage: Usage, limits: Limits, slack_files: int = 0) -> TaskFailure | None:
    """What is wrong with what lies in /out, if anything is. `slack_files` are folders the worker made there itself."""
    if usage.strange:
        return TaskFailure("OutputTooLargeError", f"/out holds {usage.strange!r}, which is not a regular file")
    if usage.size > limits.out_mib << 20:
        return TaskFailure("OutputTooLargeError", f"/out holds more than {limits.out_mib} MiB")
    if usage.files > limits.out_files + slack_files:
        return TaskFailure("OutputTooLargeError", f"/out holds more than {limits.out_files} files")
    return None


def failure_of(status: TaskStatus, limits: Limits, time_limit_s: float) -> TaskFailure | None:
    """What a limit says about itself, in the same words whoever noticed."""
    if status is TaskStatus.OOM:
        return TaskFailure("TaskOutOfMemoryError", f"the task used more than its {limits.memory_mib} MiB of memory")
    if status is TaskStatus.TIMEOUT:
        return TaskFailure("TaskTimeoutError", f"the task ran longer than its {time_limit_s:g} s")
    if status is TaskStatus.LOST:
        return TaskFailure("TaskLostError", "the container ended under the task")
    if status is TaskStatus.CANCELLED:
        return TaskFailure("TaskCancelledError", "the task was cancelled")
    return None


def outcome_of(
    frame: TaskFrame, limits: Limits, tail: bytes, elapsed_s: float, header: dict[str, Any], body: bytes
) -> TaskOutcome:
    """The outcome a checked result frame tells of. The runner is in the renter's hands: it cannot claim more than `elapsed_s`."""
    status = TaskStatus(header["status"])
    failure = TaskFailure(*header["error"]) if header["error"] else None
    return TaskOutcome(
        task=frame.task,
        attempt=frame.attempt,
        status=status,
        value=body if status is TaskStatus.OK else None,
        failure=failure_of(status, limits, frame.time_limit_s) or failure,
        exit_code=header["exit_code"],
        queued_s=min(header["queued_s"], elapsed_s),
        run_s=min(header["run_s"], elapsed_s),
        cpu_s=header["cpu_s"],
        peak_memory_bytes=header["rss"],
        log_tail=tail,
        log_bytes=header["log_bytes"],
    )


def replace_status(outcome: TaskOutcome, status: TaskStatus, failure: TaskFailure) -> TaskOutcome:
    """The same attempt with a worse end: its value does not count."""
    return dataclasses.replace(outcome, status=status, failure=failure, value=None)


def with_outputs(outcome: TaskOutcome, outputs: tuple[OutputFile, ...]) -> TaskOutcome:
    """The same outcome with what the task left in /out."""
    return dataclasses.replace(outcome, outputs=outputs)


_ERRORS: dict[TaskStatus, type[LaunchError]] = {
    TaskStatus.OOM: errors.TaskOutOfMemoryError,
    TaskStatus.TIMEOUT: errors.TaskTimeoutError,
    TaskStatus.LOST: errors.TaskLostError,
    TaskStatus.CANCELLED: errors.TaskCancelledError,
    TaskStatus.OUTPUT: errors.OutputTooLargeError,
}


def error_of(outcome: TaskOutcome) -> LaunchError | TaskError | None:
    """The typed error of an attempt that did not succeed, with its remedy; `None` for one that did."""
    if outcome.status is TaskStatus.OK:
        return None
    failure = outcome.failure or TaskFailure("TaskError", f"the task ended with exit code {outcome.exit_code}")
    if outcome.status is TaskStatus.FAILED:
        remedy = "Read the traceback: the task's own code raised this."
        return TaskError(
            f"{failure.type}: {failure.message}", remedy=remedy, task=outcome.task, traceback=failure.traceback
        )
    return _ERRORS[outcome.status](failure.message, task=outcome.task)
