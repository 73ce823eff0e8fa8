"""Errors of the worker's process.

ConfigError
├── WorkerConfigError      worker.toml is missing or wrong
├── WorkerRunningError     another worker uses this home
├── WorkerNotRunningError  a command needs a running worker
└── SetupError             this machine, its keys or its standing on chain are not ready
NodeError
├── NodeUnreachableError   no connection to the node
├── NodeRefusedError       the node ended the connection, and said why
└── NodeUnknownError       the pool's node has announced no address
InputError
└── BadTaskError           what a renter sent as a task cannot be run
"""

from __future__ import annotations

from millpond.protocol.errors import ConfigError, InputError, NodeError


class WorkerConfigError(ConfigError):
    """Fields: `path`, `problems`."""

    remedy_text = "Correct the named lines of worker.toml, or write a new one with `millpond-worker init`."


class WorkerRunningError(ConfigError):
    """Fields: `home`, `process`."""

    remedy_text = "Stop the other worker first, or give this one a home of its own with --home."


class WorkerNotRunningError(ConfigError):
    """Fields: `home`."""

    remedy_text = "Start the worker with `millpond-worker up`."


class SetupError(ConfigError):
    """Fields: `findings`."""

    remedy_text = (
        "Run `millpond-worker doctor` and follow its remedies; `millpond-worker init` does the steps on chain."
    )


class NodeUnreachableError(NodeError):
    """Fields: `url`."""

    remedy_text = "Check that the node runs and that its URL is right; the worker tries again by itself."


class NodeRefusedError(NodeError):
    """Fields: `error`."""

    remedy_text = "Read the node's words; the worker tries again by itself."


class NodeUnknownError(NodeError):
    """Fields: `controller`."""

    remedy_text = "Wait until the operator has started the node, or set node_url in worker.toml."


class BadTaskError(InputError):
    """Fields differ by message."""

    remedy_text = "Submit the task again with the SDK; its code or arguments were not put together by it."
