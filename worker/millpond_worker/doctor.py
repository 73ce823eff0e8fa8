"""What is right and wrong with a worker: its machine, settings, keys, chain, standing in the pool, node. Each finding says what was
measured, what is needed, and what to do."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from millpond.protocol.errors import MillpondError
from millpond_worker.config import WorkerConfig, load_config
from millpond_worker.home import Home

OK, WARN, FAIL = "ok", "warn", "fail"
LEAST_PYTHON = (3, 11)
LEAST_DISK_MIB = 1024
MOST_SKEW_S = 30
LEAST_GAS_WEI = 10**15
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `level` is ok, warn or fail; `id` is stable."""

    id: str
    level: str
    measured: str
    needed: str = ""
    remedy: str = ""

    @staticmethod
    def of(error: MillpondError, name: str, needed: str) -> Check:
        return Check(name, FAIL, error.message, needed, error.remedy)


async def examine(home: Home) -> AsyncIterator[Check]:
    """Findings, in the order a newcomer mends them. Never raises for what it finds wrong."""
    for check in (python_check(), cgroup_check(), disk_check(home.folder)):
        yield check
    try:
        config = load_config(home)
    except MillpondError as error:
        yield Check.of(error, "settings", "worker.toml")
        return
    yield Check("settings", OK, str(home.config))
    async for check in _of_config(config, home):
        yield check


async def _of_config(config: WorkerConfig, home: Home) -> AsyncIterator[Check]:
    from millpond_worker.doctor_chain import chain_checks

    yield key_check(config, home)
    async for check in _launcher(config, home):
        yield check
    yield device_check(config)
    async for check in chain_checks(config, home):
        yield check


def python_check(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    found, needed = ".".join(str(part) for part in version), "3.11 or newer"
    if version < LEAST_PYTHON:
        return Check("python", FAIL, found, needed, "Install Python 3.11 or newer, and millpond with it.")
    return Check("python", OK, found, needed)


def cgroup_check(root: Path = Path("/sys/fs/cgroup")) -> Check:
    """Which control groups limit containers: v2, v1, or v1 with a v2 tree beside it."""
    if (root / "cgroup.controllers").exists():
        return Check("cgroups", OK, "v2", "v1 or v2")
    if (root / "memory").is_dir():
        kind = "hybrid" if (root / "unified").is_dir() else "v1"
        return Check("cgroups", OK, kind, "v1 or v2")
    return Check(
        "cgroups",
        WARN,
        "none mounted",
        "v1 or v2",
        "Without control groups memory and processor shares are not enforced.",
    )


def disk_check(folder: Path) -> Check:
    place = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(place).free >> 20
    needed = f">= {LEAST_DISK_MIB} MiB"
    if free < LEAST_DISK_MIB:
        return Check(
            "disk", WARN, f"{free} MiB free at {place}", needed, "Free disk space, or put --home on another disk."
        )
    if not os.access(place, os.W_OK):
        return Check("disk", FAIL, f"{place} cannot be written", needed, "Name a folder you may write with --home.")
    return Check("disk", OK, f"{free} MiB free at {place}", needed)


def key_check(config: WorkerConfig, home: Home) -> Check:
    from millpond_worker.keys import open_key

    needed = "a key only this user can read"
    try:
        wallet = open_key(config.key, home, config.chain_id)
    except MillpondError as error:
        return Check.of(error, "key", needed)
    return Check("key", OK, f"{wallet.address}{' (public development key)' if wallet.is_development else ''}", needed)


def device_check(config: WorkerConfig) -> Check:
    from millpond_worker.assemble import chosen_devices, open_gpu

    try:
        with closing(open_gpu(config)) as gpu:
            found = chosen_devices(config, gpu)
            sick = [reason for info in found for reason in gpu.health(info.uuid).reasons]
    except MillpondError as error:
        return Check.of(error, "devices", "a healthy device")
    shown = "; ".join(f"{info.kind.value}: {info.name}, {info.memory_mib} MiB" for info in found)
    if sick:
        return Check(
            "devices", FAIL, "; ".join(sick), "a healthy device", "Mend the device, or leave it out with uuids."
        )
    return Check("devices", OK, shown, "a healthy device")


async def _launcher(config: WorkerConfig, home: Home) -> AsyncIterator[Check]:
    from millpond_worker.keys import open_key
    from millpond_worker.launchers import choose_launcher

    try:
        operator = open_key(config.key, home, config.chain_id).address
        chosen = await choose_launcher(config, home, operator)
    except MillpondError as error:
        yield Check.of(error, "launcher", "an engine that runs containers")
        return
    level = WARN if chosen.warning else OK
    yield Check(
        "launcher",
        level,
        chosen.warning or chosen.launcher.kind,
        "docker",
        "" if level == OK else "Install and start Docker.",
    )
    for finding in await chosen.launcher.check():
        if finding.level != OK:
            yield Check(f"launcher {finding.subject}", finding.level, finding.message, "", finding.remedy)
    await chosen.launcher.close()


def skew_check(head_time: int, block_time_s: int, now: Callable[[], float] = time.time) -> Check:
    """The machine's clock beside the newest block's: meters and deadlines need them close."""
    ahead = int(now()) - head_time
    needed = f"within {MOST_SKEW_S} s of the newest block"
    if ahead < -MOST_SKEW_S:
        return Check(
            "clock",
            FAIL,
            f"{-ahead} s behind the newest block",
            needed,
            "Set the clock: run a time service (chrony, systemd-timesyncd).",
        )
    if ahead > MOST_SKEW_S + block_time_s:
        return Check(
            "clock",
            WARN,
            f"the newest block is {ahead} s old",
            needed,
            "Set the clock, or use an RPC that is not behind its chain.",
        )
    return Check("clock", OK, f"the newest block is {max(0, ahead)} s old", needed)
