"""A binding that answers like pynvml, for tests without a GPU: devices, failures by call, injected at any time."""

from __future__ import annotations

from dataclasses import dataclass, field


class FakeNvmlError(Exception):
    """Stands for `pynvml.NVMLError`. `value` is NVML's return code."""

    def __init__(self, value: int, text: str) -> None:
        super().__init__(text)
        self.value = value


@dataclass(slots=True)
class FakeDevice:
    """One card. Memory in bytes, temperature in degrees Celsius."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    total: int = 80 << 30
    used: int = 512 << 20
    gpu: int = 0
    temperature: int = 40
    uncorrected_ecc: int = 0


@dataclass(slots=True)
class FakeNvml:
    """The part of pynvml that `NvmlGpu` uses. `failures` maps a function's name to the error it raises."""

    devices: list[FakeDevice] = field(default_factory=lambda: [FakeDevice("GPU-00000000-0000-0000-0000-000000000001")])
    failures: dict[str, FakeNvmlError] = field(default_factory=dict)
    driver: str = "570.86.15"
    is_open: bool = False
    NVMLError: type[Exception] = FakeNvmlError
    NVML_TEMPERATURE_GPU: int = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED: int = 1
    NVML_VOLATILE_ECC: int = 0

    def _enter(self, name: str) -> None:
        if name in self.failures:
            raise self.failures[name]
        if not self.is_open and name != "nvmlInit":
            raise FakeNvmlError(1, "Uninitialized")

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own names
        self._enter("nvmlInit")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._enter("nvmlShutdown")
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        self._enter("nvmlSystemGetDriverVersion")
        return self.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._enter("nvmlDeviceGetCount")
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeDevice:  # noqa: N802
        self._enter("nvmlDeviceGetHandleByIndex")
        if index >= len(self.devices):
            raise FakeNvmlError(2, "Invalid Argument")
        return self.devices[index]

    def nvmlDeviceGetUUID(self, handle: FakeDevice) -> str:  # noqa: N802
        self._enter("nvmlDeviceGetUUID")
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeDevice) -> str:  # noqa: N802
        self._enter("nvmlDeviceGetName")
        return handle.name

    def nvmlDeviceGetMemoryInfo(self, handle: FakeDevice) -> FakeDevice:  # noqa: N802
        self._enter("nvmlDeviceGetMemoryInfo")
        return handle

    def nvmlDeviceGetUtilizationRates(self, handle: FakeDevice) -> FakeDevice:  # noqa: N802
        self._enter("nvmlDeviceGetUtilizationRates")
        return handle

    def nvmlDeviceGetTemperature(self, handle: FakeDevice, _sensor: int) -> int:  # noqa: N802
        self._enter("nvmlDeviceGetTemperature")
        return handle.temperature

    def nvmlDeviceGetTotalEccErrors(self, handle: FakeDevice, _kind: int, _counter: int) -> int:  # noqa: N802
        self._enter("nvmlDeviceGetTotalEccErrors")
        return handle.uncorrected_ecc
