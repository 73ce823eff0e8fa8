"""A whole node in one process: real HTTP and WebSocket on the loopback, fake chain, fake worker."""

import asyncio
import itertools
import json
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

sys.path.insert(0, str(Path(__file__).parent))  # fake_worker, node_world

from fake_worker import FakeWorker
from node_world import (
    CHAIN_ID,
    CONTRACT_DOMAIN,
    CONTROLLER,
    ESCROW_DOMAIN,
    ESCROW_FUNDS,
    address_named,
    contract_named,
    key_of,
    make_offer,
    make_request,
    make_spec,
    new_job,
    pool_facts,
)

from millpond.protocol import wire
from millpond.protocol.envelope import seal
from millpond.protocol.ids import Address, Bytes32, lease_id, task_id
from millpond.protocol.messages import Submit, VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, address_of, sign
from millpond.storage.journal import Journal, JournalFailedError, MemoryJournal, verify_chain
from millpond.storage.memory import MemoryStore
from millpond_node.agent import Agent
from millpond_node.api.app import build_app
from millpond_node.api.http import server_options
from millpond_node.chain.fake import FakeChain
from millpond_node.clock import SystemClock
from millpond_node.config import Limits, NodeConfig
from millpond_node.errors import NodeConfigError
from millpond_node.policy import port as policy_port
from millpond_node.policy.simple import SimplePolicy


@dataclass
class Rented:
    """A lease as the renter's side knows it."""

    request: Bytes32
    lease: Bytes32


@dataclass
class Api:
    """A caller with its own key. `send` signs; `raw` sends as it is."""

    client: httpx.AsyncClient
    key: bytes
    audience: Address
    domain: Domain = CONTRACT_DOMAIN

    @property
    def address(self) -> Address:
        return address_of(self.key)

    def headers(
        self, method: str, path: str, body: bytes = b"", nonce: int | None = None, now: int | None = None
    ) -> dict[str, str]:
        number = secrets.randbits(256) if nonce is None else nonce
        return seal(
            self.key, self.domain, self.audience, method, path, body, number, int(time.time()) if now is None else now
        )

    async def send(self, method: str, path: str, body: bytes = b"", **options: Any) -> httpx.Response:
        return await self.client.request(
            method, path, content=body, headers=self.headers(method, path, body, **options)
        )

    async def get(self, path: str) -> httpx.Response:
        return await self.send("GET", path)

    async def post(self, path: str, message: object) -> httpx.Response:
        return await self.send("POST", path, wire.write(message))

    async def rent(self, worker: "FakeWorker", **changes: Any) -> Rented:
        """Asks for a vGPU and waits until it serves."""
        signed = make_request(self.key, **changes)
        answer = await self.post("/v1/requests", signed)
        assert answer.status_code == 202, answer.text
        hash_ = signed.request.struct_hash()
        for _ in range(20):
            view = (await self.get(f"/v1/requests/{hash_}?wait=5")).json()
            if view["state"] == "open":
                break
        else:
            raise AssertionError(view)
        return Rented(hash_, Bytes32(view["lease"]))

    async def submit(self, job: Bytes32, lease: Bytes32, count: int, first: int = 0, **spec: Any) -> httpx.Response:
        tasks = tuple(make_spec(job, first + i, **spec) for i in range(count))
        return await self.post(f"/v1/jobs/{job}/tasks", Submit(job, (lease,), tasks))

    async def results(
        self, job: Bytes32, after: int = 0, follow: bool = True, limit: int = 1 << 30
    ) -> list[dict[str, Any]]:
        path = f"/v1/jobs/{job}/results?after={after}" + ("&follow=1" if follow else "")
        found: list[dict[str, Any]] = []
        async with self.client.stream("GET", path, headers=self.headers("GET", path)) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line:
                    found.append(json.loads(line))
                if len(found) >= limit:
                    break
        return found


@dataclass
class Node:
    """A running node. `restart` stops it as kill -9 would, and starts another on what the journal had."""

    agent: Agent
    chain: FakeChain
    journal: Journal
    store: MemoryStore
    url: str
    server: uvicorn.Server
    tasks: list[asyncio.Task[None]]
    client: httpx.AsyncClient

    def api(self, name: str = "renter") -> Api:
        return Api(self.client, key_of(name), address_named("node"))

    def worker(self, name: str = "w1", **options: Any) -> FakeWorker:
        return FakeWorker(self.url.replace("http", "ws"), name, self.chain, **options)

    async def stop(self) -> None:
        self.agent.stop()
        self.server.should_exit = True
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if not self.client.is_closed:
            await self.client.aclose()


def make_config(home: Path, **changes: Any) -> NodeConfig:
    base = NodeConfig(home, "http://127.0.0.1:1", CHAIN_ID, CONTROLLER, dev_key=0, batch_seconds=0.2, limits=Limits())
    return replace(base, **changes)


async def start_node(
    home: Path,
    *,
    journal: Journal | None = None,
    chain: FakeChain | None = None,
    store: MemoryStore | None = None,
    **changes: Any,
) -> Node:
    chain = chain or FakeChain(pool_facts(), int(time.time()))
    chain.escrow.setdefault(address_named("renter"), ESCROW_FUNDS)
    journal, store = journal or MemoryJournal(), store or MemoryStore(1 << 30)
    agent = Agent(make_config(home, **changes), pool_facts(), key_of("node"), chain, journal, store, SystemClock())
    agent.start()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(server_options(build_app(agent), agent.core.config.limits))
    tasks = [asyncio.create_task(agent.run()), asyncio.create_task(server.serve(sockets=[listener]))]
    while not server.started:
        await asyncio.sleep(0.01)
    return Node(agent, chain, journal, store, url, server, tasks, httpx.AsyncClient(base_url=url, timeout=30))


NodeStarter = Callable[..., Awaitable[Node]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[NodeStarter]:
    """Starts nodes that end with the test."""
    homes = itertools.count()
    async with AsyncExitStack() as stack:

        async def starter(**options: Any) -> Node:
            node = await start_node(tmp_path / f"node-{next(homes)}", **options)
            stack.push_async_callback(node.stop)
            return node

        yield starter


@pytest.fixture
async def node(start: NodeStarter) -> Node:
    return await start()


class CapturingJournal(MemoryJournal):
    """Keeps what a crash would leave after each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[Any] = []

    def submit(self, batch: Any) -> Any:
        done = super().submit(batch)
        self.images.append(self.image())
        return done


def revived(node: Node, image: Any) -> Agent:
    """An agent that read `image` back, without its loops."""
    core = node.agent.core
    agent = Agent(
        core.config, core.facts, core.key, FakeChain(core.facts, 0), MemoryJournal(image), node.store, SystemClock()
    )
    agent.start()
    return agent


async def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def replay_decisions(journal: Journal) -> int:
    """Feeds the journal's events to a fresh policy; how many decisions came out as recorded. Asserts that each does."""
    verify_chain(journal)
    policy, matched, made = SimplePolicy(), 0, {}
    for event in journal.events():
        if event.kind == "start":
            policy.restore(event.body)
        elif event.kind == "Start":
            body = json.loads(event.body)
            if body["request"] not in made:
                made = {start.request: start.offer for start in policy.decide(body["now"], 64)}
            assert made[body["request"]] == body["offer"]
            matched += 1
        else:
            policy.apply(wire.read(getattr(policy_port, event.kind), event.body))
    return matched


__all__ = [
    "CHAIN_ID",
    "CONTROLLER",
    "ESCROW_DOMAIN",
    "ESCROW_FUNDS",
    "Agent",
    "Api",
    "CapturingJournal",
    "FakeWorker",
    "JournalFailedError",
    "Limits",
    "MemoryJournal",
    "NodeConfigError",
    "Submit",
    "SystemClock",
    "Voucher",
    "VoucherNote",
    "address_named",
    "contract_named",
    "key_of",
    "lease_id",
    "make_offer",
    "make_request",
    "make_spec",
    "new_job",
    "policy_port",
    "pool_facts",
    "replace",
    "replay_decisions",
    "revived",
    "sign",
    "task_id",
    "wait_for",
]


@pytest.fixture
def kit() -> ModuleType:
    """This module: tests folders are no packages, so what they share comes as a fixture."""
    return sys.modules[__name__]
