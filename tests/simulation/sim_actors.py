"""The processes: the real agents of worker and node on simulated ports, and a renter made of the SDK's own leases, payers and jobs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sim_chain import Tx
from sim_loop import Life
from sim_net import SimNet, SimTransport
from sim_ports import Engine, LifeStore, NodeChain, SimClock, SimJournal, WorkerChain
from sim_world import (
    CHAIN_ID,
    CONTROLLER,
    CONTROLLER_DOMAIN,
    ESCROW,
    HOSTS,
    NODE,
    PRICE,
    RENTER,
    SESSION,
    job_of,
    node_pool,
    request,
    specs,
    worker_pool,
)

from millpond._asyncleases import AsyncLease
from millpond._job import Job
from millpond._nodeapi import Identity as Signer
from millpond._nodeapi import NodeApi
from millpond._sessions import Session
from millpond._settlement import Settlement
from millpond.errors import MillpondError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import SignedRequest, TaskResult
from millpond.protocol.views import LeaseView, RequestState
from millpond_node.agent import Agent as NodeAgent
from millpond_node.api.app import build_app
from millpond_node.config import Limits, NodeConfig
from millpond_worker.agent.core import Agent as WorkerAgent
from millpond_worker.agent.link import Link
from millpond_worker.agent.parts import Identity, Pace, Parts
from millpond_worker.agent.rounds import Rounds
from millpond_worker.devices.slices import SliceLedger, slice_of
from millpond_worker.machine.events import Restarted
from millpond_worker.machine.model import AttemptKey
from millpond_worker.offers import OfferBook, OfferTemplate

if TYPE_CHECKING:
    from sim_run import Sim


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """A running node as others reach it."""

    life: Life
    agent: NodeAgent
    app: Any


async def node(sim: Sim, life: Life) -> None:
    outbox, clock = sim.outboxes["node"], SimClock()
    config = NodeConfig(Path(), "sim", CHAIN_ID, CONTROLLER, dev_key=0, batch_seconds=2.0, limits=Limits())
    chain, journal = NodeChain(sim, life, outbox), SimJournal(sim, life, sim.disks["node"])
    agent = NodeAgent(config, node_pool(), NODE.key, chain, journal, sim.node_blocks, clock)
    agent.start()
    sim.node = NodeEnd(life, agent, build_app(agent))
    sim.in_life(life, outbox.broadcast_forever(life))
    await agent.run()


async def worker(sim: Sim, life: Life) -> None:
    agent = WorkerAgent(parts_of(sim, life))
    sim.watch.worker_revived(life, agent)
    link = Link(agent)
    link._jitter = random.Random(f"{sim.seed}/{life}")
    rounds = Rounds(agent, link)
    sim.workers[life.name] = agent
    sim.in_life(life, sim.outboxes[life.name].broadcast_forever(life))
    owned = await agent.leases.sweep()
    cold = [AttemptKey(Bytes32(it.lease), Bytes32(it.task), it.attempt) for it in owned if it.kind == "cold"]
    agent.post(Restarted(frozenset(cold)))
    await rounds.renew()
    loops = (
        agent.commit_forever(),
        link.run(),
        rounds.tick_forever(),
        rounds.reconcile_forever(),
        rounds.renew_forever(),
    )
    done, _ = await asyncio.wait(
        [agent.crashed, *(asyncio.ensure_future(loop) for loop in loops)], return_when=asyncio.FIRST_COMPLETED
    )
    for task in done:
        task.result()


def parts_of(sim: Sim, life: Life) -> Parts:
    host = HOSTS[life.name]
    template = OfferTemplate(host.device, slice_of(host.info, 500, 1024), PRICE, 86_400, 120)
    pool = worker_pool(sim.scenario)
    return Parts(
        clock=SimClock(),
        chain=WorkerChain(sim, life, sim.outboxes[life.name], pool),
        net=SimNet(sim, life),
        store=LifeStore(sim, life, sim.code_blocks),
        journal=SimJournal(sim, life, sim.disks[life.name]),
        launcher=Engine(sim.machines[life.name], life),
        ledger=SliceLedger([host.info]),
        offers=OfferBook([template], CONTROLLER, CHAIN_ID, host.operator.key, 0),
        identity=Identity(host.operator, host.owner, str(life), "0.1.0"),
        pool=pool,
        devices={host.device: host.info},
        folder=sim.folder / life.name,
        pace=Pace(retry_first=0.5, retry_most=2.0),
    )


@dataclass
class RenterDisk:
    """What the renter's process finds when it starts again."""

    requests: dict[int, SignedRequest] = field(default_factory=dict)
    results: dict[Bytes32, TaskResult] = field(default_factory=dict)
    is_done: bool = False
    closed: set[Bytes32] = field(default_factory=set)


class Client:
    """As much of `AsyncClient` as a lease asks of it."""

    def __init__(self, sim: Sim, life: Life) -> None:
        self.api = NodeApi("http://node", transport=SimTransport(sim, life))
        self.api.sign_as(Signer(RENTER.key, CONTROLLER_DOMAIN, NODE.address))
        self.chain = RenterChain(sim, life)
        self.pool = SimpleNamespace(chain_id=CHAIN_ID, escrow=ESCROW)
        self.sessions = SimpleNamespace(forget=lambda request: None)


class RenterChain:
    def __init__(self, sim: Sim, life: Life) -> None:
        self._sim, self._life = sim, life

    async def close_lease(self, lease: Bytes32) -> None:
        if not self._sim.ledger.fact(lease).closed_at:
            tx = Tx(f"renter/close:{lease}", "renter", "close", lease)
            await self._sim.outboxes["renter"].send(self._life, tx)

    async def collect(self, lease: Bytes32, cumulative: int, signature: bytes) -> None:
        self._sim.watch.renter_signed(lease, cumulative)
        tx = Tx(f"renter/collect:{lease}", "renter", "collect", lease, cumulative, signature)
        await self._sim.outboxes["renter"].send(self._life, tx)

    async def is_settled(self, lease: Bytes32) -> bool:
        return self._sim.ledger.fact(lease).is_settled

    async def settlement(self, lease: Bytes32) -> Settlement:
        fact = self._sim.ledger.fact(lease)
        return Settlement(lease, 0, fact.collected, 0, 0, 0, fact.is_settled)


async def renter(sim: Sim, life: Life) -> None:
    """Rents, runs the jobs one after the other, stays a while, closes. Starts again from its disk after an error."""
    disk, sim_client = sim.renter_disk, Client(sim, life)
    sim.in_life(life, sim.outboxes["renter"].broadcast_forever(life))
    try:
        await _rent_and_work(sim, life, disk, sim_client)
    except MillpondError as error:
        sim.notes.append(f"renter: {error.message}")
        sim.kill("renter", sim.scenario.restart)
        life.check()
    sim.point(life, "done")
    disk.is_done = True
    while True:
        await asyncio.sleep(3600.0)


async def _rent_and_work(sim: Sim, life: Life, disk: RenterDisk, client: Client) -> None:
    for number in range(sim.scenario.leases):
        if number not in disk.requests:
            sim.point(life, "before keeping a request")
            disk.requests[number] = request(number + 1, int(sim.wall()))
            sim.point(life, "after keeping a request")
        await client.api.post_request(disk.requests[number])
    leases = [await _opened(client, disk.requests[number]) for number in range(sim.scenario.leases)]
    if not sim.has_all_results():
        await asyncio.gather(*(lease.wait_ready() for lease in leases))
        for number, count in enumerate(sim.scenario.tasks):
            await _work(sim, life, client, number, count, [leases[at].id for at in sim.scenario.job_leases[number]])
    await asyncio.sleep(max(0.0, sim.scenario.stay - sim.time()))
    for lease in leases:
        if lease.id not in disk.closed:
            await lease.close()
            sim.point(life, "before noting a closed lease")
            disk.closed.add(lease.id)


async def _opened(client: Client, signed: SignedRequest) -> AsyncLease:
    hash_ = signed.request.struct_hash()
    while True:
        view = await client.api.request(hash_, wait_s=10)
        if view.state is RequestState.OPEN and view.lease is not None:
            break
        await asyncio.sleep(0.5)
    found: LeaseView = await client.api.lease(view.lease)
    return AsyncLease(client, found, Session(hash_, SESSION.key))  # type: ignore[arg-type]


async def _work(sim: Sim, life: Life, client: Client, number: int, count: int, leases: list[Bytes32]) -> None:
    """The job's tasks are sent again by every life: the node takes each once, and gives all results again."""
    job = Job(client.api, leases)
    job.id = job_of(number)

    def keep(result: TaskResult) -> None:
        sim.watch.renter_got(result)
        sim.point(life, "before keeping a result")
        sim.renter_disk.results[result.task] = result
        sim.point(life, "after keeping a result")

    job.watch(keep)
    tasks = specs(number, count)
    futures = await job.send(tasks[: count // 2])
    futures += await job.send(tasks[count // 2 :])
    await asyncio.gather(*futures)
    await job.aclose()
