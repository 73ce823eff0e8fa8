"""NVIDIA devices through NVML. It only reads. The only module that loads pynvml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .cpu import host_cores, host_ram_mib
from .errors import DeviceDriverError, DeviceUnknownError
from .port import DeviceHealth, DeviceInfo, DeviceKind

T = TypeVar("T")
HOTTEST_C = 95


def load_pynvml() -> Any:
    """The NVML binding. Raises `DeviceDriverError` naming the extra."""
    try:
        import pynvml
    except ImportError as error:
        raise DeviceDriverError(
            "NVIDIA devices need nvidia-ml-py",
            remedy="Install it: pip install 'millpond[worker]'.",
            driver="nvml",
            reason="not installed",
        ) from error
    return pynvml


class NvmlGpu:
    """A `Gpu` over `binding`, which is pynvml or something that speaks like it."""

    def __init__(self, binding: Any = None) -> None:
        self._nvml = load_pynvml() if binding is None else binding
        self._is_open = False
        self._ask(self._nvml.nvmlInit)
        self._is_open = True

    def _ask(self, call: Callable[..., T], *args: Any) -> T:
        try:
            return call(*args)
        except self._nvml.NVMLError as error:
            raise DeviceDriverError(f"NVML refused: {error}", driver="nvml", reason=str(error)) from error

    def _optional(self, call: Callable[..., T], *args: Any) -> T | None:
        """For what not every card answers."""
        try:
            return call(*args)
        except self._nvml.NVMLError:
            return None

    def list_devices(self) -> list[DeviceInfo]:
        count = self._ask(self._nvml.nvmlDeviceGetCount)
        return [self._info(index) for index in range(count)]

    def _info(self, index: int) -> DeviceInfo:
        handle = self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index)
        return DeviceInfo(
            uuid=_text(self._ask(self._nvml.nvmlDeviceGetUUID, handle)),
            kind=DeviceKind.NVIDIA,
            name=_text(self._ask(self._nvml.nvmlDeviceGetName, handle)),
            memory_mib=int(self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle).total) >> 20,
            driver=_text(self._ask(self._nvml.nvmlSystemGetDriverVersion)),
            index=index,
            host_cores=host_cores(),
            host_ram_mib=host_ram_mib(),
        )

    def _handle(self, uuid: str) -> Any:
        known = [device.uuid for device in self.list_devices()]
        if uuid not in known:
            raise DeviceUnknownError(f"no device {uuid} on this machine", uuid=uuid)
        return self._ask(self._nvml.nvmlDeviceGetHandleByIndex, known.index(uuid))

    def health(self, uuid: str) -> DeviceHealth:
        handle = self._handle(uuid)
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        load = self._optional(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        heat = self._optional(self._nvml.nvmlDeviceGetTemperature, handle, self._nvml.NVML_TEMPERATURE_GPU)
        reasons = self._reasons(handle, heat)
        return DeviceHealth(uuid, not reasons, reasons, int(memory.used) >> 20, int(load.gpu) if load else 0, heat)

    def _reasons(self, handle: Any, heat: int | None) -> tuple[str, ...]:
        found = []
        if heat is not None and heat >= HOTTEST_C:
            found.append(f"temperature {heat} C")
        nvml = self._nvml
        ecc = self._optional(
            nvml.nvmlDeviceGetTotalEccErrors, handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
        if ecc:
            found.append(f"{ecc} uncorrected memory errors")
        return tuple(found)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._optional(self._nvml.nvmlShutdown)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
