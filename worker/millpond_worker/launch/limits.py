"""Pure: from a slice of a device to the limits of the container that holds it."""

from __future__ import annotations

from millpond_worker.devices.port import DeviceInfo, DeviceKind, SliceSpec

from .port import Limits

CDI_KIND = "nvidia.com/gpu"


def limits_of(spec: SliceSpec, *, out_mib: int = 256, out_files: int = 4096, pids: int = 256) -> Limits:
    """Processor time and memory are the slice's host resources; on a `cpu` device those are the slice itself."""
    return Limits(spec.cpu_milli, spec.ram_mib, spec.disk_mib, out_mib, out_files, pids)


def gpus_of(device: DeviceInfo) -> tuple[str, ...]:
    """CDI names of the devices the container gets; none for `cpu`."""
    return () if device.kind is DeviceKind.CPU else (f"{CDI_KIND}={device.uuid}",)
