"""One run: the processes, their disks, the faults, and the points at which a crash may be planned."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import anyio.to_thread
import sim_actors
from sim_chain import Ledger, Outbox
from sim_checks import Watch, is_quiet, violations
from sim_loop import LIFE, START, Life, StandstillError, VirtualLoop, VirtualTime, at_once
from sim_net import Wire
from sim_ports import Machine
from sim_world import BUNDLE, CONTROLLER, HOSTS, WORKERS, Scenario

import millpond._asyncleases
import millpond._nodeapi
import millpond._pay
from millpond.storage.blocks import make_block
from millpond.storage.journal_memory import Image
from millpond.storage.memory import MemoryStore
from millpond_node.chain.port import DeviceFacts

MAINS: dict[str, Callable[[Any, Life], Coroutine[Any, Any, None]]] = {
    "node": sim_actors.node,
    "renter": sim_actors.renter,
    **dict.fromkeys(WORKERS, sim_actors.worker),
}


@dataclass
class Report:
    """What came of a run. `points`: (who, what) in order; those of the chain are its blocks."""

    points: list[tuple[str, str]]
    violations: list[str]
    faults: list[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """At `at` seconds, or at a point, `who` is killed for `away` seconds; `what` says of a chain or a line what happens instead."""

    who: str
    away: float
    what: str = "kill"
    depth: int = 0
    at: float = 0.0


@dataclass
class Sim:
    seed: int
    scenario: Scenario
    folder: Path
    plan: Mapping[int, Fault] = field(default_factory=dict)
    timed: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.points: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.broken: list[str] = []
        self.wires: list[Wire] = []
        self.lives: dict[str, Life] = {}
        self.node: sim_actors.NodeEnd | None = None
        self.workers: dict[str, Any] = {}
        self.disks = {name: Image() for name in ("node", *WORKERS)}
        self.outboxes = {name: Outbox(self) for name in MAINS}
        self.machines = {name: Machine(self) for name in WORKERS}
        self.renter_disk = sim_actors.RenterDisk()
        self.node_blocks, self.code_blocks = MemoryStore(1 << 30), MemoryStore(1 << 24)
        self.watch = Watch(self)
        self.ledger = Ledger(START, (self.scenario.claim_window, self.scenario.dispute_window))
        for host in HOSTS.values():
            facts = DeviceFacts(host.device, host.owner, host.operator.address, CONTROLLER, 1, 4096, False)
            self.ledger.devices[host.device] = facts
        self._is_chain_down = False
        self._no_rpc: set[str] = set()
        self._is_over = False

    # WHAT THE WORLD IS LIKE

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return START + self.time()

    def delay(self) -> float:
        return self.random.uniform(*self.scenario.delay)

    def loses(self) -> bool:
        return self.random.random() < self.scenario.loss

    def duration(self, task: str) -> float:
        return 0.5 + 2.5 * random.Random(f"{self.seed}/{task}").random()

    def has_rpc(self, name: str) -> bool:
        return not self._is_chain_down and name not in self._no_rpc

    def is_down(self, name: str) -> bool:
        return name not in self.lives or self.lives[name].is_dead

    def is_partitioned(self, name: str) -> bool:
        return f"net {name}" in self._no_rpc

    def has_all_results(self) -> bool:
        return len(self.renter_disk.results) == sum(self.scenario.tasks)

    # POINTS

    def point(self, life: Life, what: str) -> None:
        """A point of a process's own code: nothing after it is performed where the plan kills it here."""
        life.check()
        self._hit(life.name, what)
        life.check()

    def is_alive_at(self, life: Life, what: str) -> bool:
        """A point beside a process's code, as the disk's."""
        if not life.is_dead:
            self._hit(life.name, what)
        return not life.is_dead

    def _hit(self, who: str, what: str) -> None:
        fault = self.plan.get(len(self.points))
        self.points.append((who, what))
        if fault is not None:
            self.strike(fault, f"{who}: {what}")

    # FAULTS

    def strike(self, fault: Fault, where: str) -> None:
        if self._is_over:
            return
        self.faults.append(f"{fault.what} {fault.who} for {fault.away:g} s at {self.time():.3f} ({where})")
        loop = asyncio.get_running_loop()
        match fault.what:
            case "kill":
                self.kill(fault.who, fault.away)
            case "rollback":
                self._is_chain_down = True
                loop.call_later(fault.away, self._restart_chain, fault.depth)
            case "reorg":
                self._roll(fault.depth)
            case "rpc":
                self._no_rpc.add(fault.who)
                loop.call_later(fault.away, self._no_rpc.discard, fault.who)
            case "cut":
                self._cut(fault)

    def _cut(self, fault: Fault) -> None:
        """The worker's line goes; for a while there is no other."""
        name = f"net {fault.who}"
        self._no_rpc.add(name)
        asyncio.get_running_loop().call_later(fault.away, self._no_rpc.discard, name)
        for wire in self.wires:
            if wire.ends[0].name == fault.who and not wire.is_cut:
                wire.cut(is_silent=bool(fault.depth))

    def _restart_chain(self, depth: int) -> None:
        self._roll(depth)
        self._is_chain_down = False

    def _roll(self, depth: int) -> None:
        self.ledger.rollback(min(depth, len(self.ledger.blocks)))

    def kill(self, name: str, away: float) -> None:
        """kill -9: not one instruction more; what it had sent may still arrive, or not."""
        life = self.lives[name]
        if life.is_dead:
            return
        life.is_dead = True
        self.watch.died(name)
        if name in self.machines:
            self.machines[name].worker_died()
        for wire in self.wires:
            if life in wire.ends and not wire.is_cut:
                self._end(wire)
        self.wires = [wire for wire in self.wires if not wire.is_cut]
        for task in list(life.tasks):
            task.cancel()
        asyncio.get_running_loop().call_later(away, self.boot, name)

    def _end(self, wire: Wire) -> None:
        if self.random.random() < 0.5:
            wire.cut()
        else:
            wire.push("node", None)
            wire.push("worker", None)

    def boot(self, name: str) -> None:
        if self._is_over:
            return
        number = self.lives[name].number + 1 if name in self.lives else 1
        life = self.lives[name] = Life(name, number)
        self.in_life(life, MAINS[name](self, life)).add_done_callback(partial(self._ended, life))

    def in_life(self, life: Life, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = copy_context()
        context.run(LIFE.set, life)
        return asyncio.get_running_loop().create_task(work, context=context)

    def _ended(self, life: Life, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if not life.is_dead and not self._is_over:
            self.broken.append(f"{life} ended by itself: {error!r}")

    # THE RUN

    async def run(self) -> Report:
        await self.code_blocks.put(make_block(BUNDLE))
        for name in MAINS:
            self.boot(name)
        loop = asyncio.get_running_loop()
        for fault in self.timed:
            loop.call_later(fault.at, self.strike, fault, "timed")
        blocks = loop.create_task(self._mine())
        while self.time() < self.scenario.most and not self.broken and not is_quiet(self):
            await asyncio.sleep(2.0)
        found = violations(self)
        self._is_over = True
        for life in self.lives.values():
            life.is_dead = True
            for task in list(life.tasks):
                task.cancel()
        blocks.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        return Report(self.points, found, self.faults, self.time())

    async def _mine(self) -> None:
        while True:
            await asyncio.sleep(self.scenario.block)
            if not self._is_chain_down:
                self.ledger.now = int(self.wall())
                self.ledger.mine()
                self._hit("chain", f"block {len(self.ledger.blocks)}")


@contextmanager
def virtual_time() -> Any:
    """The SDK asks `time` itself, storage hands work to threads."""
    modules = (millpond._asyncleases, millpond._nodeapi, millpond._pay)
    patches: list[Any] = [mock.patch.object(module, "time", VirtualTime) for module in modules]
    patches.append(mock.patch.object(anyio.to_thread, "run_sync", at_once))
    try:
        for patch in patches:
            patch.start()
        yield
    finally:
        for patch in patches:
            patch.stop()


def simulate(
    seed: int,
    scenario: Scenario | None = None,
    plan: Mapping[int, Fault] | None = None,
    timed: tuple[Fault, ...] = (),
) -> Report:
    """Plays a scenario; the same arguments give the same run."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda loop, context: None)
    try:
        with virtual_time(), tempfile.TemporaryDirectory() as folder:
            sim = Sim(seed, scenario or Scenario(), Path(folder), plan or {}, timed)
            for name in WORKERS:
                (sim.folder / name).mkdir()
            return loop.run_until_complete(sim.run())
    except StandstillError as error:
        return Report(sim.points, [str(error)], sim.faults, 0.0)
    finally:
        loop.close()
