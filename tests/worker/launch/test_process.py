"""What only the process launcher does, and the fake's own knobs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from millpond_worker.launch.errors import ContainerGoneError, ImageMissingError, RenterNotAllowedError
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.launch.port import CodeBundle, ContainerSpec, Launcher, Limits, TaskFrame, TaskOutcome, TaskStatus
from millpond_worker.launch.process import ProcessLauncher
from millpond_worker.launch.process_engine import is_alive, start_time, tree

SPEC = ContainerSpec("lease-1", "0xAa", "millpond-task:1", Limits(1000, 256), task="t", attempt=1)


def as_port(launcher: Launcher) -> Launcher:
    return launcher


async def test_stranger_is_refused_with_a_remedy(tmp_path: Path) -> None:
    launcher = ProcessLauncher("w", tmp_path, allowed_renters=["0xbb"])
    for action in (launcher.start(SPEC), launcher.run_cold(SPEC, ["true"])):
        with pytest.raises(RenterNotAllowedError) as caught:
            await action
        assert caught.value.fields["renter"] == "0xAa"
        assert "allow-list" in caught.value.remedy
    assert not (tmp_path / "process").exists()


async def test_allow_list_ignores_case_of_addresses(tmp_path: Path) -> None:
    launcher = ProcessLauncher("w", tmp_path, allowed_renters=["0xAA"])
    assert (await launcher.run_cold(SPEC, ["true"], 10.0)).status is TaskStatus.OK


def test_isolation_class_is_zero(tmp_path: Path) -> None:
    assert as_port(ProcessLauncher("w", tmp_path, allowed_renters=[])).isolation == 0


async def test_orphan_of_a_dead_worker_is_found_killed_and_removed(tmp_path: Path) -> None:
    first = ProcessLauncher("w", tmp_path, allowed_renters=["0xaa"])
    running = asyncio.create_task(first.run_cold(SPEC, ["sleep", "60"], 60.0))
    while not await first.list_owned():
        await asyncio.sleep(0.01)
    second = ProcessLauncher("w", tmp_path, allowed_renters=["0xaa"])
    (owned,) = await second.list_owned()
    assert (owned.kind, owned.lease, owned.task, owned.attempt, owned.is_running) == ("cold", "lease-1", "t", 1, True)
    with pytest.raises(ContainerGoneError):
        await second.adopt(owned)
    await second.wipe("lease-1")
    assert await second.list_owned() == []
    await asyncio.gather(running, return_exceptions=True)


async def test_list_owned_other_worker_sees_nothing(tmp_path: Path) -> None:
    launcher = ProcessLauncher("w", tmp_path, allowed_renters=["0xaa"])
    container = await launcher.start(SPEC)
    assert await ProcessLauncher("other", tmp_path, allowed_renters=[]).list_owned() == []
    await launcher.stop(container)


def test_is_alive_recycled_pid_is_not(tmp_path: Path) -> None:
    import os

    mine = {"pid": os.getpid(), "started": start_time(os.getpid())}
    assert is_alive(mine)
    assert not is_alive(mine | {"started": 1})
    assert tree(os.getpid())[0] == os.getpid()


# THE FAKE


def frame(source: bytes = b"def f(): return 1", task: str = "t") -> TaskFrame:
    from millpond.protocol.values import encode_bytes

    return TaskFrame(task, 1, CodeBundle({"m.py": source}), "m:f", encode_bytes(((), {})))


async def test_fake_unknown_image_is_missing() -> None:
    with pytest.raises(ImageMissingError):
        await as_port(FakeLauncher([])).start(SPEC)


async def test_fake_scripted_outcome_and_failure_are_used() -> None:
    launcher = FakeLauncher()
    container = await launcher.start(SPEC)
    launcher.outcomes["t", 1] = TaskOutcome("t", 1, TaskStatus.OOM)
    assert (await launcher.execute(container, frame())).status is TaskStatus.OOM
    launcher.failures["execute"] = ContainerGoneError("gone", container="c")
    with pytest.raises(ContainerGoneError):
        await launcher.execute(container, frame())
    assert launcher.calls["execute"] == 2


@pytest.mark.parametrize(("how", "status"), [("cancel", TaskStatus.CANCELLED), ("stop", TaskStatus.LOST)])
async def test_fake_held_task_ends_when_cancelled_or_stopped(how: str, status: TaskStatus) -> None:
    launcher = FakeLauncher()
    container = await launcher.start(SPEC)
    launcher.held.add("t")
    call = asyncio.create_task(launcher.execute(container, frame()))
    await asyncio.sleep(0.01)
    await (launcher.cancel(container, "t", 1) if how == "cancel" else launcher.stop(container))
    assert (await call).status is status


async def test_fake_paused_task_waits() -> None:
    launcher = FakeLauncher()
    container = await launcher.start(SPEC)
    await launcher.pause(container)
    call = asyncio.create_task(launcher.execute(container, frame()))
    await asyncio.sleep(0.02)
    assert not call.done()
    await launcher.unpause(container)
    assert (await call).status is TaskStatus.OK
