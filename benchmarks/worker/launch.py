"""Starting containers and running tasks, ours beside the `docker` command with the same flags, interleaved in one run.

    python benchmarks/worker/launch.py [rounds]

Prints medians in milliseconds and ours divided by the anchor. Needs Docker and the image millpond-task:1.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from millpond.protocol.values import encode_bytes
from millpond_worker.launch.docker import DockerLauncher
from millpond_worker.launch.port import CodeBundle, Container, ContainerSpec, Limits, TaskFrame

IMAGE = "millpond-task:1"
LIMITS = Limits(2000, 256)
CODE = CodeBundle({"job.py": b"def nothing(x):\n    return x\n"})
FLAGS = shlex.split(
    "--network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 65534:65534 --ipc private --shm-size 64m "
    "--memory 256m --memory-swap 256m --cpu-period 100000 --cpu-quota 200000 --pids-limit 256 --oom-score-adj 500 "
    "--ulimit core=0 --ulimit nofile=4096 --tmpfs /tmp:rw,nosuid,nodev,exec,size=64m,mode=1777"
)
WARM_TASKS = 200
PIPELINED = 2000


def spec(task: str = "") -> ContainerSpec:
    return ContainerSpec("bench", "0x0", IMAGE, LIMITS, task=task)


def frame(number: int) -> TaskFrame:
    return TaskFrame(f"t{number}", 1, CODE, "job:nothing", encode_bytes(((number,), {})), 10.0)


async def clocked(action: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await action()
    return (time.perf_counter() - before) * 1e3


async def command(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "docker", *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if await process.wait():
        raise SystemExit(f"docker {arguments[0]} failed")


async def starts(launcher: DockerLauncher, folder: Path, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"docker run": [], "launcher start": [], "cold task": []}
    mounts = ["-v", f"{folder}:/in:ro", "-v", f"{folder}:/out"]
    for _ in range(rounds):
        found["docker run"].append(await clocked(lambda: command("run", "--rm", *FLAGS, *mounts, IMAGE, "true")))
        started: list[Container] = []

        async def start(into: list[Container] = started) -> None:
            into.append(await launcher.start(spec()))

        found["launcher start"].append(await clocked(start))
        await launcher.stop(started[0])
        found["cold task"].append(await clocked(lambda: launcher.run_cold(spec("c"), ["true"])))
    return found


async def tasks(launcher: DockerLauncher, rounds: int) -> dict[str, list[float]]:
    container = await launcher.start(spec())
    found: dict[str, list[float]] = {"docker exec": [], "warm task": [], "pipelined task": []}
    for number in range(WARM_TASKS):
        found["warm task"].append(await clocked(lambda n=number: launcher.execute(container, frame(n))))  # type: ignore[misc]
    for _ in range(rounds):
        found["docker exec"].append(await clocked(lambda: command("exec", container.id, "true")))

    async def many() -> None:
        await asyncio.gather(*[launcher.execute(container, frame(number)) for number in range(PIPELINED)])

    found["pipelined task"].append(await clocked(many) / PIPELINED)
    await launcher.stop(container)
    return found


def show(name: str, anchor: str, medians: dict[str, float], bound: str) -> None:
    print(
        f"{name:16} {medians[name]:9.2f} ms   {anchor:11} {medians[anchor]:9.2f} ms   ratio {medians[name] / medians[anchor]:6.3f}   {bound}"
    )


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        launcher = DockerLauncher(f"bench-{secrets.token_hex(4)}", Path(name))
        try:
            found = await starts(launcher, Path(name), rounds) | await tasks(launcher, rounds)
        finally:
            await launcher.wipe("bench")
            await launcher.close()
    medians = {label: statistics.median(times) for label, times in found.items()}
    show("launcher start", "docker run", medians, "bound 0.7 (until the runner answers)")
    show("cold task", "docker run", medians, "bound 1.15 (create to removed)")
    show("warm task", "docker exec", medians, "one outstanding")
    show("pipelined task", "docker exec", medians, f"{1e3 / medians['pipelined task']:.0f} tasks/s on one container")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
