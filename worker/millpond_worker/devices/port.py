"""The `Gpu` port: which devices this machine has, how they are, and what a slice of one is.

Compute shares are per mille of one device, memory is MiB, processor time is thousandths of a core.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

FULL_SHARE = 1000


class DeviceKind(StrEnum):
    CPU = "cpu"
    NVIDIA = "nvidia"


class SliceMode(StrEnum):
    """How a slice is separated from its neighbours on the same device."""

    CPU = "cpu"
    MIG = "mig"
    MPS = "mps"
    TIMESLICE = "timeslice"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One device. `memory_mib` is what may be rented; `cores` counts host cores (cpu) or 0 where unknown."""

    uuid: str
    kind: DeviceKind
    name: str
    memory_mib: int
    driver: str
    cores: int = 0
    index: int = 0
    host_cores: int = 0
    host_ram_mib: int = 0


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """`is_ok` is false when the device must not be offered; `reasons` say why, for a person."""

    uuid: str
    is_ok: bool
    reasons: tuple[str, ...] = ()
    memory_used_mib: int = 0
    utilisation_percent: int = 0
    temperature_c: int | None = None


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """A vGPU: compute share and memory of one device, with the host resources that go with it.

    `isolation` is 0 (advisory) to 3 (hardware). `memory_mib` is device memory; on a `cpu` device it is RAM and equals `ram_mib`.
    """

    device: str
    share_per_mille: int
    memory_mib: int
    cpu_milli: int
    ram_mib: int
    disk_mib: int
    mode: SliceMode
    isolation: int


class Gpu(Protocol):
    """Reads devices. Never changes MIG or compute modes of a machine that is lent."""

    def list_devices(self) -> list[DeviceInfo]:
        """Every device that may be offered, in a stable order. Raises `DeviceDriverError` when the driver cannot be asked."""
        ...

    def health(self, uuid: str) -> DeviceHealth:
        """How the device is now. Raises `DeviceUnknownError` for a uuid that is not listed."""
        ...

    def close(self) -> None:
        """Releases the driver. Calling it twice does nothing."""
        ...
