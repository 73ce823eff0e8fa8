"""A worker for the node's tests: speaks the protocol over a real socket, and runs nothing."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import websockets
from node_world import CONTRACT_DOMAIN, CONTROLLER, RECEIPT_DOMAIN, address_named, key_of, make_offer

from millpond.protocol import wire
from millpond.protocol.envelope import seal
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32, device_id, device_uuid_hash
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
from millpond.protocol.messages import DeviceEntry, SignedOffer, SignedReceipt, VoucherNote
from millpond.protocol.signed import Receipt
from millpond.protocol.signing import address_of, sign
from millpond_node.chain.fake import FakeChain
from millpond_node.chain.port import DeviceFacts
from millpond_node.desk import input_digest

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
