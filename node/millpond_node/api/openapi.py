"""The OpenAPI 3.1 document, made from the very adapters that read and write the messages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.envelope import HEADER_AUDIENCE, HEADER_EXPIRY, HEADER_NONCE, HEADER_SIGNATURE
from millpond.protocol.ladders import Ladder
from millpond.protocol.link import Log
from millpond.protocol.messages import SignedRequest, Submit, TaskResult, VoucherNote
from millpond.protocol.views import JobView, LeaseView, OfferView, PoolView, ReceiptBundle, RequestView, Why
from millpond_node.agent import Agent
from millpond_node.api.routes import CancelBody
from millpond_node.version import own_version

RAW = "application/vnd.ipld.raw"
NDJSON = "application/x-ndjson"
JSON = "application/json"
PREFIX = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the reference. `media` is of the answer; `is_list`: an array of `answer`."""

    method: str
    path: str
    summary: str
    answer: Any = None
    body: Any = None
    status: int = 200
    query: tuple[str, ...] = ()
    media: str = JSON
    is_list: bool = False
    is_signed: bool = True


OPERATIONS: tuple[Operation, ...] = (
    Operation("get", "/v1/health", "Whether the node works, and how busy it is.", is_signed=False),
    Operation("get", "/v1/pool", "The pool's contracts, token and rules.", PoolView, is_signed=False),
    Operation("get", "/v1/openapi.json", "This document.", is_signed=False),
    Operation("get", "/metrics", "Figures in Prometheus' text form.", media="text/plain", is_signed=False),
    Operation("get", "/v1/offers", "Offers of the connected workers.", OfferView, is_list=True),
    Operation("post", "/v1/requests", "Queues a signed request; the same one again changes nothing.", RequestView, SignedRequest, 202),
    Operation("get", "/v1/requests/{hash}", "A request's state; with wait, once it changes.", RequestView, query=("wait",)),
    Operation("get", "/v1/why/{hash}", "Why a request waits: what each filter removed, and what would help.", Why),
    Operation("get", "/v1/leases", "The caller's leases.", LeaseView, is_list=True),
    Operation("get", "/v1/leases/{lease}", "A lease; with wait, once its state changes.", LeaseView, query=("wait",)),
    Operation("post", "/v1/leases/{lease}/vouchers", "Keeps a voucher and forwards it to the worker.", None, VoucherNote),
    Operation("post", "/v1/leases/{lease}/ladder", "Keeps vouchers signed in advance, and releases one per healthy tick.", None, Ladder),
    Operation("post", "/v1/jobs/{job}/tasks", "Queues tasks on leases; known ids change nothing.", None, Submit, 202),
    Operation("get", "/v1/jobs/{job}", "Counts of a job's tasks.", JobView),
    Operation("get", "/v1/jobs/{job}/results", "Results beyond a cursor; with follow, until all have ended.", TaskResult,
              query=("after", "follow"), media=NDJSON),
    Operation("post", "/v1/jobs/{job}/cancel", "Cancels tasks, or all of the job.", JobView, CancelBody),
    Operation("get", "/v1/jobs/{job}/logs", "What a task wrote.", Log, query=("task", "after", "follow"), media=NDJSON),
    Operation("get", "/v1/receipts/{task}/{attempt}", "A receipt with its proof, once its batch is on chain.", ReceiptBundle),
    Operation("get", "/v1/blocks/{cid}", "A block's bytes.", media=RAW),
    Operation("head", "/v1/blocks/{cid}", "Whether a block is here.", media=RAW),
    Operation("put", "/v1/blocks/{cid}", "Stores a block of at most 2 MiB.", body=bytes, status=201),
)  # fmt: skip


async def document_route(agent: Agent, request: Request) -> Response:
    return Response(_document(), media_type=JSON)


@cache
def _document() -> bytes:
    return json.dumps(document(), separators=(",", ":")).encode()


def document() -> dict[str, Any]:
    """The whole document."""
    kinds = {item.answer for item in OPERATIONS} | {item.body for item in OPERATIONS}
    shown = sorted(kinds - {None, bytes}, key=lambda kind: kind.__name__)
    refs, shared = TypeAdapter.json_schemas(
        [(kind, "validation", wire.adapter(kind)) for kind in shown], ref_template=PREFIX + "{model}"
    )
    schemas = dict(shared.get("$defs", {}))
    named = {kind: refs[kind, "validation"] for kind in shown}
    paths: dict[str, dict[str, Any]] = {}
    for item in OPERATIONS:
        paths.setdefault(item.path, {})[item.method] = _operation(item, named)
    schemas["Error"] = _error_schema()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Millpond node", "version": own_version(), "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": schemas, "parameters": _headers()},
    }


_ABOUT = (
    "Every signed request carries an EIP-712 Envelope in four headers; who signed it is who calls, and nothing else is. "
    "A nonce is used once, an expiry lies at most 120 s ahead. 202 means durable."
)


def _operation(item: Operation, named: dict[Any, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", item.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in item.query
    ]
    if item.is_signed:
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in _headers()]
    described: dict[str, Any] = {
        "summary": item.summary,
        "parameters": parameters,
        "responses": _responses(item, named),
    }
    if item.body is not None:
        is_raw = item.body is bytes
        schema = {"type": "string", "format": "binary"} if is_raw else named[item.body]
        described["requestBody"] = {"required": True, "content": {RAW if is_raw else JSON: {"schema": schema}}}
    return described


def _responses(item: Operation, named: dict[Any, Any]) -> dict[str, Any]:
    schema = named.get(item.answer, {"type": "object"} if item.media == JSON else {"type": "string"})
    if item.is_list:
        schema = {"type": "array", "items": schema}
    failed = {"application/json": {"schema": {"$ref": PREFIX + "Error"}}}
    return {
        str(item.status): {"description": item.summary, "content": {item.media: {"schema": schema}}},
        "4XX": {"description": "What is wrong, and what to do.", "content": failed},
        "503": {"description": "Try again.", "content": failed},
    }


def _headers() -> dict[str, dict[str, Any]]:
    said = {
        HEADER_AUDIENCE: "Address of the node's key.",
        HEADER_NONCE: "Decimal number of up to 256 random bits, used once.",
        HEADER_EXPIRY: "Unix seconds, at most 120 ahead.",
        HEADER_SIGNATURE: "0x and 65 bytes: EIP-712 signature of the Envelope for the pool's Controller.",
    }
    return {
        name: {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}
        for name, text in said.items()
    }


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    properties = {"error": text, "message": text, "remedy": text, "fields": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": list(properties)}
