"""Links with seeded delay, loss and cuts: the workers' sockets and the renter's requests, into the node's own application."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from sim_loop import Life
from sim_world import CONTROLLER_DOMAIN, HOSTS, NODE

from millpond.protocol.envelope import seal
from millpond_worker.errors import NodeUnreachableError
from millpond_worker.ports import Line, NodeRef

if TYPE_CHECKING:
    from sim_run import Sim

KIND = re.compile(rb'"kind":"(\w+)"')
UNCOUNTED = frozenset({"beat", "log"})
"""Messages that carry no state: a crash beside one is a crash beside the last one that does."""
DEAD_LINE_S = 20.0
TIMEOUT_S = 15.0


def kind_of(frame: bytes | str) -> str:
    """The kinds in a frame, each once."""
    found = KIND.findall(frame.encode() if isinstance(frame, str) else frame)
    return "+".join(dict.fromkeys(kind.decode() for kind in found[:40]))


class Wire:
    """One connection: in order, nothing doubled, as TCP is. A cut loses what is on its way."""

    def __init__(self, sim: Sim, worker: Life, node: Life) -> None:
        self._sim, self.ends = sim, (worker, node)
        self.queues: dict[str, asyncio.Queue[Any]] = {"worker": asyncio.Queue(), "node": asyncio.Queue()}
        self._last = {"worker": 0.0, "node": 0.0}
        self.is_cut = False
        sim.wires.append(self)

    def push(self, to: str, item: Any) -> None:
        loop = asyncio.get_running_loop()
        at = self._last[to] = max(self._last[to] + 1e-6, loop.time() + self._sim.delay())
        loop.call_at(at, self._arrive, to, item)

    def _arrive(self, to: str, item: Any) -> None:
        if not self.is_cut or item is None:
            self.queues[to].put_nowait(item)

    def cut(self, *, is_silent: bool = False) -> None:
        """`is_silent`: neither side hears of it before its pings time out."""
        self.is_cut = True
        for to in self.queues:
            asyncio.get_running_loop().call_later(
                DEAD_LINE_S if is_silent else self._sim.delay(), self._arrive, to, None
            )


class SimLine:
    """The worker's side."""

    def __init__(self, sim: Sim, life: Life, wire: Wire) -> None:
        self._sim, self._life, self._wire = sim, life, wire

    async def send(self, frame: bytes) -> None:
        self._life.check()
        kind = kind_of(frame)
        is_counted = not set(kind.split("+")) <= UNCOUNTED
        if is_counted:
            self._sim.point(self._life, f"before sending {kind}")
        self._sim.watch.worker_says(self._life, frame)
        self._wire.push("node", frame)
        if is_counted:
            self._sim.point(self._life, f"after sending {kind}")

    async def receive(self) -> bytes:
        item = await self._wire.queues["worker"].get()
        self._life.check()
        if item is None:
            self._wire.is_cut = True
            raise NodeUnreachableError("the simulated line is cut", url="sim")
        return bytes(item)

    async def close(self) -> None:
        if not self._life.is_dead:
            self._wire.cut()


class SimNet:
    """The worker's `Net`: a signed upgrade of the node's own WebSocket route."""

    def __init__(self, sim: Sim, life: Life) -> None:
        self._sim, self._life = sim, life

    async def connect(self, node: NodeRef) -> Line:
        await asyncio.sleep(self._sim.delay())
        self._life.check()
        there = self._sim.node
        if there is None or there.life.is_dead or self._sim.is_partitioned(self._life.name):
            raise NodeUnreachableError("the simulated node is away", url=node.url)
        wire = Wire(self._sim, self._life, there.life)
        key, now = HOSTS[self._life.name].operator.key, int(self._sim.wall())
        sealed = seal(key, CONTROLLER_DOMAIN, NODE.address, "GET", "/v1/worker", b"", secrets.randbits(256), now)
        headers = [(name.lower().encode(), value.encode()) for name, value in sealed.items()]
        scope = {
            "type": "websocket", "path": "/v1/worker", "raw_path": b"/v1/worker", "query_string": b"", "headers": headers,
            "client": (self._life.name, 1), "server": ("node", 80), "scheme": "ws", "subprotocols": [], "http_version": "1.1",
        }  # fmt: skip
        self._sim.in_life(there.life, there.app(scope, _Inbox(wire), _Outlet(self._sim, there.life, wire)))
        return SimLine(self._sim, self._life, wire)


class _Inbox:
    """What the node's application receives of a socket."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._has_begun = wire, False

    async def __call__(self) -> dict[str, Any]:
        if not self._has_begun:
            self._has_begun = True
            return {"type": "websocket.connect"}
        item = await self._wire.queues["node"].get()
        if item is None:
            return {"type": "websocket.disconnect", "code": 1006}
        return {"type": "websocket.receive", "text": item.decode()}


class _Outlet:
    """What it sends."""

    def __init__(self, sim: Sim, life: Life, wire: Wire) -> None:
        self._sim, self._life, self._wire = sim, life, wire

    async def __call__(self, message: dict[str, Any]) -> None:
        self._life.check()
        if message["type"] == "websocket.send":
            kind = kind_of(message["text"])
            self._sim.point(self._life, f"before sending {kind}")
            self._sim.watch.node_says(message["text"])
            self._wire.push("worker", message["text"].encode())
            self._sim.point(self._life, f"after sending {kind}")
        elif message["type"] == "websocket.close":
            self._wire.cut()


class SimTransport(httpx.AsyncBaseTransport):
    """The renter's requests. A lost one, or a lost answer, is tried again by who sent it: so requests come twice and out of order."""

    def __init__(self, sim: Sim, life: Life) -> None:
        self._sim, self._life = sim, life

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sim, name = self._sim, f"{request.method} {_shape(request.url.path)}"
        self._life.check()
        if request.method == "POST":
            sim.point(self._life, f"before {name}")
            sim.watch.renter_says(request.url.path, request.content)
        await asyncio.sleep(sim.delay())
        self._life.check()
        there = sim.node
        if there is None or there.life.is_dead:
            raise httpx.ConnectError("the simulated node is away", request=request)
        if sim.loses():
            await self._time_out(request)
        exchange = _Exchange(request)
        task = sim.in_life(there.life, there.app(exchange.scope, exchange.receive, exchange.send))
        task.add_done_callback(lambda _: exchange.over())
        status, headers = await exchange.head(request)
        await asyncio.sleep(sim.delay())
        self._life.check()
        if sim.loses():
            task.cancel()
            await self._time_out(request)
        if request.method == "POST":
            sim.watch.node_accepted(request.url.path, request.content, status)
            sim.point(self._life, f"after {name}")
        return httpx.Response(status, headers=headers, stream=_Body(exchange, task, self._life), request=request)

    async def _time_out(self, request: httpx.Request) -> None:
        await asyncio.sleep(TIMEOUT_S)
        self._life.check()
        raise httpx.ReadTimeout("lost on the way", request=request)


def _shape(path: str) -> str:
    return re.sub(r"0x[0-9a-f]{64}", "*", path)


class _Exchange:
    """One request through the ASGI application, its answer as it comes."""

    def __init__(self, request: httpx.Request) -> None:
        target = urlsplit(str(request.url))
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        self.scope = {
            "type": "http", "method": request.method, "path": target.path, "raw_path": request.url.raw_path,
            "query_string": target.query.encode(), "headers": headers, "client": ("renter", 1), "server": ("node", 80),
            "scheme": "http", "http_version": "1.1", "root_path": "",
        }  # fmt: skip
        self._body: bytes | None = request.content
        self._gone = asyncio.Event()
        self._parts: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._is_complete = False

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self._parts.put_nowait(message)

    def over(self) -> None:
        self._parts.put_nowait(None)

    def leave(self) -> None:
        self._gone.set()

    async def head(self, request: httpx.Request) -> tuple[int, list[tuple[bytes, bytes]]]:
        first = await self._parts.get()
        if first is None:
            raise httpx.ReadError("the simulated node went away", request=request)
        return first["status"], first["headers"]

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self._is_complete:
            part = await self._parts.get()
            if part is None:
                raise httpx.ReadError("the simulated node went away")
            yield part.get("body", b"")
            self._is_complete = not part.get("more_body", False)


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: _Exchange, task: asyncio.Task[Any], life: Life) -> None:
        self._exchange, self._task, self._life = exchange, task, life

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._exchange.chunks():
            self._life.check()
            yield chunk

    async def aclose(self) -> None:
        self._exchange.leave()
