"""A loopback JSON-RPC server before a real one that misbehaves as told, or at random by a seed."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

WORD = "0x" + "66" * 32


@dataclass
class Faults:
    """What goes wrong. `error_rate` of requests answer 503; `drops_sends` takes transactions and forgets them; `head` is the newest
    block it tells of; `lies` changes hashes, receipts, logs and results; `hides` knows no receipt."""

    delay_s: float = 0.0
    error_rate: float = 0.0
    drops_sends: bool = False
    head: int | None = None
    lies: bool = False
    hides: bool = False
    chance: random.Random = field(default_factory=lambda: random.Random(1))


class RpcProxy:
    def __init__(self, target: str) -> None:
        self.target = target
        self.faults = Faults()
        self.calls: list[str] = []
        self.url = ""
        self._port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._http = httpx.AsyncClient(trust_env=False, timeout=10)

    async def start(self) -> Self:
        """Listens; after `die`, on the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    async def die(self) -> None:
        """Refuses connections from now on."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def close(self) -> None:
        await self.die()
        await self._http.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                body = json.loads(await reader.readexactly(int(lengths[0].split(b":")[1])))
                status, answer = await self._reply(body)
                raw = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _reply(self, body: Any) -> tuple[int, Any]:
        await asyncio.sleep(self.faults.delay_s)
        if self.faults.chance.random() < self.faults.error_rate:
            return 503, {}
        calls = body if isinstance(body, list) else [body]
        answers = [await self._answer(call) for call in calls]
        return 200, answers if isinstance(body, list) else answers[0]

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        method, params = call["method"], call["params"]
        self.calls.append(method)
        if method == "eth_sendRawTransaction" and self.faults.drops_sends:
            return {"jsonrpc": "2.0", "id": call["id"], "result": WORD}
        if self.faults.head is not None and method == "eth_blockNumber":
            return {"jsonrpc": "2.0", "id": call["id"], "result": hex(self.faults.head)}
        if self.faults.head is not None and method == "eth_getBlockByNumber":
            wanted = self.faults.head if params[0] == "latest" else int(params[0], 16)
            if wanted > self.faults.head:
                return {"jsonrpc": "2.0", "id": call["id"], "result": None}
            call = {**call, "params": [hex(wanted), *params[1:]]}
        answer: dict[str, Any] = (await self._http.post(self.target, json=call)).json()
        if "result" in answer:
            answer["result"] = self._changed(method, answer["result"])
        return answer

    def _changed(self, method: str, result: Any) -> Any:
        if method == "eth_getTransactionReceipt" and (self.faults.hides or self.faults.lies):
            return None
        if not self.faults.lies:
            return result
        match method:
            case "eth_getLogs":
                return []
            case "eth_call":
                return "0x" + "00" * 64
            case "eth_getTransactionCount":
                return hex(int(result, 16) + 1000)
            case "eth_estimateGas":
                return "0x0"
            case "eth_getBlockByNumber" if isinstance(result, dict) and int(result["number"], 16) > 0:
                return {**result, "hash": WORD}
        return result
