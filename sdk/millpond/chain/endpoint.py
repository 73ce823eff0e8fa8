"""A thin JSON-RPC client of one server: one HTTP request per call or batch, bounded in time and size, with typed errors."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import Sequence
from typing import Any

import httpx

from millpond.chain.errors import RpcResponseError, RpcUnreachableError, WrongChainError

MAX_BATCH = 100

RpcCall = tuple[str, Sequence[Any]]


class Endpoint:
    """One server. `chain_id` given: the first call asks the server for its chain and refuses another one.

    Raises `RpcUnreachableError` when there is no answer in time (down, slow, busy), `RpcResponseError` when the answer is an error
    or no JSON-RPC, `WrongChainError` when the server serves another chain.
    """

    def __init__(self, url: str, timeout_s: float, *, chain_id: int | None, max_response_bytes: int) -> None:
        self.url = url
        self.expected_chain_id = chain_id
        self._max_bytes = max_response_bytes
        self._chain_id: int | None = None
        self._next_id = 0
        self._http = httpx.AsyncClient(
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=not _is_loopback(url),
            verify=not url.startswith("http://"),  # without TLS, loading the certificates would only cost time
        )
        self._timeout_s = timeout_s

    async def connect(self) -> int:
        """The server's chain id, asked once; raises `WrongChainError` when another was expected."""
        if self._chain_id is None:
            [answer] = await self._exchange([("eth_chainId", ())])
            if isinstance(answer, RpcResponseError):
                raise answer
            actual = quantity(answer, "eth_chainId")
            if self.expected_chain_id is not None and actual != self.expected_chain_id:
                raise WrongChainError(self.expected_chain_id, actual, self.url)
            self._chain_id = actual
        return self._chain_id

    async def settle(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Results in the order of `calls`, a call's error in its place, in requests of at most 100 calls."""
        await self.connect()
        results: list[Any] = []
        for start in range(0, len(calls), MAX_BATCH):
            results += await self._exchange(calls[start : start + MAX_BATCH])
        return results

    async def close(self) -> None:
        await self._http.aclose()

    async def _exchange(self, calls: Sequence[RpcCall]) -> list[Any]:
        first = self._next_id
        self._next_id += len(calls)
        messages = [
            {"jsonrpc": "2.0", "id": first + i, "method": method, "params": list(params)}
            for i, (method, params) in enumerate(calls)
        ]
        answer = await self._post(messages[0] if len(messages) == 1 else messages, calls[0][0])
        answers = answer if isinstance(answer, list) else [answer]
        if len(calls) > 1 and isinstance(answer, dict) and "error" in answer:
            raise _error(answer, calls[0][0])
        by_id = {item["id"]: item for item in answers if isinstance(item, dict) and isinstance(item.get("id"), int)}
        return [_settled(by_id.get(first + i), method) for i, (method, _) in enumerate(calls)]

    async def _post(self, body: Any, method: str) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                raw, status = await self._read(json.dumps(body).encode(), method)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, TimeoutError) as error:
            self._chain_id = None  # another server may answer next: it is asked for its chain again
            what = (
                "did not answer in time"
                if isinstance(error, httpx.TimeoutException | TimeoutError)
                else "cannot be reached"
            )
            raise RpcUnreachableError(
                f"the RPC {self.url} {what} ({type(error).__name__}: {error})", url=self.url, method=method
            ) from error
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            if status != 200:
                raise RpcUnreachableError(
                    f"the RPC {self.url} answered HTTP {status}", url=self.url, method=method, status=status
                ) from error
            raise RpcResponseError(
                f"the RPC {self.url} answered {method} with something that is no JSON", url=self.url, method=method
            ) from error

    async def _read(self, body: bytes, method: str) -> tuple[bytes, int]:
        headers = {"content-type": "application/json"}
        async with self._http.stream("POST", self.url, content=body, headers=headers) as response:
            if response.status_code == 429 or response.status_code >= 500:
                self._chain_id = None
                raise RpcUnreachableError(
                    f"the RPC {self.url} is busy or broken: HTTP {response.status_code}",
                    url=self.url,
                    method=method,
                    status=response.status_code,
                )
            chunks, size = [], 0
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > self._max_bytes:
                    raise RpcResponseError(
                        f"the RPC answered {method} with more than {self._max_bytes} bytes",
                        method=method,
                        bound=self._max_bytes,
                    )
                chunks.append(chunk)
            return b"".join(chunks), response.status_code


def quantity(value: Any, method: str) -> int:
    """The integer of a JSON-RPC quantity; raises `RpcResponseError`."""
    if isinstance(value, str) and value.startswith("0x"):
        with contextlib.suppress(ValueError):
            return int(value, 16)
    raise RpcResponseError(f"the RPC answered {method} with {str(value)[:80]!r}, no number", method=method)


def hex_bytes(value: Any, method: str) -> bytes:
    """The bytes of a JSON-RPC data string; raises `RpcResponseError`."""
    try:
        return bytes.fromhex(value.removeprefix("0x"))
    except (AttributeError, ValueError):
        raise RpcResponseError(f"the RPC answered {method} with {str(value)[:80]!r}, no bytes", method=method) from None


def _settled(answer: Any, method: str) -> Any:
    if isinstance(answer, dict) and answer.get("error") is not None:
        return _error(answer, method)
    if not isinstance(answer, dict) or "result" not in answer:
        return RpcResponseError(f"the RPC's answer to {method} is no JSON-RPC answer", method=method)
    return answer["result"]


def _error(answer: dict[str, Any], method: str) -> RpcResponseError:
    detail = answer["error"] if isinstance(answer["error"], dict) else {"message": str(answer["error"])[:200]}
    message = str(detail.get("message", "no message"))[:500]
    return RpcResponseError(f"{method}: {message}", method=method, code=detail.get("code"), data=detail.get("data"))


def _is_loopback(url: str) -> bool:
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL:
        return False
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
