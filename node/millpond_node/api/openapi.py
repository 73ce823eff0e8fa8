"""The OpenAPI 3.1 document, made from the very adapters that read and write the messages."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.envelope import HEADER_AUDIENCE, HEADER_EXPIRY, HEADER_NONCE, HEADER_SIGNATURE
from millpond_node.agent import Agent
from millpond_node.api.examples import METRICS, NOW, PARAMETERS, SIGNATURE, account, examples
from millpond_node.api.operations import JSON, OPERATIONS, Operation, Query
from millpond_node.api.problems import PROBLEMS, Problem, by_status
from millpond_node.api.routes import RAW
from millpond_node.api.streams import NDJSON
from millpond_node.version import own_version

PREFIX = "#/components/schemas/"
ID_PATTERN = "^0x[0-9a-f]{64}$"
_ABOUT = (
    "Every signed request carries an EIP-712 Envelope in four headers; who signed it is who calls, and nothing else is. "
    "A nonce is used once, an expiry lies at most 120 s ahead. 202 means durable. A write sent again has no second effect, and is "
    "answered like the first with the present state; `x-identity` says what makes it the same. Workers connect to the WebSocket "
    "`/v1/worker`. Every error has the schema `Error`; `error` is its stable code."
)
_PATH: dict[str, dict[str, Any]] = {
    "attempt": {"type": "string", "pattern": "^[0-9]{1,9}$"},
    "cid": {"type": "string", "minLength": 46, "maxLength": 64, "pattern": "^[0-9A-Za-z]+$"},
}
_WHEN_LIMITED = {"retry-after": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
_BLOCK_HEADERS = {
    "etag": {"description": "The CID, quoted.", "schema": {"type": "string"}},
    "cache-control": {"description": "A block never changes.", "schema": {"type": "string"}},
}


async def document_route(agent: Agent, request: Request) -> Response:
    return Response(_document(), media_type=JSON)


@cache
def _document() -> bytes:
    return json.dumps(document(), separators=(",", ":")).encode()


def document() -> dict[str, Any]:
    """The whole document."""
    refs, schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for item in OPERATIONS:
        paths.setdefault(item.path, {})[item.method] = _operation(item, refs)
    schemas["Error"] = _error_schema()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Millpond node", "version": own_version(), "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": schemas, "parameters": _headers()},
    }


def _schemas() -> tuple[dict[Any, Any], dict[str, Any]]:
    """What is read is described as it is read, what is written as it is written."""
    read = {item.body for item in OPERATIONS} - {None, bytes}
    written = {item.answer for item in OPERATIONS} - {None}
    wanted: list[Any] = [(kind, "validation", wire.adapter(kind)) for kind in sorted(read, key=_name)]
    wanted += [(kind, "serialization", wire.adapter(kind)) for kind in sorted(written, key=_name)]
    refs, shared = TypeAdapter.json_schemas(wanted, ref_template=PREFIX + "{model}")
    return dict(refs), {name: _exact(schema) for name, schema in shared.get("$defs", {}).items()}


def _exact(schema: Any) -> Any:
    """What the schemas of pydantic leave out: ids have a form, and bytes are plain base64."""
    if isinstance(schema, list):
        return [_exact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _exact(value) for key, value in schema.items()}
    if found.get("type") == "string" and found.get("maxLength") == 66:
        found |= {"pattern": "^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$"}
    if found.get("format") == "base64url":
        del found["format"]
        found["contentEncoding"] = "base64"
    return found


def _name(kind: Any) -> str:
    return str(kind.__name__)


def _operation(item: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", item.path)]
    parameters += [_query_parameter(query) for query in item.query]
    if item.is_signed:
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in _headers()]
    described: dict[str, Any] = {
        "operationId": _operation_id(item),
        "summary": item.summary,
        "parameters": parameters,
        "responses": {str(item.status): _answer(item, refs)},
    }
    for status, problems in by_status(item.codes).items():
        described["responses"][str(status)] = _failure(item, status, problems)
    if item.body is not None:
        described["requestBody"] = {"required": True, "content": _body(item, refs)}
    if item.identity:
        described["x-identity"] = item.identity
    return described


def _operation_id(item: Operation) -> str:
    words = re.findall(r"\w+", item.path.replace("/v1", "").replace("{", "by_"))
    return "_".join([item.method, *words])


def _path_parameter(name: str) -> dict[str, Any]:
    schema = _PATH.get(name, {"type": "string", "pattern": ID_PATTERN})
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": PARAMETERS[name]}


def _query_parameter(query: Query) -> dict[str, Any]:
    is_number = query.most > 0
    schema = (
        {"type": "integer", "minimum": 0, "maximum": query.most}
        if is_number
        else {"type": "string", "pattern": ID_PATTERN}
    )
    said = {"name": query.name, "in": "query", "required": query.is_required, "description": query.text}
    return {**said, "schema": schema, "example": PARAMETERS[query.name]}


def _body(item: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    if item.body is bytes:
        return {RAW: {"schema": {"type": "string", "format": "binary", "maxLength": 2 << 20}}}
    return {JSON: {"schema": refs[item.body, "validation"], "example": examples()[item.body]}}


def _answer(item: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": item.summary}
    if item.method != "head":
        answer["content"] = {item.media: _content(item, refs)}
    if item.media == RAW:
        answer["headers"] = _BLOCK_HEADERS
    return answer


def _content(item: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    if item.media == RAW:
        return {"schema": {"type": "string", "format": "binary"}}
    if item.answer is None:
        return (
            {"schema": {"type": "object"}} if item.media == JSON else {"schema": {"type": "string"}, "example": METRICS}
        )
    schema, example = refs[item.answer, "serialization"], examples()[item.answer]
    if item.media == NDJSON:
        text = "One JSON document in each line; an empty line only keeps the connection alive."
        line = {"type": "string", "description": text, "contentMediaType": JSON, "contentSchema": schema}
        return {"schema": line, "example": json.dumps(example) + "\n"}
    if item.is_list:
        return {"schema": {"type": "array", "items": schema}, "example": [example]}
    return {"schema": schema, "example": example}


def _failure(item: Operation, status: int, problems: list[Problem]) -> dict[str, Any]:
    text = " ".join(f"`{problem.code}`: {problem.meaning}" for problem in problems)
    failure: dict[str, Any] = {"description": text}
    if item.method != "head":
        codes = [problem.code for problem in problems]
        schema = {"allOf": [{"$ref": PREFIX + "Error"}, {"properties": {"error": {"enum": codes}}}]}
        example = {"error": codes[0], "message": problems[0].meaning, "remedy": "What to do about it.", "fields": {}}
        failure["content"] = {JSON: {"schema": schema, "example": example}}
    if status in (429, 503):
        failure["headers"] = _WHEN_LIMITED
    return failure


def _headers() -> dict[str, dict[str, Any]]:
    """Text, its pattern and an example of each header of the envelope."""
    said = {
        HEADER_AUDIENCE: ("Address of the node's key.", "^0x[0-9a-fA-F]{40}$", account("node")),
        HEADER_NONCE: ("Decimal number of up to 256 random bits, used once.", "^[0-9]{1,78}$", "42"),
        HEADER_EXPIRY: ("Unix seconds, at most 120 ahead.", "^[0-9]{1,12}$", str(NOW + 60)),
        HEADER_SIGNATURE: (
            "0x and 65 bytes: EIP-712 signature of the Envelope for the pool's Controller.",
            "^0x[0-9a-f]{130}$",
            "0x" + SIGNATURE.hex(),
        ),
    }
    return {
        name: {
            "name": name, "in": "header", "required": True, "description": text,
            "schema": {"type": "string", "pattern": pattern}, "example": example,
        }
        for name, (text, pattern, example) in said.items()
    }  # fmt: skip


def _error_schema() -> dict[str, Any]:
    code = {"type": "string", "enum": [item.code for item in PROBLEMS], "description": "The stable code."}
    properties = {
        "error": code,
        "message": {"type": "string", "description": "What is wrong, and why."},
        "remedy": {"type": "string", "description": "What to do."},
        "fields": {"type": "object", "description": "Values a program may want."},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
