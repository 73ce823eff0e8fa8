"""Pure: what the docker backend asks of the Engine API, hardened. One function per part of the request."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millpond.protocol.errors import InputError
from millpond_worker.runner.bundle import GUEST_PATH

from .port import ContainerSpec, Limits
from .spool import Owner, Room

SCRUBBED = re.compile(r"(LD_|NVIDIA_|PYTHON|CUDA_MPS_|DOCKER_|MILLPOND_)")
CTL_PATH = "/run/millpond"
CODE_FOLDER = "/tmp/.millpond"
CPU_PERIOD_US = 100_000
MIN_QUOTA_US = 1_000
MIB = 1 << 20
PREFIX = "millpond"


class EnvironmentNameError(InputError):
    """A container's variable would change how the container itself is set up. Fields: `name`."""

    remedy_text = "Choose a name that does not begin with LD_, NVIDIA_, PYTHON, CUDA_MPS_, DOCKER_ or MILLPOND_."


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image brings: its id, the variables it sets, the volumes it declares."""

    digest: str
    env: tuple[str, ...]
    volumes: tuple[str, ...]


def image_facts(inspected: Mapping[str, Any]) -> ImageFacts:
    """Facts from the engine's answer about an image."""
    config = inspected.get("Config") or {}
    digest = str(inspected["Id"]).removeprefix("sha256:")
    return ImageFacts(digest, tuple(config.get("Env") or ()), tuple(config.get("Volumes") or ()))


def labels(worker: str, kind: str, spec: ContainerSpec) -> dict[str, str]:
    """How a restarted worker knows its containers again."""
    return {
        f"{PREFIX}.worker": worker,
        f"{PREFIX}.kind": kind,
        f"{PREFIX}.lease": spec.lease,
        f"{PREFIX}.task": spec.task,
        f"{PREFIX}.attempt": str(spec.attempt),
        f"{PREFIX}.limits": json.dumps(dataclasses.astuple(spec.limits)),
    }


def limits_from(found: Mapping[str, str]) -> Limits:
    """The limits a container was started with, from its labels."""
    return Limits(*json.loads(found[f"{PREFIX}.limits"]))


def environment(spec: ContainerSpec, image: ImageFacts) -> list[str]:
    """The renter's variables, ours, and removals: a name without `=` takes an image's variable away."""
    check_names(spec.env)
    ours = base_environment(spec.limits) | {"MILLPOND_IN": "/in", "MILLPOND_OUT": "/out", "MILLPOND_LEASE": spec.lease}
    removed = {entry.partition("=")[0] for entry in image.env if SCRUBBED.match(entry)}
    return [f"{name}={value}" for name, value in (dict(spec.env) | ours).items()] + sorted(removed - ours.keys())


def check_names(env: Iterable[str]) -> None:
    """Raises `EnvironmentNameError` for a variable a renter may not set."""
    for name in env:
        if SCRUBBED.match(name) or "=" in name or not name:
            raise EnvironmentNameError(f"the variable {name!r} may not be set", name=name)


def base_environment(limits: Limits) -> dict[str, str]:
    """Home in /tmp, and as many threads for numerical libraries as there are cores: more would only be throttled."""
    threads = str(max(1, math.ceil(limits.cpu_milli / 1000)))
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {"HOME": "/tmp", "LANG": "C.UTF-8"} | dict.fromkeys(names, threads)


def _mount(source: Path, target: str, is_read_only: bool) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": target,
        "ReadOnly": is_read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def mounts(room: Room, bundle: Path | None) -> list[dict[str, Any]]:
    """/in read-only and /out; for a warm container also the runner and its socket."""
    found = [_mount(room.inputs, "/in", True), _mount(room.outputs, "/out", False)]
    if bundle is not None:
        found += [_mount(bundle, GUEST_PATH, True), _mount(room.ctl, CTL_PATH, True)]
    return found


def tmpfs(limits: Limits, image: ImageFacts) -> dict[str, str]:
    """A private /tmp of fixed size and inodes. Volumes an image declares become empty ones, so that nothing is left on the host."""
    common = "rw,nosuid,nodev,mode=1777"
    found = dict.fromkeys(image.volumes, f"{common},noexec,size=1m,nr_inodes=64")
    return found | {"/tmp": f"{common},exec,size={limits.tmp_mib}m,nr_inodes={limits.tmp_mib * 256 + 1024}"}


def host_config(spec: ContainerSpec, image: ImageFacts, room: Room, bundle: Path | None) -> dict[str, Any]:
    """Limits and walls. Swap equals memory, so that the memory limit is one."""
    limits = spec.limits
    found: dict[str, Any] = {
        "Memory": limits.memory_mib * MIB,
        "MemorySwap": limits.memory_mib * MIB,
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": max(MIN_QUOTA_US, limits.cpu_milli * CPU_PERIOD_US // 1000),
        "CpuShares": max(2, limits.cpu_milli * 1024 // 1000),
        "PidsLimit": limits.pids,
        "OomScoreAdj": 500,
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "NetworkMode": "none",
        "IpcMode": "private",
        "Runtime": "runc",
        "ShmSize": max(1, limits.tmp_mib) * MIB,
        "Tmpfs": tmpfs(limits, image),
        "Mounts": mounts(room, bundle),
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            _file_size(limits),
            {"Name": "nofile", "Soft": 4096, "Hard": 4096},
        ],
        "RestartPolicy": {"Name": "no"},
        # Compact, and kept while it is rotated: json-file takes 16 MiB for 2 MiB of short lines, and then drops them.
        "LogConfig": {"Type": "local", "Config": {"max-size": "32m", "max-file": "3", "compress": "false"}},
    }
    if spec.gpus:
        found["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(spec.gpus)}]
    return found


def _file_size(limits: Limits) -> dict[str, Any]:
    size = max(limits.out_mib, limits.tmp_mib) * MIB
    return {"Name": "fsize", "Soft": size, "Hard": size}


def _common(
    worker: str, kind: str, spec: ContainerSpec, image: ImageFacts, room: Room, owner: Owner, bundle: Path | None
) -> dict[str, Any]:
    return {
        "Image": f"sha256:{image.digest}",
        "User": f"{owner.uid}:{owner.gid}",
        "Env": environment(spec, image),
        "Labels": labels(worker, kind, spec) | {f"{PREFIX}.room": room.name},
        "Hostname": "millpond",
        "Healthcheck": {"Test": ["NONE"]},
        "NetworkDisabled": True,
        "Tty": False,
        "OpenStdin": False,
        "HostConfig": host_config(spec, image, room, bundle),
    }


def warm_config(worker: str, spec: ContainerSpec, image: ImageFacts, room: Room, bundle: Path) -> dict[str, Any]:
    """A container that runs the runner."""
    command = ["python3", "-I", "-X", "utf8", f"{GUEST_PATH}/start.py", f"{CTL_PATH}/runner.sock", CODE_FOLDER]
    return _common(worker, "warm", spec, image, room, room.owner, bundle) | {
        "Entrypoint": command,
        "Cmd": [],
        "WorkingDir": "/tmp",
    }


def cold_config(
    worker: str, spec: ContainerSpec, image: ImageFacts, room: Room, command: Sequence[str]
) -> dict[str, Any]:
    """A container that runs one command of its image, or what the image itself runs."""
    chosen: dict[str, Any] = {"Cmd": list(command)} if command else {}
    return _common(worker, "cold", spec, image, room, room.owner, None) | chosen
