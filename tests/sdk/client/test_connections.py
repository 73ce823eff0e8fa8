import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from millpond import _connections, _nodeapi
from millpond._connections import Connections
from millpond._nodeapi import NodeApi
from millpond.errors import NodeUnreachableError

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every head with `answer` and counts its connections."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self.answer(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[Server, str]]:
    server = Server(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield server, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()


def says(data: bytes) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


async def get(connections: Connections, url: str, read_s: float = 5.0) -> bytes:
    request = httpx.Request("GET", url + "/x", extensions={"timeout": {"read": read_s}})
    response = await connections.handle_async_request(request)
    return await response.aread()


async def test_requests_one_after_another_use_one_connection() -> None:
    async with serving(says(OK)) as (server, url):
        connections = Connections(url)
        assert [await get(connections, url) for _ in range(3)] == [b"ok"] * 3
        await connections.aclose()
    assert server.connections == 1


async def test_requests_at_once_use_no_more_connections_than_allowed() -> None:
    async with serving(says(OK)) as (server, url):
        connections = Connections(url, most=2)
        assert await asyncio.gather(*(get(connections, url) for _ in range(9))) == [b"ok"] * 9
        await connections.aclose()
    assert server.connections == 2


async def test_request_over_a_connection_the_server_closed_opens_another() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        writer.close()

    async with serving(answer) as (server, url):
        connections = Connections(url)
        for _ in range(2):
            assert await get(connections, url) == b"ok"
            await asyncio.sleep(0.02)
        await connections.aclose()
    assert server.connections == 2


async def test_request_after_a_long_rest_opens_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connections, "IDLE_S", 0.0)
    async with serving(says(OK)) as (server, url):
        connections = Connections(url)
        for _ in range(2):
            assert await get(connections, url) == b"ok"
        await connections.aclose()
    assert server.connections == 2


async def test_answer_in_chunks_is_read_whole() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    async with serving(says(chunked)) as (_, url):
        connections = Connections(url)
        assert await get(connections, url) == b"abcde"
        await connections.aclose()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"nonsense\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", httpx.ReadTimeout),
        (b"", httpx.ReadTimeout),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 20), httpx.RemoteProtocolError),
    ],
)
async def test_bad_answer_raises_a_transport_error_and_its_connection_is_not_kept(
    data: bytes, error: type[httpx.TransportError]
) -> None:
    async with serving(says(data)) as (server, url):
        connections = Connections(url)
        for _ in range(2):
            with pytest.raises(error):
                await get(connections, url, read_s=0.1)
        await connections.aclose()
    assert server.connections == 2


async def test_request_that_is_cancelled_gives_its_place_back() -> None:
    async with serving(says(b"")) as (_, url):
        connections = Connections(url, most=1)
        waiting = asyncio.create_task(get(connections, url))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with pytest.raises(httpx.ReadTimeout):
            await get(connections, url, read_s=0.05)
        await connections.aclose()


async def test_request_to_nobody_raises_a_connect_error() -> None:
    async with serving(says(OK)) as (_, url):
        pass
    with pytest.raises(httpx.ConnectError):
        await get(Connections(url), url)


async def test_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nodeapi, "MAX_ANSWER_BYTES", 1 << 16)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
        while True:
            writer.write(b"[" * (1 << 16))
            await writer.drain()

    async with serving(answer) as (_, url):
        api = NodeApi(url)
        with pytest.raises(NodeUnreachableError, match="more than"):
            await api.health()
        await api.aclose()
