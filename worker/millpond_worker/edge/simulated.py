"""Simulated chain, node line and data plane: the worker's world in one process, with faults a test can set."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from millpond.chain.errors import RpcUnreachableError
from millpond.protocol.errors import ChainError, MillpondError
from millpond.protocol.ids import Address, Bytes32
from millpond.storage.budget import Budget
from millpond.storage.cid import Cid, parse_cid
from millpond.storage.files import add_bytes, read_bytes
from millpond.storage.memory import MemoryStore
from millpond_worker.errors import NodeUnreachableError
from millpond_worker.machine.commands import SendTx
from millpond_worker.machine.events import LeaseFact, LeaseStatus
from millpond_worker.machine.model import TxKind
from millpond_worker.ports import Clock, Head, Line, NodeRef, PoolFacts


class SimChain:
    """`Chain` whose leases a test opens and closes. `is_down` makes every call fail; `refusals` maps kinds to errors."""

    def __init__(self, pool: PoolFacts, node: NodeRef, clock: Clock) -> None:
        self._pool, self._node, self._clock = pool, node, clock
        self.leases: dict[Bytes32, LeaseFact] = {}
        self.block = 100
        self.epoch = 0
        self.stake = 10**30
        self.is_down = False
        self.sent: list[SendTx] = []
        self.cancelled: list[tuple[Bytes32, int]] = []
        self.ahead = 0
        self.refusals: dict[TxKind, ChainError] = {}

    def open(self, lease: Bytes32, duration: int) -> None:
        """Opens a lease in a new block."""
        now = self._clock.now()
        self.block += 1
        self.leases[lease] = LeaseFact(lease, LeaseStatus.OPEN, self.block, now, opened_at=now, ends_at=now + duration)

    def close_lease(self, lease: Bytes32) -> None:
        self.block += 1
        self.leases[lease] = replace(self.leases[lease], status=LeaseStatus.CLOSED, closed_at=self._clock.now())

    def drop(self, lease: Bytes32) -> None:
        """A reorganisation takes the lease back."""
        self.block += 1
        del self.leases[lease]

    async def start(self) -> None:
        self._answer()

    async def pool(self) -> PoolFacts:
        self._answer()
        return self._pool

    async def node(self) -> NodeRef:
        self._answer()
        return self._node

    async def head(self) -> Head:
        self._answer()
        return Head(self.block, self._clock.now() + self.ahead)

    async def facts(self, leases: Sequence[Bytes32]) -> list[LeaseFact]:
        self._answer()
        await asyncio.sleep(0)
        none = LeaseFact(Bytes32(""), LeaseStatus.NONE, 0, 0)
        return [
            replace(self.leases.get(lease, none), lease=lease, block=self.block, head_time=self._clock.now())
            for lease in leases
        ]

    async def offer_epoch(self, device: Bytes32) -> int:
        self._answer()
        return self.epoch

    async def cancel_offers(self, device: Bytes32, epoch: int) -> None:
        self._answer()
        self.cancelled.append((device, epoch))
        self.epoch = max(self.epoch, epoch + 1)

    async def unreserved(self, provider: Address) -> int:
        self._answer()
        return self.stake

    async def send(self, command: SendTx) -> None:
        self._answer()
        self.sent.append(command)
        if command.kind in self.refusals:
            raise self.refusals[command.kind]
        self._apply(command)

    async def close(self) -> None:
        return

    def _apply(self, command: SendTx) -> None:
        fact, now = self.leases[command.lease], self._clock.now()
        self.block += 1
        match command.kind:
            case TxKind.NOTICE:
                fact = replace(fact, notice_ends_at=now + 30)
            case TxKind.COLLECT:
                fact = replace(fact, collected=max(fact.collected, command.cumulative))
            case TxKind.DEMAND:
                fact = replace(fact, demanded_at=now)
            case TxKind.CLOSE | TxKind.CLOSE_UNPAID:
                fact = replace(fact, status=LeaseStatus.CLOSED, closed_at=now)
            case TxKind.COLLECT_FINAL:
                fact = replace(fact, is_settled=True)
            case TxKind.RELEASE:
                fact = replace(fact, status=LeaseStatus.RELEASED)
        self.leases[command.lease] = fact

    def _answer(self) -> None:
        if self.is_down:
            raise RpcUnreachableError("the simulated RPC is down", url="sim")


class SimLine:
    """One side of an in-memory connection."""

    def __init__(self, inbox: asyncio.Queue[bytes | None], outbox: asyncio.Queue[bytes | None]) -> None:
        self._in, self._out = inbox, outbox
        self.is_cut = False

    async def send(self, frame: bytes) -> None:
        if self.is_cut:
            raise NodeUnreachableError("the simulated line is cut", url="sim")
        self._out.put_nowait(frame)

    async def receive(self) -> bytes:
        frame = None if self.is_cut else await self._in.get()
        if frame is None:
            self.is_cut = True
            raise NodeUnreachableError("the simulated line is cut", url="sim")
        return frame

    async def close(self) -> None:
        self.is_cut = True
        self._out.put_nowait(None)


@dataclass
class SimNet:
    """`Net` that hands the node's side of each connection to `accepted`. `is_down` refuses connections."""

    is_down: bool = False
    accepted: asyncio.Queue[SimLine] = field(default_factory=asyncio.Queue)

    async def connect(self, node: NodeRef) -> Line:
        if self.is_down:
            raise NodeUnreachableError("the simulated node is down", url=node.url)
        up: asyncio.Queue[bytes | None] = asyncio.Queue()
        down: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.accepted.put_nowait(SimLine(up, down))
        return SimLine(down, up)


class SimStore:
    """`Store` in memory. `failures` maps CIDs (or "put") to the error the next call raises."""

    def __init__(self) -> None:
        self.blocks = MemoryStore(256 << 20)
        self.failures: dict[str, MillpondError] = {}
        self.forgotten: list[Bytes32] = []

    def use(self, node: NodeRef) -> None:
        return

    async def read(self, lease: Bytes32, cid: str, max_bytes: int) -> bytes:
        self._fail(cid)
        return await read_bytes(self.blocks, parse_cid(cid), budget=Budget(max_bytes=max_bytes))

    async def export(self, lease: Bytes32, cid: str, target: Path, max_bytes: int) -> None:
        data = await self.read(lease, cid, max_bytes)
        await asyncio.to_thread(target.write_bytes, data)

    async def put(self, data: bytes) -> Cid:
        self._fail("put")
        return await add_bytes(self.blocks, data)

    async def put_folder(self, files: Mapping[str, Path]) -> str:
        self._fail("put")
        cids = {
            name: await add_bytes(self.blocks, await asyncio.to_thread(path.read_bytes)) for name, path in files.items()
        }
        listing = "\n".join(f"{name} {cids[name]}" for name in sorted(cids))
        return await add_bytes(self.blocks, listing.encode())

    def forget(self, lease: Bytes32) -> None:
        self.forgotten.append(lease)

    async def close(self) -> None:
        return

    def _fail(self, name: str) -> None:
        if name in self.failures:
            raise self.failures.pop(name)
