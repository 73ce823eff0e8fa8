"""Errors a renter meets, beside those of `millpond.protocol.errors`, `millpond.chain` and `millpond.storage`.

MillpondError
├── InputError
│   ├── TaskSourceError        the function cannot be shipped
│   └── TaskSubmitError        the call does not fit the task
├── ConfigError
│   └── SettingsError          no pool, chain or wallet to talk to
├── NodeError
│   ├── NodeUnreachableError   the node does not answer
│   ├── LogMissingError        what a task printed did not reach the node
│   ├── NodeRefusedError       the node answered with an error of its own
│   ├── RequestRefusedError    the request will never become a lease
│   ├── ResultMissingError     the node does not have a task's result
│   ├── ResultWaitError        the task has not ended in the time given; a `TimeoutError` too
│   └── LeaseWaitError         the request did not become a lease in time
└── TaskError
    ├── TaskFailedError        the code raised; carries the remote traceback
    ├── TaskTimedOutError
    ├── TaskOutOfMemoryError
    ├── TaskCancelledError
    ├── TaskLostError          out of attempts
    └── PythonMismatchError    the image's Python is not what the task declares
"""

from __future__ import annotations

from millpond.protocol.errors import ConfigError, InputError, MillpondError, NodeError, TaskError

__all__ = [
    "ConfigError",
    "InputError",
    "LeaseWaitError",
    "LogMissingError",
    "MillpondError",
    "NodeError",
    "NodeRefusedError",
    "NodeUnreachableError",
    "PythonMismatchError",
    "RequestRefusedError",
    "ResultMissingError",
    "ResultWaitError",
    "SettingsError",
    "TaskCancelledError",
    "TaskError",
    "TaskFailedError",
    "TaskLostError",
    "TaskOutOfMemoryError",
    "TaskSourceError",
    "TaskSubmitError",
    "TaskTimedOutError",
]


class TaskSourceError(InputError):
    remedy_text = "Move the function to the top level of a module or script and pass what it needs as arguments."


class TaskSubmitError(InputError):
    remedy_text = (
        "Open a lease first: `with client.rent(...) as leases:`, then call the task inside, or pass `on=leases`."
    )


class SettingsError(ConfigError):
    remedy_text = (
        "Start a development stack with `millpond dev up`, or set MILLPOND_RPC_URL, MILLPOND_POOL and MILLPOND_WALLET."
    )


class NodeUnreachableError(NodeError):
    remedy_text = (
        "Check that the node runs (`millpond-node status`) and that its URL is right; running leases are not affected."
    )


class LogMissingError(NodeError):
    remedy_text = "The node keeps the last of it for a while: `millpond logs JOB`."


class NodeRefusedError(NodeError):
    remedy_text = "Read the node's message; nothing was changed."


class RequestRefusedError(NodeError):
    remedy_text = "Change the request and send it again; nothing was paid."


class ResultForgedError(NodeError):
    remedy_text = "Do not use this result. Ask again, keep the node's answer as evidence, and rent from another pool if it stays so."


class ResultMissingError(NodeError):
    remedy_text = (
        "`millpond results JOB` lists the results that the node still keeps; it forgets a job some time after its end."
    )


class ResultWaitError(NodeError, TimeoutError):
    remedy_text = "Wait longer, or come back later with the handle's id; the task goes on."


class LeaseWaitError(NodeError):
    remedy_text = "`millpond why REQUEST` tells what it waits for; ask for less, pay more, or wait longer."


class TaskFailedError(TaskError):
    remedy_text = "Read the remote traceback above; run the function with `.local()` to debug it."


class TaskTimedOutError(TaskError):
    remedy_text = "Give it longer (`time_limit_s`, or `--time-limit` of `millpond run`), or less to do."


class TaskOutOfMemoryError(TaskError):
    remedy_text = "Rent a slice with more memory, or use less in the task."


class TaskCancelledError(TaskError):
    remedy_text = "Submit the task again if it is still wanted."


class TaskLostError(TaskError):
    remedy_text = "The workers were lost under every attempt; submit again, on other workers if there are any."


class PythonMismatchError(TaskError):
    remedy_text = "Use an image whose Python fits what the task declares, or declare less."
