"""What a worker's last life left in the engine and cannot be removed: logged, tried again, its slice kept until it is gone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_life import Running, running, serve, until
from worker_world import SimNode, World

from millpond_worker.app import App
from millpond_worker.home import Home
from millpond_worker.launch.errors import EngineRefusedError
from millpond_worker.machine.model import LeaseState


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Sticky:
    """Makes the engine refuse to remove containers until `is_over`."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over, self.tried, self._good = False, 0, world.launcher.remove
        monkeypatch.setattr(world.launcher, "remove", self.remove)

    async def remove(self, found: Any) -> None:
        self.tried += 1
        if not self.is_over:
            raise EngineRefusedError("the device is busy", status=500, reason="busy")
        await self._good(found)


@pytest.fixture
def sticky(world: World, monkeypatch: pytest.MonkeyPatch) -> Sticky:
    return Sticky(world, monkeypatch)


async def test_start_with_a_container_that_cannot_be_removed_goes_on_and_logs_it(world, sticky, caplog) -> None:
    async with running(world):
        await serve(world)
    [left] = world.launcher.containers
    life = Running(world, "second")
    app = App(Home(world.folder), SimpleNamespace(parts=life.agent.parts))  # type: ignore[arg-type]
    await app._clean_start()
    assert sticky.tried == 1
    assert left in caplog.text
    await app.agent.background.close()


async def test_lease_waits_for_its_slice_until_the_leftover_is_gone(world: World, sticky: Sticky) -> None:
    async with running(world):
        _, lease = await serve(world)
    async with running(world, "second") as life:
        await SimNode.accept(world.net)
        await world.clock.advance(10)
        assert len(world.launcher.containers) == 1
        assert life.agent.state.leases[lease].state is LeaseState.STARTING
        assert life.agent.parts.ledger.held()[lease].share_per_mille == 600
        sticky.is_over = True
        await world.clock.advance(10)
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)
        assert len(world.launcher.containers) == 1
        assert life.agent.parts.ledger.held()[lease].share_per_mille == 600


async def test_slice_of_an_ended_lease_is_free_only_when_its_leftover_is_gone(world, sticky, monkeypatch) -> None:
    async with running(world):
        _, lease = await serve(world)
    world.chain.close_lease(lease)

    async def stuck(_: str) -> None:
        if not sticky.is_over:
            raise EngineRefusedError("the device is busy", status=500, reason="busy")

    monkeypatch.setattr(world.launcher, "wipe", stuck)
    async with running(world, "second") as life:
        await SimNode.accept(world.net)
        await world.clock.advance(10)
        assert lease in life.agent.parts.ledger.held()
        assert sticky.tried > 2
        sticky.is_over = True
        await world.clock.advance(10)
        await until(lambda: not life.agent.parts.ledger.held())
        assert not world.launcher.containers
