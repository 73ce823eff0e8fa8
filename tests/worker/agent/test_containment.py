"""What goes wrong in one lease or attempt ends there; what goes wrong in the journal or the machines ends the process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from agent_life import DURATION, running, serve, until, with_code
from worker_world import SimNode, World, call, desired, spec

from millpond.protocol.link import AttemptEnded, AttemptLost, Ended, EndReason, LeasePhase, Ready
from millpond.storage.journal import JournalFailedError, MemoryJournal
from millpond_worker.agent import core, seal
from millpond_worker.agent.background import Background
from millpond_worker.machine.events import Tick


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch):
    """Makes the next call of a function raise an error that nobody expects."""

    def once(owner: object, name: str, error: Exception, *, is_async: bool = True) -> None:
        good = getattr(owner, name)

        def broken(*_: object, **__: object) -> object:
            monkeypatch.setattr(owner, name, good)
            raise error

        async def broken_later(*_: object, **__: object) -> object:
            return broken()

        monkeypatch.setattr(owner, name, broken_later if is_async else broken)

    return once


async def test_A11_launch_that_raises_the_unexpected_ends_its_lease_only(world: World, breaks, caplog) -> None:
    breaks(world.launcher, "start", RuntimeError("the engine burst"))
    async with running(world) as life:
        node = await SimNode.accept(world.net)
        first = desired(1, LeasePhase.SEEN)
        world.chain.open(first.lease, DURATION)
        await node.say(first)
        await until(lambda: node.bodies(Ended))
        assert node.bodies(Ended) == [Ended(first.lease, EndReason.LAUNCH_FAILED, "RuntimeError: the engine burst")]
        assert "Traceback" in caplog.text
        second = desired(2, LeasePhase.SEEN)
        world.chain.open(second.lease, DURATION)
        await node.say(second)
        await until(lambda: node.bodies(Ready))
        assert not life.agent.crashed.done()


async def lost_and_next(world: World, node: SimNode, lease: str, code: str, **spec_of_lost: object) -> AttemptLost:
    """The loss of one attempt, after which the next task runs as if nothing had been."""
    await node.run(lease, spec(0, **{"code": code, "args": call(1), **spec_of_lost}))
    await until(lambda: node.bodies(AttemptLost))
    await node.run(lease, spec(1, code=code, args=call(2)))
    await until(lambda: node.bodies(AttemptEnded))
    assert [body.signed.receipt.task for body in node.bodies(AttemptEnded)] == [spec(1).id]
    (lost,) = node.bodies(AttemptLost)
    return lost


@pytest.mark.parametrize(
    ("owner", "name", "changes", "is_async"),
    [
        ("launcher", "execute", {}, True),
        ("store", "read", {}, True),
        ("store", "put", {"args": call("x" * 50_000)}, True),
        ("seal", "ended", {}, False),
        ("seal", "left_of", {}, False),
    ],
)
async def test_A11_attempt_that_meets_the_unexpected_is_lost_alone_with_type_and_message(
    world: World, breaks, caplog, owner, name, changes, is_async
) -> None:
    code = await with_code(world)
    async with running(world) as life:
        node, lease = await serve(world)
        where = {"launcher": world.launcher, "store": world.store, "seal": seal}[owner]
        breaks(where, name, ZeroDivisionError("by nought"), is_async=is_async)
        lost = await lost_and_next(world, node, lease, code, **changes)
        assert lost.reason == "ZeroDivisionError: by nought"
        assert "Traceback" in caplog.text
        assert not life.agent.crashed.done()


async def test_A11_input_that_cannot_be_looked_up_loses_its_attempt_only(world: World, breaks) -> None:
    code = await with_code(world)
    async with running(world) as life:
        node, lease = await serve(world)
        breaks(life.agent.tasks.inputs, "at_hand", KeyError("index"), is_async=False)
        lost = await lost_and_next(world, node, lease, code)
        assert lost.reason == "KeyError: 'index'"


async def test_clearing_that_meets_the_unexpected_is_tried_again(world: World, breaks) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        breaks(world.launcher, "wipe", RuntimeError("busy"))
        world.chain.close_lease(lease)
        await node.say(desired(1, LeasePhase.CLOSED))
        await world.clock.advance(3)
        await until(lambda: node.bodies(Ended))
        assert not world.launcher.containers
        assert not life.agent.crashed.done()


async def test_round_that_meets_the_unexpected_is_followed_by_the_next(world: World, breaks) -> None:
    async with running(world) as life:
        _, lease = await serve(world)
        breaks(world.launcher, "list_owned", RuntimeError("odd engine"))
        breaks(world.chain, "facts", RuntimeError("odd chain"))
        await life.rounds.reconcile()
        world.chain.close_lease(lease)
        await life.rounds.reconcile()
        await until(lambda: not world.launcher.containers)


async def test_orphan_that_cannot_be_removed_does_not_keep_the_others(world: World, breaks) -> None:
    async with running(world) as life:
        _, _ = await serve(world)
        life.agent.leases.hosts.clear()
        found = next(iter(world.launcher.containers.values()))
        world.launcher._add(found.spec, "warm")
        breaks(world.launcher, "remove", RuntimeError("stuck"))
        await life.agent.leases.kill_orphans()
        assert len(world.launcher.containers) == 1


async def test_each_lost_attempt_is_logged_with_lease_task_number_and_reason(world: World, caplog) -> None:
    async with running(world):
        node, lease = await serve(world)
        task = spec(0, code="bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy", args=call(1))
        with caplog.at_level(logging.WARNING, "millpond_worker"):
            await node.run(lease, task, attempt=3)
            await until(lambda: node.bodies(AttemptLost))
        said = [record.getMessage() for record in caplog.records if "lost" in record.getMessage()]
        assert len(said) == 1
        assert all(part in said[0] for part in (lease, task.id, "3", node.bodies(AttemptLost)[0].reason))


async def test_journal_failure_in_the_background_is_never_contained() -> None:
    crashes: list[BaseException] = []
    told: list[Exception] = []
    background = Background(crashes.append)

    async def fails(error: Exception) -> None:
        raise error

    background.start(fails(JournalFailedError("disk")), "write", on_error=told.append)
    background.start(fails(ValueError("odd")), "run", on_error=told.append)
    background.start(fails(TypeError("defect")), "defect")
    await asyncio.sleep(0.01)
    assert [type(error) for error in crashes] == [JournalFailedError, TypeError]
    assert [type(error) for error in told] == [ValueError]


async def test_defect_in_the_machines_ends_the_process_and_commits_nothing_half_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = await with_code(world)
    async with running(world) as life:
        node, lease = await serve(world)
        await until(lambda: not life.agent._dirty.is_set())
        before = world.journal.image()
        good = core.handle

        def broken(state, event, now):
            good(state, event, now)
            raise AssertionError("a defect")

        monkeypatch.setattr(core, "handle", broken)
        await node.run(lease, spec(0, code=code, args=call(1)))
        await until(life.agent.crashed.done)
        assert isinstance(life.agent.crashed.exception(), AssertionError)
        life.agent.post(Tick())
        await life.agent.commit()
        assert world.journal.image() == before


async def test_O02_run_that_died_before_its_commit_is_executed_when_it_comes_again(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    world.launcher.held.add(task.id)
    async with running(world):
        node, lease = await serve(world)
        world.journal._holds = True
        survives = world.journal.image()
        await node.run(lease, task)
        await until(lambda: world.launcher.calls["execute"])
    world.launcher.held.clear()
    world.journal = MemoryJournal(survives)
    async with running(world, "second"):
        back = await SimNode.accept(world.net, desired(1, LeasePhase.SEEN))
        await back.run(lease, task)
        await until(lambda: back.bodies(AttemptEnded))
        assert [body.signed.receipt.attempt for body in back.bodies(AttemptEnded)] == [1]
        assert not back.bodies(AttemptLost)
