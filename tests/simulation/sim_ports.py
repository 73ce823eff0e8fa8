"""The daemons' ports over the simulated world: clock, journal on a disk that outlives its process, chain, store, engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from sim_chain import Outbox, Tx, check_rpc
from sim_loop import LIFE, START, Life
from sim_world import NODE

from millpond.chain.reverts import ContractRevertError
from millpond.protocol.ids import Address, Bytes32
from millpond.storage.errors import SourceError
from millpond.storage.journal import Batch, MemoryJournal
from millpond.storage.journal_memory import Image
from millpond.storage.journal_port import Committed
from millpond_node.chain.port import Announce, ChainBatch, DeviceFacts, Intent, PoolFacts, Refusal
from millpond_worker.edge.simulated import SimStore
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.launch.port import (
    Container,
    ContainerSpec,
    OnLog,
    OwnedContainer,
    TaskFrame,
    TaskOutcome,
    drop_log,
)
from millpond_worker.machine.commands import SendTx
from millpond_worker.machine.events import LeaseFact
from millpond_worker.ports import Head, NodeRef
from millpond_worker.ports import PoolFacts as WorkerPool

if TYPE_CHECKING:
    from sim_run import Sim


class SimClock:
    """Both daemons' clock."""

    def now(self) -> int:
        return int(START + self.monotonic())

    wall = now

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimJournal(MemoryJournal):
    """Writes to `disk`, one batch after the other, each a sync later; a killed process's batches are there or not, never by halves."""

    def __init__(self, sim: Sim, life: Life, disk: Image) -> None:
        super().__init__(disk)
        self._sim, self._life = sim, life
        self._queue: deque[tuple[Batch, Future[Committed]]] = deque()
        self._last = 0.0

    def submit(self, batch: Batch) -> Future[Committed]:
        future: Future[Committed] = Future()
        self._life.check()
        self._queue.append((batch, future))
        loop = asyncio.get_running_loop()
        self._last = max(self._last + 1e-6, loop.time() + self._sim.scenario.fsync)
        loop.call_at(self._last, self._sync)
        return future

    def _sync(self) -> None:
        batch, future = self._queue.popleft()
        tables = "+".join(sorted({getattr(change, "table", type(change).__name__.lower()) for change in batch.changes}))
        if not batch or self._sim.is_alive_at(self._life, f"before fsync {tables}"):
            done: Future[Committed] = Future()
            if self._life.is_dead:
                return
            self._write(batch, done)
            if not batch or self._sim.is_alive_at(self._life, f"after fsync {tables}"):
                future.set_result(done.result())


class NodeChain:
    def __init__(self, sim: Sim, life: Life, outbox: Outbox) -> None:
        self._sim, self._life, self._outbox = sim, life, outbox

    async def facts(self) -> PoolFacts:
        check_rpc(self._sim, self._life)
        return self._sim.ledger.pool

    async def device(self, device: Bytes32) -> DeviceFacts | None:
        check_rpc(self._sim, self._life)
        return self._sim.ledger.devices.get(device)

    async def free_escrow(self, renter: Address) -> int:
        check_rpc(self._sim, self._life)
        return self._sim.ledger.escrow.get(renter, 0)

    async def send(self, intent: Intent) -> Refusal | None:
        self._life.check()
        if isinstance(intent, Announce):
            return None
        code = await self._outbox.send(self._life, intent)
        return Refusal(intent.key, code, "refused by the simulated chain") if code else None

    async def batches(self, cursor: str) -> AsyncIterator[ChainBatch]:
        check_rpc(self._sim, self._life)
        async for batch in self._sim.ledger.batches(cursor):
            check_rpc(self._sim, self._life)
            yield batch

    async def aclose(self) -> None:
        return


class WorkerChain:
    def __init__(self, sim: Sim, life: Life, outbox: Outbox, pool: WorkerPool) -> None:
        self._sim, self._life, self._outbox, self._pool = sim, life, outbox, pool

    async def start(self) -> None:
        check_rpc(self._sim, self._life)

    async def pool(self) -> WorkerPool:
        return self._pool

    async def node(self) -> NodeRef:
        check_rpc(self._sim, self._life)
        return NodeRef(NODE.address, "http://node")

    async def head(self) -> Head:
        check_rpc(self._sim, self._life)
        ledger = self._sim.ledger
        return Head(len(ledger.blocks), ledger.now)

    async def facts(self, leases: Sequence[Bytes32]) -> list[LeaseFact]:
        check_rpc(self._sim, self._life)
        found = [self._sim.ledger.fact(lease) for lease in leases]
        await asyncio.sleep(self._sim.delay())
        check_rpc(self._sim, self._life)
        return found

    async def offer_epoch(self, device: Bytes32) -> int:
        check_rpc(self._sim, self._life)
        return 1

    async def cancel_offers(self, device: Bytes32, epoch: int) -> None:
        check_rpc(self._sim, self._life)

    async def unreserved(self, provider: Address) -> int:
        check_rpc(self._sim, self._life)
        return 10**30

    async def send(self, command: SendTx) -> None:
        kind, lease = command.kind.value, command.lease
        key = f"{self._life.name}/{kind}:{lease}:{command.number}"
        tx = Tx(key, self._life.name, kind, lease, command.cumulative, command.signature)
        code = await self._outbox.send(self._life, tx)
        if code:
            raise ContractRevertError(f"refused by the simulated chain: {code}")

    async def close(self) -> None:
        return


class LifeStore(SimStore):
    """Reads of the node: while it is away nothing is read but what is here."""

    def __init__(self, sim: Sim, life: Life, blocks: Any) -> None:
        super().__init__()
        self.blocks, self._sim, self._life = blocks, sim, life

    async def read(self, lease: Bytes32, cid: str, max_bytes: int) -> bytes:
        await asyncio.sleep(self._sim.delay())
        self._life.check()
        if self._sim.is_down("node"):
            raise SourceError("the simulated node is away")
        return await super().read(lease, cid, max_bytes)


class Machine(FakeLauncher):
    """A worker's engine: it, and what runs in it, outlives the worker. Tasks take `duration` seconds. `served`: seconds per lease."""

    def __init__(self, sim: Sim) -> None:
        super().__init__()
        self._sim = sim
        self.served: dict[str, float] = {}
        self._since: dict[str, float] = {}

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _goes(self, name: str) -> None:
        self._since.setdefault(name, self._now())

    def _rests(self, name: str) -> None:
        since, found = self._since.pop(name, None), self.containers.get(name)
        if since is not None and found is not None:
            self.served[found.spec.lease] = self.served.get(found.spec.lease, 0.0) + self._now() - since

    def _add(self, spec: ContainerSpec, kind: str) -> str:
        name = super()._add(spec, kind)
        if kind == "warm":
            self._goes(name)
        return name

    def _remove(self, name: str) -> None:
        self._rests(name)
        super()._remove(name)

    async def pause(self, container: Container) -> None:
        self._rests(container.id)
        await super().pause(container)

    async def unpause(self, container: Container) -> None:
        await super().unpause(container)
        self._goes(container.id)

    async def execute(self, container: Container, frame: TaskFrame, on_log: OnLog = drop_log) -> TaskOutcome:
        await asyncio.sleep(self._sim.duration(frame.task))
        return await super().execute(container, frame, on_log)

    async def run_cold(self, spec: ContainerSpec, *args: Any, **options: Any) -> TaskOutcome:
        name = self._add(spec, "cold")
        life = LIFE.get()
        try:
            await asyncio.sleep(self._sim.duration(spec.task))
            return await super().run_cold(spec, *args, **options)
        finally:
            if life is None or not life.is_dead:
                self._remove(name)

    def worker_died(self) -> None:
        """Warm runners read the end of their input and exit; their containers stay, as do cold ones, until somebody removes them."""
        for name, found in self.containers.items():
            if found.kind == "warm":
                self._rests(name)

    def owned(self) -> list[OwnedContainer]:
        return self._owned()


class Engine:
    """The machine as one life of the worker reaches it."""

    kind, isolation = FakeLauncher.kind, FakeLauncher.isolation

    def __init__(self, machine: Machine, life: Life) -> None:
        self._machine, self._life = machine, life

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._machine, name)

        async def call(*args: Any, **options: Any) -> Any:
            self._life.check()
            done = await method(*args, **options)
            self._life.check()
            return done

        return call
