"""Pure: what a slice may be, and the ledger of what each device has given away."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import DeviceUnknownError, SliceOverflowError, SliceShapeError
from .port import FULL_SHARE, DeviceInfo, DeviceKind, SliceMode, SliceSpec

MIN_MEMORY_MIB = 16
MIN_CPU_MILLI = 10
DEFAULT_DISK_MIB = 64
ISOLATION = {SliceMode.TIMESLICE: 0, SliceMode.CPU: 1, SliceMode.MPS: 1, SliceMode.WHOLE: 2, SliceMode.MIG: 3}


def slice_of(
    device: DeviceInfo,
    share_per_mille: int,
    memory_mib: int,
    *,
    disk_mib: int = DEFAULT_DISK_MIB,
    mode: SliceMode | None = None,
) -> SliceSpec:
    """The slice a share and memory of a device mean. Host cores and, on a GPU, host memory follow the share.

    Raises `SliceShapeError`.
    """
    is_cpu = device.kind is DeviceKind.CPU
    cores = device.cores if is_cpu else device.host_cores
    chosen = mode or (SliceMode.CPU if is_cpu else default_mode(share_per_mille))
    spec = SliceSpec(
        device=device.uuid,
        share_per_mille=share_per_mille,
        memory_mib=memory_mib,
        cpu_milli=max(MIN_CPU_MILLI, share_per_mille * cores),
        ram_mib=memory_mib if is_cpu else max(MIN_MEMORY_MIB, device.host_ram_mib * share_per_mille // FULL_SHARE),
        disk_mib=disk_mib,
        mode=chosen,
        isolation=ISOLATION[chosen],
    )
    check_shape(device, spec)
    return spec


def default_mode(share_per_mille: int) -> SliceMode:
    """A whole GPU is given as such; a part, where nothing better is set up, is shared by time."""
    return SliceMode.WHOLE if share_per_mille == FULL_SHARE else SliceMode.TIMESLICE


def check_shape(device: DeviceInfo, spec: SliceSpec) -> None:
    """Raises `SliceShapeError` for a slice that no state of the device could hold."""
    bounds = (
        ("share_per_mille", spec.share_per_mille, 1, FULL_SHARE),
        ("memory_mib", spec.memory_mib, MIN_MEMORY_MIB, device.memory_mib),
        ("ram_mib", spec.ram_mib, MIN_MEMORY_MIB, max(device.host_ram_mib, MIN_MEMORY_MIB)),
        ("disk_mib", spec.disk_mib, 1, 1 << 30),
    )
    for name, actual, low, high in bounds:
        if not low <= actual <= high:
            raise SliceShapeError(f"{name} is {actual}, outside {low} to {high}", name=name, actual=actual, bound=high)
    if (spec.mode is SliceMode.CPU) != (device.kind is DeviceKind.CPU):
        raise SliceShapeError(
            f"a {device.kind} device has no {spec.mode} slices", name="mode", actual=spec.mode, bound=""
        )


@dataclass(frozen=True, slots=True)
class Free:
    """What a device has left."""

    share_per_mille: int
    memory_mib: int


class SliceLedger:
    """Who holds which slice. Shares of a device never sum to more than 1000 per mille, memory never to more than it has."""

    def __init__(self, devices: list[DeviceInfo]) -> None:
        self._devices = {device.uuid: device for device in devices}
        self._held: dict[str, SliceSpec] = {}

    def free(self, uuid: str) -> Free:
        """Raises `DeviceUnknownError`."""
        device = self._device(uuid)
        held = [spec for spec in self._held.values() if spec.device == uuid]
        share = FULL_SHARE - sum(spec.share_per_mille for spec in held)
        return Free(share, device.memory_mib - sum(spec.memory_mib for spec in held))

    def reserve(self, lease: str, spec: SliceSpec) -> None:
        """Gives the slice to the lease; the same again does nothing. Raises `SliceShapeError`, `SliceOverflowError`, `DeviceUnknownError`."""
        if self._held.get(lease) == spec:
            return
        if lease in self._held:
            raise SliceShapeError(f"the lease {lease} holds another slice", name="lease", actual=lease, bound="")
        check_shape(self._device(spec.device), spec)
        free = self.free(spec.device)
        wants = (("share", spec.share_per_mille, free.share_per_mille), ("memory", spec.memory_mib, free.memory_mib))
        for resource, wanted, left in wants:
            if wanted > left:
                raise SliceOverflowError(
                    f"the device has {left} of {resource} left, not {wanted}",
                    device=spec.device,
                    resource=resource,
                    wanted=wanted,
                    free=left,
                )
        self._held[lease] = spec

    def release(self, lease: str) -> None:
        """Takes the slice back; nothing happens when there is none."""
        self._held.pop(lease, None)

    def held(self) -> dict[str, SliceSpec]:
        """Slices by lease."""
        return dict(self._held)

    def _device(self, uuid: str) -> DeviceInfo:
        if uuid not in self._devices:
            raise DeviceUnknownError(f"no device {uuid} on this machine", uuid=uuid)
        return self._devices[uuid]
