"""Which devices to offer: NVIDIA cards where NVML answers, else the `cpu` device."""

from __future__ import annotations

from .cpu import CpuGpu
from .errors import DeviceDriverError
from .nvml import NvmlGpu
from .port import DeviceKind, Gpu


def open_devices(
    kind: DeviceKind | None = None, *, label: str = "", cores: int | None = None, memory_mib: int | None = None
) -> Gpu:
    """The machine's devices. `kind` insists on one; without it a machine with no usable NVIDIA card offers `cpu`.

    Raises `DeviceDriverError` when NVIDIA was insisted on and does not answer.
    """
    if kind is DeviceKind.CPU:
        return CpuGpu(label=label, cores=cores, memory_mib=memory_mib)
    try:
        found = NvmlGpu()
        if kind is DeviceKind.NVIDIA or found.list_devices():
            return found
        found.close()
    except DeviceDriverError:
        if kind is DeviceKind.NVIDIA:
            raise
    return CpuGpu(label=label, cores=cores, memory_mib=memory_mib)
