"""Errors of the node. `status` is the HTTP status REST answers with; other errors of the tree answer 400.

NodeError
├── NotFoundError          there is no such thing, or it is another's
├── NotAPartyError         the caller may not do this
├── ReplayError            the nonce was used before
├── RateLimitError         too many requests; `retry_after_s` says when to come back
├── BacklogError           a queue is full
├── QuotaError             the caller's block quota is used up
├── QueryError             a part of the query is not what it should be
├── MalformedError         the bytes are no HTTP request
├── HeadError              the head of the request is too long
├── MethodNotAllowedError  the path has no such method
├── BodyError              the body is too large
├── SlowBodyError          the body did not arrive in time
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


class QueryError(NodeError):
    status: ClassVar[int] = 400
    remedy_text = "Correct the query; GET /v1/openapi.json says what each of its parts may be."


class MalformedError(NodeError):
    status: ClassVar[int] = 400
    remedy_text = "Send HTTP/1.1 with a path of printable ASCII characters."


class HeadError(NodeError):
    status: ClassVar[int] = 431
    remedy_text = "Send fewer and shorter headers, and a shorter query."


class MethodNotAllowedError(NodeError):
    status: ClassVar[int] = 405
    remedy_text = "Use one of the methods in the answer's `allow` header; GET /v1/openapi.json lists them all."


class BodyError(NodeError):
    status: ClassVar[int] = 413
    remedy_text = "Send at most 8 MiB in one request, 2 MiB in a block; larger data travel as several blocks."


class SlowBodyError(NodeError):
    status: ClassVar[int] = 408
    remedy_text = "Send the body without long pauses, in smaller parts where the line is slow."


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
