"""The node's REST API as a renter sees it: signed requests, typed answers, typed errors."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from millpond._connections import Connections
from millpond.errors import NodeRefusedError, NodeUnreachableError
from millpond.protocol import wire
from millpond.protocol.envelope import seal
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.ladders import Ladder
from millpond.protocol.link import Log
from millpond.protocol.messages import SignedRequest, Submit, TaskResult, VoucherNote
from millpond.protocol.signing import Domain, address_of
from millpond.protocol.usage import UsageView
from millpond.protocol.views import (
    JobView,
    LeaseView,
    OfferView,
    PoolView,
    ReceiptBundle,
    RequestView,
    TaskView,
    Why,
)

TIMEOUT_S = 15.0
STREAM_IDLE_S = 30.0
LONG_POLL_S = 20
MAX_LINE_BYTES = 8 << 20
MAX_ANSWER_BYTES = 64 << 20
RETRIES = 4
RETRY_PAUSE_S = 0.3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who signs, for which pool and node."""

    key: bytes
    domain: Domain
    audience: Address

    @property
    def address(self) -> Address:
        return address_of(self.key)

    def __repr__(self) -> str:
        return f"Identity({self.address})"


class NodeApi:
    """One node. Reads and idempotent writes are tried again a few times when the node cannot be reached.

    Raises `NodeUnreachableError` when there is no answer and `NodeRefusedError` (with the node's own code in `fields`) on a refusal.
    """

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self._identity: Identity | None = None
        self._transport = transport or Connections(self.url)

    async def aclose(self) -> None:
        await self._transport.aclose()

    def sign_as(self, identity: Identity) -> None:
        self._identity = identity

    async def pool(self) -> PoolView:
        return await self._get(PoolView, "/v1/pool")

    async def health(self) -> dict[str, Any]:
        return await self._get(dict[str, Any], "/v1/health")

    async def offers(self) -> list[OfferView]:
        return await self._get(list[OfferView], "/v1/offers")

    async def post_request(self, request: SignedRequest) -> RequestView:
        return await self._post(RequestView, "/v1/requests", wire.write(request))

    async def request(self, request: Bytes32, wait_s: int = 0) -> RequestView:
        return await self._get(RequestView, f"/v1/requests/{request}{_wait(wait_s)}")

    async def why(self, request: Bytes32) -> Why:
        return await self._get(Why, f"/v1/why/{request}")

    async def leases(self) -> list[LeaseView]:
        return await self._get(list[LeaseView], "/v1/leases")

    async def lease(self, lease: Bytes32, wait_s: int = 0) -> LeaseView:
        return await self._get(LeaseView, f"/v1/leases/{lease}{_wait(wait_s)}")

    async def usage(self, lease: Bytes32) -> UsageView:
        return await self._get(UsageView, f"/v1/leases/{lease}/usage")

    async def task(self, job: Bytes32, task: Bytes32) -> TaskView:
        return await self._get(TaskView, f"/v1/jobs/{job}/tasks/{task}")

    async def post_voucher(self, voucher: VoucherNote) -> None:
        await self._post(dict[str, Any], f"/v1/leases/{voucher.lease}/vouchers", wire.write(voucher))

    async def post_ladder(self, ladder: Ladder) -> None:
        await self._post(dict[str, Any], f"/v1/leases/{ladder.lease}/ladder", wire.write(ladder))

    async def submit(self, submit: Submit) -> dict[str, Any]:
        return await self._post(dict[str, Any], f"/v1/jobs/{submit.job}/tasks", wire.write(submit))

    async def job(self, job: Bytes32) -> JobView:
        return await self._get(JobView, f"/v1/jobs/{job}")

    async def cancel(self, job: Bytes32, tasks: list[Bytes32]) -> JobView:
        return await self._post(JobView, f"/v1/jobs/{job}/cancel", json.dumps({"tasks": tasks}).encode())

    async def receipt(self, task: Bytes32, attempt: int) -> ReceiptBundle:
        return await self._get(ReceiptBundle, f"/v1/receipts/{task}/{attempt}")

    async def results(
        self, job: Bytes32, after: int, *, follow: bool = True, linger_s: int = 0
    ) -> AsyncGenerator[TaskResult, None]:
        """Results beyond cursor `after`; with `follow` as they come, until all tasks have ended and `linger_s` seconds passed since."""
        query = f"after={after}&follow={int(follow)}" + (f"&linger={linger_s}" if linger_s else "")
        async for line in self._lines(f"/v1/jobs/{job}/results?{query}"):
            yield wire.read(TaskResult, line, limit=MAX_ANSWER_BYTES)

    async def logs(self, job: Bytes32, task: Bytes32 | None, after: int, *, follow: bool) -> AsyncGenerator[Log, None]:
        query = f"after={after}&follow={int(follow)}" + (f"&task={task}" if task else "")
        async for line in self._lines(f"/v1/jobs/{job}/logs?{query}"):
            yield wire.read(Log, line)

    async def put_block(self, cid: str, block: bytes) -> None:
        await self._send("PUT", f"/v1/blocks/{cid}", block)

    async def has_block(self, cid: str) -> bool:
        try:
            await self._send("HEAD", f"/v1/blocks/{cid}", b"")
        except NodeRefusedError as error:
            if error.fields.get("status") == 404:
                return False
            raise
        return True

    async def get_block(self, cid: str) -> bytes:
        return await self._send("GET", f"/v1/blocks/{cid}", b"")

    async def _get(self, kind: type[T], path: str) -> T:
        return wire.read(kind, await self._send("GET", path, b""), limit=MAX_ANSWER_BYTES)

    async def _post(self, kind: type[T], path: str, body: bytes) -> T:
        return wire.read(kind, await self._send("POST", path, body), limit=MAX_ANSWER_BYTES)

    def _headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        headers = {"content-type": "application/json" if method == "POST" else "application/octet-stream"}
        if self._identity is None:
            return headers
        me, nonce = self._identity, secrets.randbits(256)
        return headers | seal(me.key, me.domain, me.audience, method, path, body, nonce, int(time.time()))

    async def _send(self, method: str, path: str, body: bytes) -> bytes:
        """The answer's body. Every request here may be repeated: reads change nothing, and writes are idempotent by their content's id."""
        for attempt in range(RETRIES):
            try:
                async with self._exchange(method, path, body, TIMEOUT_S) as response:
                    answer = await self._whole(response)
            except httpx.TransportError as error:
                if attempt == RETRIES - 1:
                    raise self._silent(error) from error
            else:
                if response.status_code == 429 and attempt < RETRIES - 1:
                    await asyncio.sleep(_retry_after(response))
                    continue
                return _checked(response, answer)
            await asyncio.sleep(RETRY_PAUSE_S * 2**attempt)
        raise NodeUnreachableError(f"the node {self.url} does not answer")

    @asynccontextmanager
    async def _exchange(self, method: str, path: str, body: bytes, read_s: float) -> AsyncIterator[httpx.Response]:
        """An answer whose body is still to be read."""
        timeouts = {"connect": TIMEOUT_S, "read": read_s, "write": TIMEOUT_S, "pool": TIMEOUT_S}
        headers = self._headers(method, path, body)
        request = httpx.Request(
            method, self.url + path, headers=headers, content=body, extensions={"timeout": timeouts}
        )
        response = await self._transport.handle_async_request(request)
        response.request = request
        try:
            yield response
        finally:
            await response.aclose()

    async def _whole(self, response: httpx.Response) -> bytes:
        pieces, size = [], 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise NodeUnreachableError(f"the node {self.url} answers with more than {MAX_ANSWER_BYTES} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def _lines(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._stream(path) as response:
            if response.status_code >= 400:
                _checked(response, await self._whole(response))
            try:
                rest = b""
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield line
                    if len(rest) > MAX_LINE_BYTES:
                        raise NodeUnreachableError(
                            f"the stream from {self.url} has a line of more than {MAX_LINE_BYTES} bytes"
                        )
            except httpx.TransportError as error:
                raise NodeUnreachableError(f"the stream from {self.url} broke ({type(error).__name__})") from error

    @asynccontextmanager
    async def _stream(self, path: str) -> AsyncIterator[httpx.Response]:
        try:
            async with self._exchange("GET", path, b"", STREAM_IDLE_S) as response:
                yield response
        except httpx.TransportError as error:
            raise self._silent(error) from error

    def _silent(self, error: httpx.TransportError) -> NodeUnreachableError:
        return NodeUnreachableError(f"the node {self.url} does not answer ({type(error).__name__})")


def _wait(seconds: int) -> str:
    return f"?wait={min(seconds, LONG_POLL_S)}" if seconds > 0 else ""


def _retry_after(response: httpx.Response) -> float:
    try:
        return min(5.0, float(response.headers.get("retry-after", "1")))
    except ValueError:
        return 1.0


def _checked(response: httpx.Response, answer: bytes) -> bytes:
    if response.status_code < 400:
        return answer
    try:
        body = json.loads(answer)
        code, message, remedy = str(body["error"]), str(body["message"]), str(body.get("remedy", ""))
        fields = dict(body.get("fields") or {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code, message, remedy, fields = "HTTP", f"HTTP {response.status_code} from {response.url.path}", "", {}
    fields.update(status=response.status_code, code=code)
    raise NodeRefusedError(f"{code}: {message}", remedy=remedy or None, **fields)
