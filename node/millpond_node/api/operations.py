"""The table of what REST offers: one row per method and path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.protocol.ladders import Ladder
from millpond.protocol.link import Log
from millpond.protocol.messages import SignedRequest, Submit, TaskResult, VoucherNote
from millpond.protocol.usage import UsageView
from millpond.protocol.views import (
    BlockView,
    HealthView,
    JobView,
    LeaseView,
    OfferView,
    PoolView,
    ReceiptBundle,
    RequestView,
    SubmitView,
    TaskView,
    VoucherKeptView,
    Why,
)
from millpond_node.api.ladder import LadderKept
from millpond_node.api.problems import AT_ANY_TIME, WHEN_SIGNED, WITH_MESSAGE
from millpond_node.api.routes import MAX_WAIT_S, RAW, CancelBody
from millpond_node.api.streams import MAX_CURSOR, MAX_LINGER_S, NDJSON

JSON = "application/json"
TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class Query:
    """A part of the query: a whole number up to `most`, or an id of 32 bytes where `most` is 0."""

    name: str
    text: str
    most: int = 0
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """`media` is of the answer, `is_list` an array of `answer`. `identity` says what makes a write the same one again. `errors`: codes beside the usual ones."""

    method: str
    path: str
    summary: str
    answer: Any = None
    body: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()
    media: str = JSON
    identity: str = ""
    errors: tuple[str, ...] = ()
    is_list: bool = False
    is_signed: bool = True

    @property
    def codes(self) -> tuple[str, ...]:
        """All errors it may answer with."""
        signed = WHEN_SIGNED if self.is_signed else ()
        message = WITH_MESSAGE if self.body not in (None, bytes) else ()
        query = ("QueryError",) if self.query else ()
        return (*AT_ANY_TIME, *signed, *message, *query, *self.errors)


WAIT = Query("wait", "Seconds to wait for a change, if there is none yet.", MAX_WAIT_S)
AFTER = Query("after", "The cursor of the last line the caller has.", MAX_CURSOR)
FOLLOW = Query("follow", "1: stay connected for what comes later.", 1)
LINGER = Query(
    "linger", "Seconds to stay connected after the last result, for a caller that submits more.", MAX_LINGER_S
)
TASK = Query("task", "The task's id.", is_required=True)
LOST = ("NotFoundError",)

OPERATIONS: tuple[Operation, ...] = (
    Operation("get", "/v1/health", "Whether the node works, and how busy it is.", HealthView, is_signed=False),
    Operation("get", "/v1/pool", "The pool's contracts, token and rules.", PoolView, is_signed=False),
    Operation("get", "/v1/openapi.json", "This document.", is_signed=False),
    Operation("get", "/metrics", "Figures in Prometheus' text form.", media=TEXT, is_signed=False),
    Operation("get", "/v1/offers", "Offers of the connected workers, with price, room, and score and proof where they are known.", OfferView, is_list=True),
    Operation("post", "/v1/requests", "Queues a signed request.", RequestView, SignedRequest, 202,
              identity="The request's EIP-712 hash. The same one again is not queued twice; the answer shows its present state.",
              errors=("NotAPartyError", "RequestRefusedError", "BacklogError", "InputError")),
    Operation("get", "/v1/requests/{hash}", "A request's state, its deadline and what comes next; with wait, once it changes.", RequestView, query=(WAIT,), errors=LOST),
    Operation("get", "/v1/why/{hash}", "Why a request waits: what each filter removed, the nearest change that helps, and how long it may take.", Why, errors=LOST),
    Operation("get", "/v1/leases", "The caller's leases.", LeaseView, is_list=True),
    Operation("get", "/v1/leases/{lease}", "A lease, its deadline and what comes next; with wait, once its state changes.", LeaseView, query=(WAIT,), errors=LOST),
    Operation("get", "/v1/leases/{lease}/usage", "What the lease uses of its machine, now and in the last hour.", UsageView, errors=LOST),
    Operation("post", "/v1/leases/{lease}/vouchers", "Keeps a voucher and forwards it to the worker.", VoucherKeptView, VoucherNote,
              identity="Lease and cumulative amount. The highest amount is kept; the same or a lower one changes nothing.",
              errors=(*LOST, "RequestRefusedError", "InputError")),
    Operation("post", "/v1/leases/{lease}/ladder", "Keeps vouchers signed in advance, and releases one per healthy tick.", LadderKept, Ladder,
              identity="The body. The same ladder again changes nothing; another one takes its place.",
              errors=(*LOST, "RequestRefusedError", "LadderError", "InputError")),
    Operation("post", "/v1/jobs/{job}/tasks", "Queues tasks on leases.", SubmitView, Submit, 202,
              identity="The ids of the tasks. A known id changes nothing, whatever else the body says of it; `known` counts them.",
              errors=(*LOST, "RequestRefusedError", "BacklogError", "InputError")),
    Operation("get", "/v1/jobs/{job}", "Counts of a job's tasks.", JobView, errors=LOST),
    Operation("get", "/v1/jobs/{job}/tasks/{task}", "Where a task is, its deadline and what comes next.", TaskView, errors=LOST),
    Operation("get", "/v1/jobs/{job}/results", "Results beyond a cursor; with follow, until all have ended.", TaskResult,
              query=(AFTER, FOLLOW, LINGER), media=NDJSON, errors=(*LOST, "BacklogError")),
    Operation("post", "/v1/jobs/{job}/cancel", "Cancels tasks, or all of the job.", JobView, CancelBody,
              identity="The ids of the tasks. What has ended or is being cancelled stays as it is.", errors=LOST),
    Operation("get", "/v1/jobs/{job}/logs", "What a task wrote.", Log, query=(TASK, AFTER, FOLLOW), media=NDJSON, errors=(*LOST, "BacklogError")),
    Operation("get", "/v1/receipts/{task}/{attempt}", "A receipt with its proof, once its batch is on chain.", ReceiptBundle, errors=(*LOST, "ReceiptPendingError")),
    Operation("get", "/v1/blocks/{cid}", "A block's bytes.", media=RAW, errors=("CidError", "BlockNotFoundError")),
    Operation("head", "/v1/blocks/{cid}", "Whether a block is here.", media=RAW, errors=("CidError", "BlockNotFoundError")),
    Operation("put", "/v1/blocks/{cid}", "Stores a block of at most 2 MiB.", BlockView, bytes, 201, identity="The CID.",
              errors=("CidError", "BlockTamperedError", "BlockTooLargeError", "NotAPartyError", "QuotaError", "StoreFullError")),
)  # fmt: skip
