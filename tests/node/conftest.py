"""A whole node in one process: real HTTP and WebSocket on the loopback, fake chain, fake worker."""

import asyncio
import itertools
import json
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn
import websockets

from millpond.protocol import wire
from millpond.protocol.envelope import seal
from millpond.protocol.hashing import keccak256, sha256
from millpond.protocol.ids import (
    ZERO_BYTES32,
    Address,
    Bytes32,
    bytes32,
    device_id,
    device_uuid_hash,
    job_id,
    lease_id,
    task_id,
)
from millpond.protocol.link import (
    Ack,
    AttemptEnded,
    Cancel,
    Desired,
    Hello,
    LeasePhase,
    NodeMessage,
    Ready,
    Report,
    ReportBody,
    Run,
    VoucherKept,
    Welcome,
)
from millpond.protocol.messages import (
    DeviceEntry,
    SignedOffer,
    SignedReceipt,
    SignedRequest,
    Submit,
    TaskSpec,
    VoucherNote,
)
from millpond.protocol.signed import Offer, Receipt, Request, Voucher
from millpond.protocol.signing import Domain, address_of, sign
from millpond.storage.journal import Journal, JournalFailedError, MemoryJournal, verify_chain
from millpond.storage.memory import MemoryStore
from millpond_node.agent import Agent
from millpond_node.api.app import build_app
from millpond_node.api.http import server_options
from millpond_node.chain.fake import FakeChain
from millpond_node.chain.port import DeviceFacts, PoolFacts
from millpond_node.clock import SystemClock
from millpond_node.config import Limits, NodeConfig
from millpond_node.desk import input_digest
from millpond_node.errors import NodeConfigError
from millpond_node.policy import port as policy_port
from millpond_node.policy.simple import SimplePolicy

CHAIN_ID = 31337
ESCROW_FUNDS = 10**24


def key_of(name: str) -> bytes:
    return keccak256(name.encode())


def address_named(name: str) -> Address:
    return address_of(key_of(name))


def contract_named(name: str) -> Address:
    return address_of(key_of("contract " + name))


CONTROLLER, ESCROW, ATTESTATIONS = (
    contract_named("controller"),
    contract_named("escrow"),
    contract_named("attestations"),
)
CONTRACT_DOMAIN = Domain(CHAIN_ID, CONTROLLER)
ESCROW_DOMAIN = Domain(CHAIN_ID, ESCROW)
RECEIPT_DOMAIN = Domain(CHAIN_ID, ATTESTATIONS)
TOKEN = contract_named("token")


def pool_facts() -> PoolFacts:
    return PoolFacts(
        CHAIN_ID, CONTROLLER, address_named("node"), ESCROW, contract_named("staking"), contract_named("devices"), ATTESTATIONS,
        contract_named("tokens"), TOKEN, "USD", 18, 20_000, 10_000, 60, 30 * 86_400, 2,
    )  # fmt: skip


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


def make_request(key: bytes, priority: int = 0, **changes: Any) -> SignedRequest:
    base = Request(
        renter=address_of(key), controller=CONTROLLER, token=TOKEN, offer=ZERO_BYTES32, submitter=address_named("node"), isolation=0,
        share=100, memoryMiB=256, cpuMilli=0, ramMiB=0, diskMiB=0, maxPricePerSecond=1000, duration=3600, depositSeconds=60,
        voucherSigner=address_named("session"), verification=0, data=ZERO_BYTES32, deadline=int(time.time()) + 600,
        nonce=secrets.randbits(256),
    )  # fmt: skip
    request = replace(base, **changes)
    return SignedRequest(request, sign(request, ESCROW_DOMAIN, key), priority)


def make_spec(job: Bytes32, index: int, **changes: Any) -> TaskSpec:
    return replace(TaskSpec(task_id(job, index), index, entry="app:work", code="bcode", args=b"a%d" % index), **changes)


def new_job() -> Bytes32:
    return job_id(secrets.token_bytes(32))


def make_offer(device: Bytes32, key: bytes, **changes: Any) -> SignedOffer:
    base = Offer(
        controller=CONTROLLER, device=device, epoch=1, mode=0, isolation=1, share=500, memoryMiB=512, cpuMilli=1000, ramMiB=1024,
        diskMiB=1024, bandwidthMbit=0, pricePerSecond=100, tick=10, notice=60, determinism=ZERO_BYTES32, maxDuration=86_400,
        capPerRenter=0, deadline=int(time.time()) + 1800,
    )  # fmt: skip
    offer = replace(base, **changes)
    return SignedOffer(offer, sign(offer, CONTRACT_DOMAIN, key))


Runner = Callable[[Run], tuple[int, bytes] | None]


def echo(run: Run) -> tuple[int, bytes] | None:
    """Succeeds with the arguments as the value."""
    return 0, run.task.args


@dataclass
class FakeWorker:
    """Speaks the protocol over a real socket. `runner` gives (status, value) of an attempt, or None to leave it running."""

    url: str
    name: str
    chain: FakeChain
    runner: Runner = echo
    instance: str = "i1"
    version: str = "0.1.0"
    is_ready_at_once: bool = True
    seq: int = 0
    unacked: dict[int, ReportBody] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    cancels: list[Cancel] = field(default_factory=list)
    desired: dict[Bytes32, Desired] = field(default_factory=dict)
    vouchers: list[VoucherNote] = field(default_factory=list)
    welcome: Welcome | None = None
    last: NodeMessage | None = None
    offers: tuple[SignedOffer, ...] | None = None

    def __post_init__(self) -> None:
        self.key = key_of(f"operator {self.name}")
        self.provider = address_named(f"owner {self.name}")
        uuid = device_uuid_hash(self.name)
        self.device = device_id(self.provider, uuid)
        self.memory_mib = 4096
        facts = DeviceFacts(self.device, self.provider, self.address, CONTROLLER, 1, self.memory_mib, False)
        self.chain.devices[self.device] = facts
        self._seen: set[tuple[Bytes32, Bytes32, int]] = set()
        self._ready: set[Bytes32] = set()
        self._changed = asyncio.Event()

    @property
    def address(self) -> Address:
        return address_of(self.key)

    def hello(self) -> Hello:
        entry = DeviceEntry(self.device, self.name, "cpu", "CPU", self.memory_mib, 2)
        offers = self.offers if self.offers is not None else (make_offer(self.device, self.key),)
        return Hello(self.address, self.provider, self.instance, self.version, (entry,), offers, "process", self.seq)

    @asynccontextmanager
    async def connected(self, **headers: str) -> AsyncIterator["FakeWorker"]:
        """Connects, and serves in the background until the block ends."""
        await self.connect(**headers)
        task = asyncio.create_task(self._serve())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.socket.close()

    async def connect(self, **headers: str) -> None:
        sealed = seal(
            self.key,
            CONTRACT_DOMAIN,
            address_named("node"),
            "GET",
            "/v1/worker",
            b"",
            secrets.randbits(256),
            int(time.time()),
        )
        self.socket = await websockets.connect(
            self.url + "/v1/worker", additional_headers={**sealed, **headers}, max_size=8 << 20
        )
        await self.send(self.hello())
        first, *rest = wire.read_node_messages(await self.socket.recv())
        self.last = first
        if isinstance(first, Welcome):
            await self._welcomed(first)
        for message in rest:
            self.last = message
            await self._handle(message)

    async def send(self, message: object) -> None:
        await self.socket.send(wire.write(message).decode())

    async def report(self, body: ReportBody) -> int:
        self.seq += 1
        self.unacked[self.seq] = body
        await self.send(Report(self.seq, body))
        return self.seq

    async def until(self, condition: Callable[[], bool], seconds: float = 10) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def signed_receipt(self, run: Run, outcome: int, value: bytes, **changes: Any) -> SignedReceipt:
        now = int(time.time())
        result = bytes32(sha256(value)) if outcome == 0 else ZERO_BYTES32
        base = Receipt(
            run.lease, run.task.id, run.attempt, self.device, ZERO_BYTES32, bytes32(input_digest(run.task)), ZERO_BYTES32, result, now,
            now, 0, outcome,
        )  # fmt: skip
        receipt = replace(base, **changes)
        return SignedReceipt(receipt, sign(receipt, RECEIPT_DOMAIN, self.key), self.address)

    def ended(self, run: Run, outcome: int = 0, value: bytes = b"", **changes: Any) -> AttemptEnded:
        return AttemptEnded(self.signed_receipt(run, outcome, value, **changes), value if outcome == 0 else None)

    async def _serve(self) -> None:
        async for data in self.socket:
            for message in wire.read_node_messages(data):
                self.last = message
                await self._handle(message)
            self._changed.set()

    async def _welcomed(self, welcome: Welcome) -> None:
        self.welcome = welcome
        for seq in [seq for seq in self.unacked if seq <= welcome.acked_seq]:
            del self.unacked[seq]
        for seq in sorted(self.unacked):
            await self.send(Report(seq, self.unacked[seq]))
        for desired in welcome.desired:
            await self._handle(desired)

    async def _handle(self, message: NodeMessage) -> None:
        match message:
            case Desired():
                self.desired[message.lease] = message
                if message.phase is LeasePhase.HINT:
                    self._ready.discard(message.lease)
                elif message.phase is LeasePhase.SEEN and self.is_ready_at_once and message.lease not in self._ready:
                    self._ready.add(message.lease)
                    await self.report(Ready(message.lease, int(time.time())))
            case Run():
                await self._run(message)
            case Cancel():
                self.cancels.append(message)
            case VoucherNote():
                self.vouchers.append(message)
                await self.report(VoucherKept(message.lease, message.cumulative))
            case Ack(seq=seq):
                for old in [old for old in self.unacked if old <= seq]:
                    del self.unacked[old]

    async def _run(self, run: Run) -> None:
        key = (run.lease, run.task.id, run.attempt)
        if key in self._seen:
            return
        self._seen.add(key)
        self.runs.append(run)
        outcome = self.runner(run)
        if outcome is not None:
            await self.report(self.ended(run, *outcome))


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


__all__ = ["JournalFailedError", "NodeConfigError", "Voucher", "lease_id"]


@pytest.fixture
def kit() -> ModuleType:
    """This module: tests folders are no packages, so what they share comes as a fixture."""
    return sys.modules[__name__]
