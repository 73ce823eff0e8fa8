"""A worker's world for tests: keys, signed offers and requests, vouchers, and an agent on simulated ports."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millpond.chain.keys import Wallet, wallet_of
from millpond.protocol import wire
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
from millpond.protocol.link import Desired, Hello, LeasePhase, Report, Run, Welcome
from millpond.protocol.messages import SignedOffer, SignedRequest, TaskSpec, VoucherNote
from millpond.protocol.signed import Offer, Request, Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.values import encode_bytes
from millpond.storage.blocks import make_block
from millpond.storage.journal import MemoryJournal
from millpond_worker.agent.parts import Identity, Pace, Parts
from millpond_worker.devices.port import DeviceInfo, DeviceKind
from millpond_worker.devices.slices import SliceLedger, slice_of
from millpond_worker.edge.clock import SimClock
from millpond_worker.edge.simulated import SimChain, SimLine, SimNet, SimStore
from millpond_worker.errors import NodeUnreachableError
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.model import Terms, WorkerState
from millpond_worker.offers import OfferBook, OfferTemplate
from millpond_worker.ports import NodeRef, PoolFacts

CHAIN_ID = 31337
START = 1_700_000_000


def key(number: int) -> Wallet:
    return wallet_of(number.to_bytes(32, "big"))


def place(number: int) -> Address:
    return key(1000 + number).address


OPERATOR, RENTER, SESSION, NODE, STRANGER, OWNER = (key(number) for number in range(1, 7))
CONTROLLER, ESCROW, DEVICES, ATTESTATIONS, TOKEN = (place(number) for number in range(1, 6))
UUID = "cpu-0"
DEVICE = device_id(OWNER.address, device_uuid_hash(UUID))
INFO = DeviceInfo(UUID, DeviceKind.CPU, "test cpu", 4096, "none", cores=4, host_cores=4, host_ram_mib=4096)
POOL = PoolFacts(CHAIN_ID, CONTROLLER, ESCROW, DEVICES, ATTESTATIONS, TOKEN, 60, 86_400, 86_400, 7 * 86_400)
PRICE, TICK, NOTICE = 1000, 10, 120
NODE_REF = NodeRef(NODE.address, "http://127.0.0.1:1")


def terms(**changes: Any) -> Terms:
    values: dict[str, Any] = {
        "chain_id": CHAIN_ID,
        "controller": CONTROLLER,
        "escrow": ESCROW,
        "operator": OPERATOR.address,
        "devices": frozenset({DEVICE}),
        "grace": POOL.grace,
        "claim_window": POOL.claim_window,
        "dispute_window": POOL.dispute_window,
    }
    return Terms(**(values | changes))


def offer(**changes: Any) -> Offer:
    values: dict[str, Any] = {
        "controller": CONTROLLER,
        "device": DEVICE,
        "epoch": 0,
        "mode": 0,
        "isolation": 0,
        "share": 600,
        "memoryMiB": 1024,
        "cpuMilli": 2400,
        "ramMiB": 1024,
        "diskMiB": 64,
        "bandwidthMbit": 0,
        "pricePerSecond": PRICE,
        "tick": TICK,
        "notice": NOTICE,
        "determinism": ZERO_BYTES32,
        "maxDuration": 86_400,
        "capPerRenter": 0,
        "deadline": START + 3000,
    }
    return Offer(**(values | changes))


def request(nonce: int = 1, **changes: Any) -> Request:
    values: dict[str, Any] = {
        "renter": RENTER.address,
        "controller": CONTROLLER,
        "token": TOKEN,
        "offer": ZERO_BYTES32,
        "submitter": NODE.address,
        "isolation": 0,
        "share": 500,
        "memoryMiB": 512,
        "cpuMilli": 100,
        "ramMiB": 512,
        "diskMiB": 16,
        "maxPricePerSecond": PRICE,
        "duration": 3600,
        "depositSeconds": 60,
        "voucherSigner": SESSION.address,
        "verification": 0,
        "data": ZERO_BYTES32,
        "deadline": START + 3000,
        "nonce": nonce,
    }
    return Request(**(values | changes))


def desired(
    nonce: int = 1,
    phase: LeasePhase = LeasePhase.HINT,
    *,
    signer: Wallet = OPERATOR,
    renter_key: Wallet = RENTER,
    the_offer: Offer | None = None,
    the_request: Request | None = None,
    **changes: Any,
) -> Desired:
    made, wanted = the_offer or offer(), the_request or request(nonce)
    values: dict[str, Any] = {
        "lease": lease_id(CHAIN_ID, CONTROLLER, made.struct_hash(), wanted.struct_hash()),
        "offer": SignedOffer(made, sign(made, Domain(CHAIN_ID, CONTROLLER), signer.key)),
        "request": SignedRequest(wanted, sign(wanted, Domain(CHAIN_ID, ESCROW), renter_key.key)),
        "phase": phase,
        "image": "millpond-task:1",
    }
    return Desired(**(values | changes))


def voucher(lease: Bytes32, cumulative: int, signer: Wallet = SESSION) -> VoucherNote:
    return VoucherNote(lease, cumulative, sign(Voucher(lease, cumulative), Domain(CHAIN_ID, ESCROW), signer.key))


def fact(lease: Bytes32, status: LeaseStatus = LeaseStatus.OPEN, **changes: Any) -> LeaseFact:
    values: dict[str, Any] = {"block": 10, "head_time": START, "opened_at": START, "ends_at": START + 3600}
    return LeaseFact(lease, status, **(values | changes))


def state(**changes: Any) -> WorkerState:
    return WorkerState(terms(**changes))


JOB = job_id(b"\1" * 32)


def spec(index: int = 0, **changes: Any) -> TaskSpec:
    values: dict[str, Any] = {"id": task_id(JOB, index), "index": index, "entry": "__mp_main__:double", "code": "bafy"}
    return TaskSpec(**(values | changes))


SOURCE = b"""
def double(x):
    return 2 * x

def shout(x):
    raise ValueError(f"no {x}")
"""


def code_block() -> tuple[str, bytes]:
    """CID and bytes of a code bundle with `double` and `shout`."""
    data = encode_bytes({"main": "job.py", "files": {"job.py": SOURCE}})
    return make_block(data).cid, data


def call(value: Any) -> bytes:
    return encode_bytes(((value,), {}))


@dataclass
class World:
    """An agent's parts on simulated ports; `journal` outlives agents."""

    folder: Path
    clock: SimClock = field(default_factory=lambda: SimClock(START))
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    net: SimNet = field(default_factory=SimNet)
    store: SimStore = field(default_factory=SimStore)
    launcher: FakeLauncher = field(default_factory=FakeLauncher)
    pace: Pace = field(default_factory=lambda: Pace(retry_first=0.5, retry_most=2.0))

    def __post_init__(self) -> None:
        self.chain = SimChain(POOL, NODE_REF, self.clock)

    def parts(self, instance: str = "first") -> Parts:
        template = OfferTemplate(DEVICE, slice_of(INFO, 600, 1024), PRICE, 86_400, NOTICE)
        return Parts(
            clock=self.clock,
            chain=self.chain,
            net=self.net,
            store=self.store,
            journal=self.journal,
            launcher=self.launcher,
            ledger=SliceLedger([INFO]),
            offers=OfferBook([template], CONTROLLER, CHAIN_ID, OPERATOR.key, 0),
            identity=Identity(OPERATOR, OWNER.address, instance, "test"),
            pool=POOL,
            devices={DEVICE: INFO},
            folder=self.folder,
            pace=self.pace,
        )


class SimNode:
    """The node's side of one connection."""

    def __init__(self, line: SimLine) -> None:
        self.line = line
        self.reports: list[Report] = []
        self.others: list[Any] = []
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def accept(cls, net: SimNet, *wanted: Desired, acked: int = 0) -> SimNode:
        line = await net.accepted.get()
        node = cls(line)
        await node.say(Welcome(NODE.address, acked, wanted))
        return node

    @property
    def hello(self) -> Hello:
        return next(message for message in self.others if isinstance(message, Hello))

    async def say(self, message: Any) -> None:
        await self.line.send(wire.write(message))

    async def run(self, lease: Bytes32, task: TaskSpec, attempt: int = 1) -> None:
        await self.say(Run(lease, attempt, task))

    def bodies(self, kind: type) -> list[Any]:
        return [report.body for report in self.reports if isinstance(report.body, kind)]

    async def cut(self) -> None:
        await self.line.close()
        self._task.cancel()

    async def _read(self) -> None:
        with contextlib.suppress(NodeUnreachableError):
            while True:
                for message in wire.read_worker_messages(await self.line.receive()):
                    (self.reports if isinstance(message, Report) else self.others).append(message)


def some32(number: int) -> Bytes32:
    return bytes32(number.to_bytes(32, "big"))
