"""The `cpu` device: this machine's processors and a part of its memory, for machines without a GPU. Named `cpu` everywhere."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from .errors import DeviceUnknownError
from .port import DeviceHealth, DeviceInfo, DeviceKind

MACHINE_ID = Path("/etc/machine-id")
DEFAULT_MEMORY_PART = 0.5


def cpu_uuid(machine_id: str, label: str) -> str:
    """Stable over restarts; differs by machine, and by label where one machine plays several."""
    return "CPU-" + hashlib.sha256(f"millpond-cpu:{machine_id}:{label}".encode()).hexdigest()[:32]


def host_ram_mib() -> int:
    """Physical memory of this machine in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def host_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        return "unknown processor"
    return "unknown processor"


def _machine_id() -> str:
    try:
        return MACHINE_ID.read_text().strip()
    except OSError:
        return os.uname().nodename


class CpuGpu:
    """A `Gpu` of one `cpu` device. `cores` and `memory_mib` say what is rented; by default all cores and half the memory."""

    def __init__(self, *, label: str = "", cores: int | None = None, memory_mib: int | None = None) -> None:
        ram = host_ram_mib()
        self._info = DeviceInfo(
            uuid=cpu_uuid(_machine_id(), label),
            kind=DeviceKind.CPU,
            name=f"cpu: {_model()}",
            memory_mib=min(ram, memory_mib or int(ram * DEFAULT_MEMORY_PART)),
            driver=f"linux {os.uname().release}",
            cores=min(host_cores(), cores or host_cores()),
            host_cores=host_cores(),
            host_ram_mib=ram,
        )

    def list_devices(self) -> list[DeviceInfo]:
        return [replace(self._info)]

    def health(self, uuid: str) -> DeviceHealth:
        if uuid != self._info.uuid:
            raise DeviceUnknownError(f"no device {uuid} on this machine", uuid=uuid)
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") >> 20
        load = min(100, int(os.getloadavg()[0] / max(1, self._info.host_cores) * 100))
        used = max(0, self._info.host_ram_mib - free)
        return DeviceHealth(uuid, True, memory_used_mib=used, utilisation_percent=load)

    def close(self) -> None:
        return None
