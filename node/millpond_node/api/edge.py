"""From a raw HTTP request to an identified one, and from any error to its answer."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.errors import ChainError, ConfigError, InputError, MillpondError, StorageError
from millpond.protocol.ids import Address, Bytes32, bytes32
from millpond.storage.errors import BlockNotFoundError, BlockTooLargeError, StoreFullError
from millpond_node.agent import Agent
from millpond_node.core import log
from millpond_node.errors import BodyError, HeadError, NotFoundError, QueryError, SlowBodyError, StoppingError

MAX_BODY_BYTES = 8 << 20
MAX_BLOCK_BODY_BYTES = 2 << 20
RETRY_AFTER_S = 5
MAX_PATH = 2048
MAX_DIGITS = 12
FAILED_REMEDY = "Try again, and report it."
JSON = "application/json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """An identified request."""

    caller: Address
    request: Request
    body: bytes

    def id(self, name: str) -> Bytes32:
        """A path parameter of 32 bytes; `NotFoundError` when it is none."""
        try:
            return bytes32(self.request.path_params[name])
        except InputError:
            raise NotFoundError("there is no such thing") from None

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A query parameter; raises `InputError`."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS or not least <= int(text) <= most:
            raise QueryError(f"{name} must be a whole number from {least} to {most}", name=name)
        return int(text)


Handler = Callable[[Agent, Call], Awaitable[Response]]
OpenHandler = Callable[[Agent, Request], Awaitable[Response]]


def signed(agent: Agent, handler: Handler, limit: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose caller is identified before anything else happens."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(agent, await identify(agent, request, limit))
        except Exception as error:  # noqa: BLE001 - every error becomes a typed answer
            return answer_error(agent, error)

    return endpoint


def open_to_all(agent: Agent, handler: OpenHandler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            admit(agent, request)
            return await handler(agent, request)
        except Exception as error:  # noqa: BLE001 - every error becomes a typed answer
            return answer_error(agent, error)

    return endpoint


async def identify(agent: Agent, request: Request, limit: int = MAX_BODY_BYTES) -> Call:
    """Limits, body, envelope, nonce: in the order of their cost."""
    if agent.is_stopping:
        raise StoppingError("the node is shutting down")
    admit(agent, request)
    path = target(request.scope)
    body = await _read_body(request, limit, agent.core.config.limits.body_seconds)
    caller = agent.gate.identify(request.headers, request.method, path, body)
    return Call(caller, request, body)


def admit(agent: Agent, request: Request) -> None:
    """The rate of the caller's address and of all; raises `RateLimitError`."""
    agent.gate.admit(request.client.host if request.client is not None else "local")


def target(scope: Any) -> str:
    """Path and query as they were sent."""
    raw = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    sent: bytes = raw.split(b"?")[0] + (b"?" + query if query else b"")
    text = sent.decode("latin-1")
    if len(text) > MAX_PATH:
        raise HeadError(f"a path of {len(text)} characters, at most {MAX_PATH} are read")
    return text


def reply(message: object, kind: Any = None, status: int = 200) -> Response:
    return Response(wire.write(message, kind), status, media_type=JSON)


def reply_json(data: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(data, separators=(",", ":")).encode(), status, media_type=JSON)


def answer_error(agent: Agent, error: Exception) -> Response:
    """A typed answer for any error; what is not expected is logged without the request's content."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # nobody is there to read it
    if not isinstance(error, MillpondError):
        agent.core.counters["errors"] += 1
        log.error("unexpected %s", type(error).__name__, exc_info=error)
        error = MillpondError("the node failed; nothing of this request was promised", remedy=FAILED_REMEDY)
        return _error(error, 500)
    return _error(error, status_of(error))


def status_of(error: MillpondError) -> int:
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status
    match error:
        case BlockNotFoundError():
            return 404
        case BlockTooLargeError():
            return 413
        case StoreFullError():
            return 507
        case wire.MessageTooLargeError():
            return 413
        case StorageError() if error.code in ("BlockTamperedError", "CidError"):
            return 400
        case StorageError() | ChainError():
            return 503
        case ConfigError():
            return 500
        case _ if error.code in ("EnvelopeError", "SignatureError"):
            return 401
        case _:
            return 400


def _error(error: MillpondError, status: int) -> Response:
    headers = {}
    if status in (429, 503) or "retry_after_s" in error.fields:
        headers["retry-after"] = str(max(1, math.ceil(error.fields.get("retry_after_s", RETRY_AFTER_S))))
    if "allow" in error.fields:
        headers["allow"] = str(error.fields["allow"])
    body = json.dumps(error.as_dict(), separators=(",", ":"), default=str).encode()
    return Response(body, status, headers, media_type=JSON)


async def _read_body(request: Request, limit: int, seconds: float) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise BodyError(f"a body of {declared} bytes, at most {limit} are read", limit=limit)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise BodyError(f"a body of more than {limit} bytes", limit=limit)
                chunks.append(chunk)
    except TimeoutError:
        raise SlowBodyError(f"the body did not arrive within {seconds:g} s") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
