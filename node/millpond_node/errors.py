"""Errors of the node. `status` is the HTTP status REST answers with; other errors of the tree answer 400.

NodeError
├── NotFoundError          there is no such thing, or it is another's
├── NotAPartyError         the caller may not do this
├── ReplayError            the nonce was used before
├── RateLimitError         too many requests; `retry_after_s` says when to come back
├── BacklogError           a queue is full
├── QuotaError             the caller's block quota is used up
├── BodyError              the body is too large, or did not arrive in time
├── RequestRefusedError    a request this pool can never serve
├── ReceiptPendingError    the receipt is there, its batch is not on chain yet
├── VersionSkewError       worker and node do not speak the same version
├── WorkerBusyError        another instance of this worker is connected
├── WorkerRefusedError     the key is no operator of a device in this pool
├── SequenceGapError       a worker's reports have a gap
└── StoppingError          the node is shutting down
"""

from __future__ import annotations

from typing import ClassVar

from millpond.protocol.errors import ConfigError, NodeError


class NotFoundError(NodeError):
    status: ClassVar[int] = 404
    remedy_text = "Check the id, and sign with the key it belongs to."


class NotAPartyError(NodeError):
    status: ClassVar[int] = 403
    remedy_text = "Sign with the renter's key, or with the lease's session key."


class ReplayError(NodeError):
    status: ClassVar[int] = 409
    remedy_text = "Sign the request again with a fresh random nonce."


class RateLimitError(NodeError):
    status: ClassVar[int] = 429
    remedy_text = "Slow down, and send more tasks in one submission."


class BacklogError(NodeError):
    status: ClassVar[int] = 429
    remedy_text = "Wait until some of what is queued has ended, then send again; nothing of this request was kept."


class QuotaError(NodeError):
    status: ClassVar[int] = 413
    remedy_text = "Wait until older blocks expire, or open a lease: its parties have the larger quota."


class BodyError(NodeError):
    status: ClassVar[int] = 413
    remedy_text = "Send at most 8 MiB in one request, without long pauses; larger data travel as blocks."


class RequestRefusedError(NodeError):
    status: ClassVar[int] = 422
    remedy_text = "Sign a new request with the values this pool accepts (GET /v1/pool)."


class ReceiptPendingError(NodeError):
    status: ClassVar[int] = 404
    remedy_text = "Ask again in a few seconds: receipts are posted in batches."


class VersionSkewError(NodeError):
    status: ClassVar[int] = 426
    remedy_text = "Install the release the other side runs, or the one next to it."


class WorkerBusyError(NodeError):
    status: ClassVar[int] = 409
    remedy_text = "Stop the other process that uses this operator key, or give this machine a key of its own."


class WorkerRefusedError(NodeError):
    status: ClassVar[int] = 403
    remedy_text = "Register the device with this operator and join it to the pool: `millpond-worker init`."


class SequenceGapError(NodeError):
    status: ClassVar[int] = 409
    remedy_text = "Connect again: the welcome says which report is expected next."


class StoppingError(NodeError):
    status: ClassVar[int] = 503
    remedy_text = "Try again in a few seconds."


class NodeConfigError(ConfigError):
    remedy_text = "Correct node.toml in the node's home folder; docs/reference/node.md lists its keys."


class NotTheNodeError(ConfigError):
    remedy_text = "Use the key the pool names as its node, or have the pool's owner call setNode."


class PortTakenError(ConfigError):
    remedy_text = "Stop the program that uses the port, or set another `port` in node.toml."
