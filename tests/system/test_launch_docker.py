"""Containers as renters meet them: two unequal slices of one device, both limits enforced, and attacks on the walls."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from millpond.protocol.values import decode, encode_bytes
from millpond_worker.devices.cpu import CpuGpu
from millpond_worker.devices.slices import SliceLedger, slice_of
from millpond_worker.launch.docker import DockerLauncher
from millpond_worker.launch.errors import CommandStartError, EngineUnavailableError, ImageMissingError, RunnerStartError
from millpond_worker.launch.limits import limits_of
from millpond_worker.launch.port import (
    CodeBundle,
    Container,
    ContainerSpec,
    Limits,
    OwnedContainer,
    TaskFrame,
    TaskStatus,
)

IMAGE = "millpond-task:1"
RENTER = "0x00000000000000000000000000000000000000Aa"


def docker_missing() -> str:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect("/var/run/docker.sock")
        except OSError as error:
            return f"no Docker engine: {error}"
    return ""


pytestmark = [pytest.mark.docker, pytest.mark.skipif(bool(docker_missing()), reason=docker_missing())]

SOURCE = b"""
import os, socket, subprocess, sys, time, ctypes

def busy(seconds):
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - wall < seconds:
        sum(range(1000))
    return time.process_time() - cpu, time.monotonic() - wall
def allocate(mib):
    block = bytearray(mib << 20)
    for position in range(0, len(block), 4096): block[position] = 1
    return len(block)
def ping(): return "alive"
def bomb():
    born = 0
    while born < 5000:
        try:
            if os.fork() == 0:
                time.sleep(30); os._exit(0)
        except OSError:
            return born
        born += 1
    return born
def fill(path, mib):
    try:
        with open(path, "wb") as file:
            for done in range(mib): file.write(bytes(1 << 20))
    except OSError as error:
        return type(error).__name__, os.stat(path).st_size >> 20 if os.path.exists(path) else 0
    return "filled", mib
def inodes(folder):
    made = 0
    try:
        while made < 200000:
            open(os.path.join(folder, str(made)), "w").close(); made += 1
    except OSError:
        return made
    return made
def connect(host, port):
    try:
        socket.create_connection((host, port), timeout=3).close()
    except OSError as error:
        return type(error).__name__
    return "connected"
def interfaces(): return sorted(os.listdir("/sys/class/net"))
def environment(): return dict(os.environ)
def processes(): return [pid for pid in os.listdir("/proc") if pid.isdigit()]
def status(): return open("/proc/self/status").read()
def read(path):
    try: return open(path, "rb").read()
    except OSError as error: return type(error).__name__
def kill(pid):
    try: os.kill(pid, 9)
    except OSError as error: return type(error).__name__
    return "killed"
def unshare_user():
    return ctypes.CDLL(None, use_errno=True).unshare(0x10000000)
def mount():
    return ctypes.CDLL(None, use_errno=True).mount(b"none", b"/tmp", b"tmpfs", 0, None)
def setuid_root():
    try: os.setuid(0)
    except OSError as error: return type(error).__name__
    return "root"
def mounts(): return open("/proc/self/mounts").read()
"""
CODE = CodeBundle({"job.py": SOURCE})


def spec(lease: str = "lease-1", **changes: Any) -> ContainerSpec:
    return ContainerSpec(**({"lease": lease, "renter": RENTER, "image": IMAGE, "limits": Limits(1000, 256)} | changes))


def frame(entry: str, *args: Any, limit_s: float = 30.0) -> TaskFrame:
    return TaskFrame(secrets.token_hex(4), 1, CODE, f"job:{entry}", encode_bytes((args, {})), limit_s)


@pytest_asyncio.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[DockerLauncher]:
    found = DockerLauncher(f"test-{secrets.token_hex(6)}", tmp_path)
    yield found
    for owned in await found.list_owned():
        await found.remove(owned)
    await found.close()


async def value(launcher: DockerLauncher, container: Container, entry: str, *args: Any) -> Any:
    outcome = await launcher.execute(container, frame(entry, *args))
    assert outcome.status is TaskStatus.OK, outcome
    return decode(outcome.value or b"")


# TWO SLICES OF ONE DEVICE


async def test_two_unequal_slices_get_processor_time_in_the_ratio_of_their_shares(launcher: DockerLauncher) -> None:
    device = CpuGpu().list_devices()[0]
    shares = {"big": 300, "small": 100}
    ledger = SliceLedger([device])
    containers = {}
    for lease, share in shares.items():
        ledger.reserve(lease, slice_of(device, share, 128))
        containers[lease] = await launcher.start(spec(lease, limits=limits_of(ledger.held()[lease])))
    used = await asyncio.gather(*[value(launcher, container, "busy", 3.0) for container in containers.values()])
    rates = [cpu / wall for cpu, wall in used]
    assert 2.0 < rates[0] / rates[1] < 4.5
    for rate, share in zip(rates, shares.values(), strict=True):
        assert rate < 1.25 * min(1.0, share * device.cores / 1000)


async def test_S03_slice_over_its_memory_is_killed_and_the_neighbour_lives(launcher: DockerLauncher) -> None:
    greedy = await launcher.start(spec("greedy", limits=Limits(1000, 96)))
    neighbour = await launcher.start(spec("neighbour", limits=Limits(1000, 320)))
    waiting = asyncio.create_task(value(launcher, neighbour, "allocate", 250))
    outcome = await launcher.execute(greedy, frame("allocate", 250))
    assert outcome.status is TaskStatus.OOM
    assert await waiting == 250 << 20
    assert await value(launcher, greedy, "ping") == "alive"


async def test_cold_container_over_its_memory_is_oom(launcher: DockerLauncher) -> None:
    command = ["python3", "-c", "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"]
    outcome = await launcher.run_cold(spec(task="c", limits=Limits(1000, 96)), command, 30.0)
    assert outcome.status is TaskStatus.OOM


# ATTACKS


async def test_S01_fork_bomb_stops_at_the_limit_and_the_container_is_removed(launcher: DockerLauncher) -> None:
    container = await launcher.start(spec(limits=Limits(1000, 256, pids=64)))
    assert await value(launcher, container, "bomb") < 64
    await launcher.stop(container)
    assert await launcher.list_owned() == []


@pytest.mark.parametrize(("path", "bound"), [("/tmp/full", 16), ("/dev/shm/full", 16), ("/dev/full-file", 1)])
async def test_S02_disk_fill_stops_at_the_size_of_the_private_folder(
    launcher: DockerLauncher, path: str, bound: int
) -> None:
    container = await launcher.start(spec(limits=Limits(1000, 256, tmp_mib=16)))
    error, mib = await value(launcher, container, "fill", path, 400)
    assert error != "filled"
    assert mib <= bound


@pytest.mark.parametrize("path", ["/full", "/in/full", "/opt/millpond/full", "/run/millpond/full", "/var/full"])
async def test_S02_everything_else_is_read_only(launcher: DockerLauncher, path: str) -> None:
    container = await launcher.start(spec())
    error, mib = await value(launcher, container, "fill", path, 1)
    assert error in ("OSError", "PermissionError", "FileNotFoundError")
    assert mib == 0


async def test_S02_inode_fill_of_tmp_stops(launcher: DockerLauncher) -> None:
    container = await launcher.start(spec(limits=Limits(1000, 512, tmp_mib=16)))
    assert await value(launcher, container, "inodes", "/tmp") < 16 * 256 + 1024


async def test_S04_network_reaches_nothing(launcher: DockerLauncher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        container = await launcher.start(spec())
        for host, port in (
            ("127.0.0.1", server.getsockname()[1]),
            ("169.254.169.254", 80),
            ("10.0.0.1", 53),
            ("172.17.0.1", 22),
        ):
            assert await value(launcher, container, "connect", host, port) != "connected"
        assert await value(launcher, container, "interfaces") == ["lo"]


async def test_S05_image_and_renter_variables_that_change_the_setup_are_refused_or_gone(
    launcher: DockerLauncher,
) -> None:
    from millpond_worker.launch.docker_config import EnvironmentNameError

    container = await launcher.start(spec(env={"GREETING": "hello"}))
    found = await value(launcher, container, "environment")
    assert found["GREETING"] == "hello"
    assert not [name for name in found if name.startswith(("LD_", "NVIDIA_", "PYTHON"))]
    for name in ("LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "PYTHONPATH"):
        with pytest.raises(EnvironmentNameError):
            await launcher.start(spec(env={name: "x"}))


async def test_S08_S09_no_privilege_no_namespace_no_mount(launcher: DockerLauncher) -> None:
    container = await launcher.start(spec())
    lines = dict(
        line.split(":\t", 1) for line in (await value(launcher, container, "status")).splitlines() if ":\t" in line
    )
    assert lines["CapEff"].strip("0") == "" == lines["CapBnd"].strip("0")
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
    assert "0" not in lines["Uid"].split()
    for attack in ("unshare_user", "mount"):
        assert await value(launcher, container, attack) == -1
    assert await value(launcher, container, "setuid_root") == "PermissionError"


async def test_S16_task_cannot_see_the_worker_its_key_or_its_environment(
    launcher: DockerLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_KEY", "secret-of-the-worker")
    key = tmp_path / "operator.key"
    key.write_text("secret-of-the-worker")
    key.chmod(0o600)
    container = await launcher.start(spec())
    assert await value(launcher, container, "read", str(key)) == "FileNotFoundError"
    assert "secret-of-the-worker" not in str(await value(launcher, container, "environment"))
    assert len(await value(launcher, container, "processes")) <= 2
    assert await value(launcher, container, "kill", os.getpid()) == "ProcessLookupError"
    assert "docker.sock" not in await value(launcher, container, "mounts")


async def test_S16_two_leases_have_different_users(launcher: DockerLauncher) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a worker that is root gives each lease a user")
    containers = [await launcher.start(spec(lease)) for lease in ("lease-a", "lease-b")]
    statuses = [await value(launcher, container, "status") for container in containers]
    users = {line for status in statuses for line in status.splitlines() if line.startswith("Uid")}
    assert len(users) == 2


# THE WORKER DIES


WORKER = """
import asyncio, sys
from pathlib import Path
from millpond_worker.launch.docker import DockerLauncher
from millpond_worker.launch.port import ContainerSpec, Limits
async def main():
    launcher = DockerLauncher(sys.argv[1], Path(sys.argv[2]))
    spec = dict(renter="0x", image="millpond-task:1", limits=Limits(1000, 128))
    await launcher.start(ContainerSpec(lease="warm-lease", **spec))
    command = ["sh", "-c", "echo early; sleep 3; echo late; echo done > /out/r"]
    cold = asyncio.create_task(launcher.run_cold(ContainerSpec(lease="cold-lease", task="t", attempt=4, **spec), command, 60))
    while len(await launcher.list_owned()) < 2 or not all(o.is_running for o in await launcher.list_owned()):
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    await cold
asyncio.run(main())
"""


def left_under(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


async def wait_ended(launcher: DockerLauncher, kind: str) -> OwnedContainer:
    async with asyncio.timeout(10):
        while True:
            (found,) = [owned for owned in await launcher.list_owned() if owned.kind == kind]
            if not found.is_running:
                return found
            await asyncio.sleep(0.1)


async def test_worker_killed_runner_ends_and_cold_container_is_adopted(tmp_path: Path) -> None:
    worker = f"test-{secrets.token_hex(6)}"
    arguments = [sys.executable, "-c", WORKER, worker, str(tmp_path)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - killed without a word
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    launcher = DockerLauncher(worker, tmp_path)
    try:
        (cold,) = [owned for owned in await launcher.list_owned() if owned.kind == "cold"]
        assert (cold.lease, cold.task, cold.attempt, cold.is_running) == ("cold-lease", "t", 4, True)
        chunks: list[bytes] = []
        outcome = await launcher.adopt(cold, 30.0, lambda chunk: chunks.append(chunk.data))
        assert (outcome.status, outcome.task, outcome.attempt) == (TaskStatus.OK, "t", 4)
        assert b"".join(chunks) == b"early\nlate\n"
        assert [file.path.read_text() for file in outcome.outputs] == ["done\n"]
        await wait_ended(launcher, "warm")
    finally:
        for lease in ("warm-lease", "cold-lease"):
            await launcher.wipe(lease)
        assert await launcher.list_owned() == []
        await launcher.close()
    assert left_under(tmp_path, "*-lease") == []


async def test_close_while_a_cold_task_runs_leaves_it_for_adoption(launcher: DockerLauncher, tmp_path: Path) -> None:
    running = asyncio.create_task(launcher.run_cold(spec(task="t"), ["sleep", "2"], 30.0))
    async with asyncio.timeout(10):
        while not [owned for owned in await launcher.list_owned() if owned.is_running]:
            await asyncio.sleep(0.05)
    await launcher.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    again = DockerLauncher(launcher._worker, tmp_path)
    (owned,) = await again.list_owned()
    assert (await again.adopt(owned, 30.0)).status is TaskStatus.OK
    await again.close()


# BAD INPUT


async def test_engine_not_running_says_so(tmp_path: Path) -> None:
    launcher = DockerLauncher("nobody", tmp_path, address=f"unix://{tmp_path}/no.sock")
    with pytest.raises(EngineUnavailableError) as caught:
        await launcher.start(spec())
    assert "systemctl start docker" in caught.value.remedy
    assert [finding.level for finding in await launcher.check()] == ["fail"]
    await launcher.close()


async def test_image_missing_says_which(launcher: DockerLauncher) -> None:
    with pytest.raises(ImageMissingError) as caught:
        await launcher.start(spec(image="millpond-no-such-image:1"))
    assert caught.value.fields["image"] == "millpond-no-such-image:1"
    assert await launcher.list_owned() == []


async def test_command_missing_in_the_image_is_refused_and_leaves_nothing(launcher: DockerLauncher) -> None:
    with pytest.raises(CommandStartError) as caught:
        await launcher.run_cold(spec(task="c"), ["/no/such/program"], 10.0)
    assert caught.value.fields["command"] == ["/no/such/program"]
    assert await launcher.list_owned() == []


def docker(*arguments: str, feed: bytes = b"") -> str:
    done = subprocess.run(["docker", *arguments], input=feed, capture_output=True, check=True, timeout=50)
    return done.stdout.decode().strip()


@pytest.fixture
def image_name() -> Iterator[str]:
    """A name for an image of one test, removed afterwards."""
    if shutil.which("docker") is None:
        pytest.skip("the docker command is not installed")
    name = f"millpond-test-{secrets.token_hex(4)}:1"
    yield name
    docker("rmi", "-f", name)


async def test_image_without_python_says_so_and_leaves_nothing(launcher: DockerLauncher, image_name: str) -> None:
    docker("import", "-", image_name, feed=bytes(10240))
    with pytest.raises(RunnerStartError) as caught:
        await launcher.start(spec(image=image_name))
    assert "Python 3.9" in caught.value.remedy
    assert await launcher.list_owned() == []


async def test_S05_hostile_image_loses_its_variables_and_volumes(launcher: DockerLauncher, image_name: str) -> None:
    source = docker("create", IMAGE, "true")
    changes = [
        "ENV LD_PRELOAD=/evil.so NVIDIA_VISIBLE_DEVICES=all PYTHONPATH=/evil KEPT=1",
        "VOLUME /data",
        "HEALTHCHECK CMD touch /tmp/x",
    ]
    docker("commit", *[part for change in changes for part in ("-c", change)], source, image_name)
    docker("rm", source)
    before = docker("volume", "ls", "-q")
    container = await launcher.start(spec(image=image_name))
    found = await value(launcher, container, "environment")
    assert found["KEPT"] == "1"
    assert not {"LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "PYTHONPATH"} & found.keys()
    assert (await value(launcher, container, "fill", "/data/full", 4))[1] <= 1
    await launcher.stop(container)
    assert docker("volume", "ls", "-q") == before
