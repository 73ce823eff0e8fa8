"""The JSON-RPC client against servers that are down, slow, busy, lying or broken (O04)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from millpond.chain.devnet import free_port
from millpond.chain.errors import RpcResponseError, RpcUnreachableError, WrongChainError
from millpond.chain.rpc import Rpc

Reply = Callable[[Any], Awaitable[tuple[int, bytes]]]


class Server:
    """A loopback HTTP server whose answers a test chooses."""

    def __init__(self) -> None:
        self.reply: Reply = self.honest
        self.chain_id = 31337
        self.requests = 0
        self.url = ""

    async def honest(self, body: Any) -> tuple[int, bytes]:
        calls = body if isinstance(body, list) else [body]
        answers = [{"jsonrpc": "2.0", "id": call["id"], "result": self.result(call)} for call in calls]
        return 200, json.dumps(answers if isinstance(body, list) else answers[0]).encode()

    def result(self, call: Any) -> Any:
        return hex(self.chain_id) if call["method"] == "eth_chainId" else "0x10"

    async def after_chain_id(self, body: Any, answer: tuple[int, bytes]) -> tuple[int, bytes]:
        """Honest about the chain id, then `answer`."""
        is_first = not isinstance(body, list) and body["method"] == "eth_chainId"
        return await self.honest(body) if is_first else answer

    def answer(self, status: int, raw: bytes) -> None:
        async def reply(body: Any) -> tuple[int, bytes]:
            return await self.after_chain_id(body, (status, raw))

        self.reply = reply

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                self.requests += 1
                status, raw = await self.reply(json.loads(await reader.readexactly(length)))
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listener = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    yield made
    listener.close()


@pytest.fixture
async def rpc(server: Server) -> AsyncIterator[Rpc]:
    made = Rpc(server.url, 0.5, chain_id=31337, max_response_bytes=2000)
    yield made
    await made.close()


async def test_call_honest_server_returns_result(rpc: Rpc) -> None:
    assert await rpc.call("eth_blockNumber") == "0x10"


async def test_batch_of_250_calls_is_split_and_keeps_order(server: Server) -> None:
    server.result = lambda call: hex(31337) if call["method"] == "eth_chainId" else call["params"][0]  # type: ignore[method-assign]
    async with Rpc(server.url) as rpc:
        assert await rpc.batch([("echo", (i,)) for i in range(250)]) == list(range(250))
    assert server.requests == 4


async def test_O04_rpc_down_raises_unreachable() -> None:
    rpc = Rpc(f"http://127.0.0.1:{free_port()}", 0.5)
    with pytest.raises(RpcUnreachableError) as caught:
        await rpc.call("eth_blockNumber")
    assert caught.value.fields["method"] == "eth_chainId"
    assert caught.value.exit_code == 4
    await rpc.close()


async def test_O04_slow_rpc_raises_unreachable_in_time(server: Server, rpc: Rpc) -> None:
    async def reply(_: Any) -> tuple[int, bytes]:
        await asyncio.sleep(30)
        return 200, b"{}"

    server.reply = reply
    async with asyncio.timeout(3):
        with pytest.raises(RpcUnreachableError, match="in time"):
            await rpc.call("eth_blockNumber")


async def test_O04_dripping_rpc_raises_unreachable_in_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b" ")
            await asyncio.sleep(0.1)

    listener = await asyncio.start_server(drip, "127.0.0.1", 0)
    rpc = Rpc(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", 0.5)
    async with asyncio.timeout(3):
        with pytest.raises(RpcUnreachableError, match="in time"):
            await rpc.call("eth_blockNumber")
    await rpc.close()
    listener.close()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_O04_busy_rpc_raises_unreachable_with_status(server: Server, rpc: Rpc, status: int) -> None:
    server.answer(status, b"try later")
    with pytest.raises(RpcUnreachableError) as caught:
        await rpc.call("eth_blockNumber")
    assert caught.value.fields["status"] == status


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b"[1]",
        b"null",
        b"{}",
        b'{"jsonrpc":"2.0","id":999,"result":"0x1"}',
        b"[" * 1900,
        b"\xff\xfe",
        b'{"id":[],"result":1}',
    ],
)
async def test_O04_garbage_answer_raises_response_error(server: Server, rpc: Rpc, raw: bytes) -> None:
    server.answer(200, raw)
    with pytest.raises(RpcResponseError):
        await rpc.call("eth_blockNumber")


async def test_O04_oversized_answer_raises_without_reading_it_all(server: Server, rpc: Rpc) -> None:
    server.answer(200, b'{"result":"' + b"0" * 100_000 + b'"}')
    with pytest.raises(RpcResponseError) as caught:
        await rpc.call("eth_blockNumber")
    assert caught.value.fields["bound"] == 2000


async def test_O04_wrong_chain_id_is_refused_before_any_call(server: Server, rpc: Rpc) -> None:
    server.chain_id = 1
    with pytest.raises(WrongChainError) as caught:
        await rpc.call("eth_sendRawTransaction", "0x")
    assert caught.value.fields == {"expected": 31337, "actual": 1}
    assert server.requests == 1


async def test_O04_chain_id_is_asked_again_after_the_server_was_away(server: Server, rpc: Rpc) -> None:
    await rpc.call("eth_blockNumber")
    server.answer(503, b"")
    with pytest.raises(RpcUnreachableError):
        await rpc.call("eth_blockNumber")
    server.reply, server.chain_id = server.honest, 5
    with pytest.raises(WrongChainError):
        await rpc.call("eth_blockNumber")


async def test_error_answer_carries_code_and_data(server: Server, rpc: Rpc) -> None:
    async def reply(body: Any) -> tuple[int, bytes]:
        error = {"code": 3, "message": "execution reverted", "data": "0x1234"}
        answer = json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode()
        return await server.after_chain_id(body, (200, answer))

    server.reply = reply
    with pytest.raises(RpcResponseError) as caught:
        await rpc.call("eth_call")
    assert (caught.value.fields["code"], caught.value.fields["data"]) == (3, "0x1234")


async def test_batch_settled_returns_each_error_in_place(server: Server, rpc: Rpc) -> None:
    async def reply(body: Any) -> tuple[int, bytes]:
        if not isinstance(body, list):
            return await server.honest(body)
        answers = [{"id": body[1]["id"], "error": {"message": "no"}}, {"id": body[0]["id"], "result": "0x1"}]
        return 200, json.dumps(answers).encode()

    server.reply = reply
    first, second = await rpc.batch_settled([("a", ()), ("b", ())])
    assert first == "0x1"
    assert isinstance(second, RpcResponseError)
    with pytest.raises(RpcResponseError):
        await rpc.batch([("a", ()), ("b", ())])


async def test_bad_url_raises_unreachable() -> None:
    rpc = Rpc("not a url")
    with pytest.raises(RpcUnreachableError):
        await rpc.call("eth_blockNumber")
    await rpc.close()
