"""Small tasks through the whole system, ours beside dask.distributed with one worker process, in one run.

    python benchmarks/node/map_dispatch.py [--launcher process|docker|both] [--counts 1000,10000] [--rounds N]

Ours: Anvil, node and worker as processes, signed requests, both journals in SQLite with synchronous FULL, a receipt for each task.
Dask: its scheduler and one worker with one thread as processes; it keeps nothing on disk. Its row needs `pip install distributed`.
Prints tasks per second, latencies in milliseconds, processor time per task and process, and the time of an fsync in the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from small_tasks import plain_step, step

from millpond import Client, Vgpu
from millpond.dev.stack import DevStack, StackConfig

SINGLES = 200
OUTSTANDING = 32
CALLS_EACH = 20
FSYNCS = 100
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
FUNDS = 100 * 10**6


@dataclass(slots=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float


@dataclass(slots=True)
class Figures:
    """One system's row. `rates` are tasks per second by count, `cpu_us` microseconds of processor per mapped task by process."""

    name: str
    rates: dict[int, float] = field(default_factory=dict)
    cpu_us: dict[str, float] = field(default_factory=dict)
    one: Latency = field(default_factory=lambda: Latency(0, 0))
    many: Latency = field(default_factory=lambda: Latency(0, 0))


class System:
    """What is measured: `map` and `call` block; `pids` are its processes by name."""

    name = ""
    pids: dict[str, int]

    def map(self, count: int) -> list[int]:
        raise TypeError

    def call(self, number: int) -> int:
        raise TypeError


class Millpond(System):
    def __init__(self, launcher: str, exits: ExitStack) -> None:
        self.name = f"millpond, {launcher}"
        home = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        portal = exits.enter_context(start_blocking_portal())
        config = StackConfig(home, launcher=launcher, chain_port=0, node_port=0)
        stack = exits.enter_context(portal.wrap_async_context_manager(DevStack(config)))
        client = exits.enter_context(Client(network=stack.network, home=home))
        client.fund(FUNDS)
        self.leases = exits.enter_context(client.rent(Vgpu(600), duration=3600))
        self.pids = {process.name.removesuffix("-1"): process.child.pid for process in stack.processes}

    def map(self, count: int) -> list[int]:
        return list(step.map(range(count), on=self.leases))

    def call(self, number: int) -> int:
        return self.leases.call(step, (number,), {})  # type: ignore[no-any-return]


class Dask(System):
    name = "dask.distributed"

    def __init__(self, exits: ExitStack) -> None:
        from distributed import Client as DaskClient

        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        found = folder / "scheduler.json"
        scheduler = exits.enter_context(_process("scheduler", found, "--port", "0"))
        worker = exits.enter_context(_process("worker", found, "--nthreads", "1", "--no-nanny"))
        while not found.exists():
            time.sleep(0.05)
        self.client = exits.enter_context(DaskClient(scheduler_file=str(found)))
        self.client.wait_for_workers(1, timeout=60)
        self.pids = {"scheduler": scheduler.pid, "worker": worker.pid}

    def map(self, count: int) -> list[int]:
        return self.client.gather(self.client.map(plain_step, range(count), pure=False))  # type: ignore[no-any-return]

    def call(self, number: int) -> int:
        return self.client.submit(plain_step, number, pure=False).result()  # type: ignore[no-any-return]


@contextmanager
def _process(role: str, scheduler_file: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{role}", "--scheduler-file", str(scheduler_file)]
    process = subprocess.Popen(
        [*command, "--no-dashboard", *arguments],
        cwd=scheduler_file.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


# MEASURING


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of the children it still has, user and system."""
    total = sum(int(part) for part in _stat(pid)[11:13]) / TICKS_PER_SECOND
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += sum(cpu_seconds(int(child)) for child in (task / "children").read_text().split())
    return total


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def fsync_ms(folder: Path) -> Latency:
    """Time of an append of 4 KiB and its fdatasync, as a journal does it."""
    times = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            file.write(bytes(4096))
            before = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - before)
    return latency(times)


def latency(seconds: list[float]) -> Latency:
    cuts = statistics.quantiles(seconds, n=100)
    return Latency(statistics.median(seconds) * 1e3, cuts[98] * 1e3)


def timed_call(system: System, number: int) -> float:
    before = time.perf_counter()
    if system.call(number) != number + 1:
        raise SystemExit(f"{system.name} answered wrongly")
    return time.perf_counter() - before


def measure(system: System, counts: list[int], figures: Figures) -> None:
    """One round; the best rate of the rounds and the last latencies stand."""
    for count in counts:
        before = {name: cpu_seconds(pid) for name, pid in system.pids.items()} | {"client": time.process_time()}
        begun = time.perf_counter()
        found = system.map(count)
        rate = count / (time.perf_counter() - begun)
        if sorted(found) != list(range(1, count + 1)):
            raise SystemExit(f"{system.name} answered wrongly")
        after = {name: cpu_seconds(pid) for name, pid in system.pids.items()} | {"client": time.process_time()}
        figures.rates[count] = max(rate, figures.rates.get(count, 0.0))
        figures.cpu_us = {name: (after[name] - before[name]) / count * 1e6 for name in before}
    figures.one = latency([timed_call(system, number) for number in range(SINGLES)])
    with ThreadPoolExecutor(OUTSTANDING) as pool:
        figures.many = latency(
            list(pool.map(lambda number: timed_call(system, number), range(OUTSTANDING * CALLS_EACH)))
        )


def show(rows: list[Figures], counts: list[int], disk: Latency) -> None:
    print(
        f"fdatasync of 4 KiB: p50 {disk.p50:.2f} ms, p99 {disk.p99:.2f} ms; load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores"
    )
    heads = [
        *(f"map {count}/s" for count in counts),
        "1 p50 ms",
        "1 p99",
        f"{OUTSTANDING} p50 ms",
        f"{OUTSTANDING} p99",
    ]
    print(f"{'':22}" + "".join(f"{head:>13}" for head in heads))
    for row in rows:
        cells = [*(row.rates[count] for count in counts), row.one.p50, row.one.p99, row.many.p50, row.many.p99]
        print(f"{row.name:22}" + "".join(f"{cell:13.2f}" for cell in cells))
    anchor = next((row for row in rows if row.name == Dask.name), None)
    for row in rows if anchor is not None else []:
        if anchor is not None and row is not anchor:
            ratios = [anchor.rates[count] / row.rates[count] for count in counts]
            ratios += [row.one.p50 / anchor.one.p50, row.one.p99 / anchor.one.p99]
            ratios += [row.many.p50 / anchor.many.p50, row.many.p99 / anchor.many.p99]
            print(f"{'  time ratio to dask':22}" + "".join(f"{ratio:13.2f}" for ratio in ratios))
    for row in rows:
        said = ", ".join(f"{name} {us:.0f}" for name, us in row.cpu_us.items())
        print(f"{row.name:22} CPU us per mapped task: {said}, all {sum(row.cpu_us.values()):.0f}")


def open_systems(launchers: list[str], exits: ExitStack) -> list[System]:
    systems: list[System] = [Millpond(launcher, exits) for launcher in launchers]
    try:
        systems.append(Dask(exits))
    except ImportError:
        print("dask.distributed is not installed: its row is left out (pip install distributed)")
    return systems


def main() -> None:
    parser = argparse.ArgumentParser(description="Small tasks through the whole system, beside dask.distributed.")
    parser.add_argument("--launcher", choices=("process", "docker", "both"), default="process")
    parser.add_argument("--counts", default="1000,10000")
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    counts = [int(count) for count in asked.counts.split(",")]
    launchers = ["process", "docker"] if asked.launcher == "both" else [asked.launcher]
    with ExitStack() as exits:
        systems = open_systems(launchers, exits)
        rows = {system.name: Figures(system.name) for system in systems}
        for system in systems:
            system.map(100)
        for _ in range(asked.rounds):
            for system in systems:
                measure(system, counts, rows[system.name])
        disk = fsync_ms(Path(exits.enter_context(tempfile.TemporaryDirectory())))
        show(list(rows.values()), counts, disk)


if __name__ == "__main__":
    main()
