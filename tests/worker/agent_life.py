"""Lives of an agent on simulated ports, and what most tests of it begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from worker_world import SimNode, World, code_block, desired

from millpond.protocol.link import LeasePhase, Ready
from millpond.storage.blocks import make_block
from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.agent.rounds import Rounds
from millpond_worker.machine.events import Restarted

DURATION = 3600


class Running:
    """One life of the agent."""

    def __init__(self, world: World, instance: str = "first") -> None:
        self.world = world
        self.agent = Agent(world.parts(instance))
        self.link = Link(self.agent)
        self.rounds = Rounds(self.agent, self.link)
        self.jobs: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.agent.post(Restarted())
        await self.rounds.renew()
        loops = (
            self.agent.commit_forever(),
            self.link.run(),
            self.rounds.tick_forever(),
            self.rounds.reconcile_forever(),
        )
        self.jobs = [asyncio.create_task(loop) for loop in loops]

    async def kill(self) -> None:
        """As kill -9 would: nothing more is written or sent."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)
        self.agent._is_deaf = True
        await self.agent.background.close()


@asynccontextmanager
async def running(world: World, instance: str = "first") -> AsyncIterator[Running]:
    life = Running(world, instance)
    await life.start()
    try:
        yield life
    finally:
        await life.kill()


async def until(condition: Callable[[], object], rounds: int = 400) -> None:
    for _ in range(rounds):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


async def until_later(world: World, condition: Callable[[], object], seconds: int = 400) -> None:
    """Lets the world's time pass as far as it has to. What runs in threads takes real time too, however busy the machine is."""
    for _ in range(seconds):
        if condition():
            return
        await world.clock.advance(1)
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


async def serve(world: World, nonce: int = 1) -> tuple[SimNode, str]:
    """A connected node and a lease that is ready."""
    node = await SimNode.accept(world.net)
    hint = desired(nonce)
    await node.say(hint)
    world.chain.open(hint.lease, DURATION)
    await node.say(desired(nonce, LeasePhase.SEEN))
    await until(lambda: [body for body in node.bodies(Ready) if body.lease == hint.lease])
    return node, hint.lease


async def with_code(world: World) -> str:
    cid, data = code_block()
    await world.store.blocks.put(make_block(data))
    return cid
