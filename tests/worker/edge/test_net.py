"""The line to the node over real sockets: connected, refused, cut, oversized, silent, and up again after each."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from agent_life import running
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from worker_world import CHAIN_ID, CONTROLLER, NODE, OPERATOR, World

from millpond.protocol import wire
from millpond.protocol.envelope import HEADER_AUDIENCE, open_envelope
from millpond.protocol.link import Hello, Welcome
from millpond.protocol.signing import Domain
from millpond_worker.agent.link import Link
from millpond_worker.agent.parts import Pace
from millpond_worker.edge import net as net_module
from millpond_worker.edge.clock import SystemClock, settle
from millpond_worker.edge.net import MAX_MESSAGE_BYTES, WebSocketNet, socket_url
from millpond_worker.errors import NodeRefusedError, NodeUnreachableError
from millpond_worker.ports import Line, NodeRef

Handler = Callable[[ServerConnection], Awaitable[None]]
DOMAIN = Domain(CHAIN_ID, CONTROLLER)


def make_net() -> WebSocketNet:
    return WebSocketNet(OPERATOR.key, CHAIN_ID, CONTROLLER, SystemClock())


def node_at(port: int) -> NodeRef:
    return NodeRef(NODE.address, f"http://127.0.0.1:{port}")


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


@contextlib.asynccontextmanager
async def node_of(handler: Handler, port: int = 0) -> AsyncIterator[int]:
    """A server on the loopback; its port."""
    async with serve(handler, "127.0.0.1", port, max_size=None, close_timeout=0.2) as server:
        yield port_of(server)


@contextlib.asynccontextmanager
async def lined(port: int) -> AsyncIterator[Line]:
    line = await make_net().connect(node_at(port))
    try:
        yield line
    finally:
        await line.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def echo(connection: ServerConnection) -> None:
    async for frame in connection:
        await connection.send(frame)


# ONE CONNECTION


async def test_connect_signs_the_upgrade_as_the_operator_for_the_node() -> None:
    seen: list[Request] = []

    async def look(connection: ServerConnection) -> None:
        seen.append(connection.request)

    async with node_of(look) as port, lined(port):
        pass
    headers = {name.lower(): value for name, value in seen[0].headers.raw_items()}
    assert headers[HEADER_AUDIENCE.lower()] == NODE.address
    opened = open_envelope(headers, DOMAIN, NODE.address, "GET", seen[0].path, b"", SystemClock().now())
    assert (seen[0].path, opened.signer) == ("/v1/worker", OPERATOR.address)


async def test_frames_travel_both_ways_as_text() -> None:
    kinds: list[type] = []

    async def answer(connection: ServerConnection) -> None:
        async for frame in connection:
            kinds.append(type(frame))
            await connection.send(frame)

    async with node_of(answer) as port, lined(port) as line:
        await line.send('{"a":"ü"}'.encode())
        assert await line.receive() == '{"a":"ü"}'.encode()
    assert kinds == [str]


async def test_connect_where_nobody_listens_is_unreachable_with_the_url_and_a_remedy() -> None:
    port = free_port()

    with pytest.raises(NodeUnreachableError) as caught:
        await make_net().connect(node_at(port))

    assert caught.value.fields["url"] == f"ws://127.0.0.1:{port}/v1/worker"
    assert caught.value.remedy
    assert caught.value.exit_code == 7


async def test_connect_that_is_refused_brings_the_nodes_words() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(403, '{"error":"WorkerRefusedError"}')

    async with serve(echo, "127.0.0.1", 0, process_request=refuse) as server:
        with pytest.raises(NodeRefusedError) as caught:
            await make_net().connect(node_at(port_of(server)))
    assert caught.value.fields["status"] == 403
    assert "WorkerRefusedError" in caught.value.message


async def test_refusal_of_any_length_is_shown_cut() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(500, "x" * 100_000)

    async with serve(echo, "127.0.0.1", 0, process_request=refuse) as server:
        with pytest.raises(NodeRefusedError) as caught:
            await make_net().connect(node_at(port_of(server)))
    assert 500 <= len(caught.value.message) < 700


async def test_peer_that_is_no_http_server_is_unreachable() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        with pytest.raises(NodeUnreachableError):
            await make_net().connect(node_at(server.sockets[0].getsockname()[1]))


async def test_peer_that_accepts_and_says_nothing_is_unreachable_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_module, "OPEN_TIMEOUT_S", 0.3)

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    async with server, asyncio.timeout(10):
        with pytest.raises(NodeUnreachableError, match="no connection"):
            await make_net().connect(node_at(server.sockets[0].getsockname()[1]))


async def test_peer_that_falls_silent_is_noticed_by_its_missing_pongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_module, "PING_S", 0.2)
    stopped = asyncio.Event()

    async def freeze(connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await stopped.wait()

    async with node_of(freeze) as port:
        line = await make_net().connect(node_at(port))
        async with asyncio.timeout(10):
            with pytest.raises(NodeUnreachableError, match="ended"):
                await line.receive()
        stopped.set()
        await line.close()


async def test_frame_of_the_largest_message_is_taken_and_a_giant_one_cuts_the_line() -> None:
    async def shout(connection: ServerConnection) -> None:
        await connection.send("x" * MAX_MESSAGE_BYTES)
        await connection.send("x" * (2 * MAX_MESSAGE_BYTES + 1))
        await connection.wait_closed()

    async with node_of(shout) as port, lined(port) as line:
        assert len(await line.receive()) == MAX_MESSAGE_BYTES
        with pytest.raises(NodeUnreachableError):
            await line.receive()
        with pytest.raises(NodeUnreachableError):
            await line.send(b"{}")


async def test_cut_while_receiving_is_typed_and_so_is_every_call_after_it() -> None:
    async def leave(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with node_of(leave) as port, lined(port) as line:
        for call in (line.receive, lambda: line.send(b"{}"), line.receive):
            with pytest.raises(NodeUnreachableError) as caught:
                await call()
            assert caught.value.fields["url"].endswith("/v1/worker")


async def test_close_twice_ends_once() -> None:
    left = asyncio.Event()

    async def wait(connection: ServerConnection) -> None:
        await connection.wait_closed()
        left.set()

    async with node_of(wait) as port:
        line = await make_net().connect(node_at(port))
        await line.close()
        await line.close()
        await asyncio.wait_for(left.wait(), 5)
        with pytest.raises(NodeUnreachableError):
            await line.send(b"{}")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://n:1", "ws://n:1/v1/worker"),
        ("https://n/pool/", "wss://n/pool/v1/worker"),
        ("ws://n:1?x=1", "ws://n:1/v1/worker"),
    ],
)
def test_socket_url_keeps_host_and_path(url: str, found: str) -> None:
    assert socket_url(url) == found


@pytest.mark.parametrize("url", ["", "n:1", "ftp://n", "http://", "http://[::1"])
def test_socket_url_of_no_address_is_refused_with_its_form(url: str) -> None:
    with pytest.raises(NodeUnreachableError) as caught:
        socket_url(url)
    assert "http://host:port" in caught.value.remedy


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "http://127.0.0.1:x"])
async def test_connect_to_a_malformed_url_is_unreachable(url: str) -> None:
    with pytest.raises(NodeUnreachableError):
        await make_net().connect(NodeRef(NODE.address, url))


# AGAIN AND AGAIN


class Away:
    """`Net` that is never there, and notes when it was asked."""

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, list[float]()

    async def connect(self, node: NodeRef) -> Line:
        self.asked.append(self.world.clock.monotonic())
        raise NodeUnreachableError("away", url=node.url)


async def test_node_that_stays_away_is_asked_with_doubling_pauses_up_to_the_most(tmp_path: Path) -> None:
    world = World(tmp_path, pace=Pace(retry_first=1.0, retry_most=8.0))
    away = Away(world)
    world.net = away  # type: ignore[assignment]
    async with running(world) as life:
        await settle()
        await world.clock.advance(100)
        assert not life.link.is_up
        assert life.link.last_error == "away"
    pauses = [later - sooner for sooner, later in zip(away.asked, away.asked[1:], strict=False)]
    for pause, middle in zip(pauses, [1, 2, 4, 8, 8, 8, 8], strict=False):
        assert 0.5 * middle <= pause <= 1.5 * middle
    assert len(pauses) >= 8


class Node:
    """Greets each worker and counts them; `end` stops as a node that is killed."""

    def __init__(self) -> None:
        self.hellos: list[Hello] = []
        self.greeted = asyncio.Event()

    async def serve(self, connection: ServerConnection) -> None:
        [hello] = wire.read_worker_messages(await connection.recv())
        assert isinstance(hello, Hello)
        self.hellos.append(hello)
        await connection.send(wire.write(Welcome(NODE.address, 0, ())).decode())
        self.greeted.set()
        async for _ in connection:
            pass


async def test_node_that_restarts_on_its_port_gets_the_worker_back(tmp_path: Path) -> None:
    node = Node()
    async with node_of(node.serve) as port:
        world = World(tmp_path, pace=Pace(retry_first=0.05, retry_most=0.2), clock=SystemClock())  # type: ignore[arg-type]
        world.net = make_net()  # type: ignore[assignment]
        world.chain._node = node_at(port)
        life = running(world)
        first: Link = (await life.__aenter__()).link
        await asyncio.wait_for(node.greeted.wait(), 10)
    try:
        async with asyncio.timeout(10):
            while first.is_up:
                await asyncio.sleep(0.02)
        node.greeted.clear()
        async with node_of(node.serve, port):
            await asyncio.wait_for(node.greeted.wait(), 10)
            async with asyncio.timeout(10):
                while not first.is_up:
                    await asyncio.sleep(0.02)
            await life.__aexit__(None, None, None)
    except BaseException:
        await life.__aexit__(None, None, None)
        raise
    assert [hello.worker for hello in node.hellos] == [OPERATOR.address] * 2
