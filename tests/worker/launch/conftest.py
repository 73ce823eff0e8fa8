"""Launchers under test, each with labels of its own, wiped afterwards."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from millpond.protocol.values import encode_bytes
from millpond_worker.launch.docker import DockerLauncher
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.launch.port import CodeBundle, ContainerSpec, Limits, TaskFrame
from millpond_worker.launch.process import ProcessLauncher

IMAGE = "millpond-task:1"
RENTER = "0x00000000000000000000000000000000000000Aa"
SOURCE = b"""
import os, sys, time
import millpond

app = millpond.App("test")

@app.task
def double(x):
    print("doubling", x)
    return x * 2

@app.task(cpu=1)
def twice(x): return double(x)

async def later(x): return x
def nap(seconds): time.sleep(seconds); return seconds
def fail(): raise KeyError("the renter's own mistake")
def leave(): os._exit(7)
def pid(): return os.getpid()
def shout(count): os.write(1, b"o" * count); os.write(2, b"e" * count)
def read(name): return open(os.path.join(os.environ["MILLPOND_IN"], name), "rb").read()
def write(name, size):
    path = os.path.join(os.environ["MILLPOND_OUT"], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for _ in range(size >> 20): file.write(bytes(1 << 20))
        file.write(bytes(size & 0xFFFFF))
def link(): os.symlink("/etc/passwd", os.path.join(os.environ["MILLPOND_OUT"], "passwd"))
def fifo(): os.mkfifo(os.path.join(os.environ["MILLPOND_OUT"], "pipe"))
def large(size): return bytes(size)
def allocate(mib):
    block = bytearray(mib << 20)
    for position in range(0, len(block), 4096): block[position] = 1
    return len(block)
def name(): return __name__
"""


def docker_missing() -> str:
    """Why Docker tests cannot run here, or an empty string."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect("/var/run/docker.sock")
        except OSError as error:
            return f"no Docker engine: {error}"
    return ""


def spec(lease: str = "lease-1", **changes: Any) -> ContainerSpec:
    given = {
        "lease": lease,
        "renter": RENTER,
        "image": IMAGE,
        "limits": Limits(1000, 256, out_mib=8, out_files=16),
    } | changes
    return ContainerSpec(**given)


def frame(entry: str, *args: Any, task: str = "", attempt: int = 1, **changes: Any) -> TaskFrame:
    code = changes.pop("code", CodeBundle({"job.py": SOURCE}))
    return TaskFrame(
        task or secrets.token_hex(4),
        attempt,
        code,
        entry,
        encode_bytes((args, {})),
        **({"time_limit_s": 20.0} | changes),
    )


def make_launcher(kind: str, folder: Path, worker: str = "") -> Any:
    worker = worker or f"test-{secrets.token_hex(6)}"
    if kind == "docker":
        return DockerLauncher(worker, folder)
    if kind == "process":
        return ProcessLauncher(worker, folder, allowed_renters=[RENTER.lower()])
    return FakeLauncher([IMAGE])


async def wipe_all(launcher: Any) -> None:
    for owned in await launcher.list_owned():
        await launcher.remove(owned)
    await launcher.close()


DOCKER = pytest.param(
    "docker", marks=[pytest.mark.docker, pytest.mark.skipif(bool(docker_missing()), reason=docker_missing())]
)
REAL = [DOCKER, "process"]


@pytest_asyncio.fixture(params=[*REAL, "fake"])
async def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Every launcher."""
    found = make_launcher(request.param, tmp_path)
    yield found
    await wipe_all(found)


@pytest_asyncio.fixture(params=REAL)
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """The launchers that run another process."""
    found = make_launcher(request.param, tmp_path)
    yield found
    await wipe_all(found)
