"""The NVML device over a module that stands in for pynvml, as the worker loads it: present, missing, old, and breaking on the way."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from millpond_worker.devices.discover import open_devices
from millpond_worker.devices.errors import DeviceDriverError, DeviceUnknownError
from millpond_worker.devices.fake import FakeDevice, FakeNvml, FakeNvmlError
from millpond_worker.devices.nvml import HOTTEST_C, NvmlGpu, load_pynvml
from millpond_worker.devices.port import DeviceKind

NAMES = [name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML"))]


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml) -> ModuleType:
    """Makes `import pynvml` give a module that answers as `fake`."""
    module: Any = ModuleType("pynvml")
    for name in NAMES:
        setattr(module, name, getattr(fake, name))
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_load_gives_the_installed_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = install(monkeypatch, FakeNvml())

    assert load_pynvml() is module


def test_load_without_the_module_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(DeviceDriverError) as caught:
        load_pynvml()
    assert "millpond[worker]" in caught.value.remedy
    assert caught.value.fields["reason"] == "not installed"


def test_devices_of_the_loaded_module_are_listed_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml([FakeDevice("GPU-b", name="H200"), FakeDevice("GPU-a", total=(24 << 30) + 1)], driver="570.1")
    install(monkeypatch, fake)

    found = NvmlGpu().list_devices()

    assert [(info.uuid, info.index, info.memory_mib) for info in found] == [("GPU-b", 0, 81920), ("GPU-a", 1, 24576)]
    assert (found[0].name, found[0].driver, found[0].kind) == ("H200", "570.1", DeviceKind.NVIDIA)


def test_old_binding_that_gives_bytes_gives_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw: Any = FakeDevice(b"GPU-a", name=b"H100")  # type: ignore[arg-type]
    install(monkeypatch, FakeNvml([raw], driver=b"470.1"))  # type: ignore[arg-type]

    gpu = NvmlGpu()
    [info] = gpu.list_devices()

    assert (info.uuid, info.name, info.driver) == ("GPU-a", "H100", "470.1")
    assert gpu.health("GPU-a").is_ok


def test_health_is_of_the_device_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml([FakeDevice("GPU-a"), FakeDevice("GPU-b", used=3 << 30, gpu=77, temperature=61)]))

    health = NvmlGpu().health("GPU-b")

    assert (health.uuid, health.memory_used_mib, health.utilisation_percent, health.temperature_c) == (
        "GPU-b",
        3072,
        77,
        61,
    )


def test_S17_health_names_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml([FakeDevice("GPU-a", temperature=HOTTEST_C, uncorrected_ecc=2)]))

    assert NvmlGpu().health("GPU-a").reasons == (f"temperature {HOTTEST_C} C", "2 uncorrected memory errors")


def test_temperature_just_below_the_hottest_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml([FakeDevice("GPU-a", temperature=HOTTEST_C - 1)]))

    assert NvmlGpu().health("GPU-a").is_ok


def test_device_pulled_out_is_unknown_afterwards() -> None:
    fake = FakeNvml([FakeDevice("GPU-a"), FakeDevice("GPU-b")])
    gpu = NvmlGpu(fake)
    del fake.devices[0]

    with pytest.raises(DeviceUnknownError):
        gpu.health("GPU-a")
    assert gpu.health("GPU-b").is_ok


@pytest.mark.parametrize(
    "name",
    ["nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
     "nvmlDeviceGetMemoryInfo", "nvmlSystemGetDriverVersion"],
)  # fmt: skip
def test_S17_driver_that_fails_while_listing_is_a_driver_error(name: str) -> None:
    gpu = NvmlGpu(FakeNvml(failures={name: FakeNvmlError(999, "Unknown Error")}))

    with pytest.raises(DeviceDriverError) as caught:
        gpu.list_devices()
    assert caught.value.fields == {"driver": "nvml", "reason": "Unknown Error"}
    assert caught.value.remedy


def test_close_shuts_the_driver_down_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    module: Any = install(monkeypatch, FakeNvml())
    module.nvmlShutdown = lambda: calls.append("shutdown")
    gpu = NvmlGpu()
    gpu.close()
    gpu.close()

    assert calls == ["shutdown"]


def test_close_of_a_driver_that_is_gone_is_quiet() -> None:
    fake = FakeNvml(failures={"nvmlShutdown": FakeNvmlError(1, "Uninitialized")})
    gpu = NvmlGpu(fake)
    gpu.close()
    fake.failures.clear()
    gpu.close()

    assert fake.is_open, "a second close asked the driver again"


def test_open_devices_with_cards_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml([FakeDevice("GPU-a")]))

    assert [info.kind for info in open_devices().list_devices()] == [DeviceKind.NVIDIA]


@pytest.mark.parametrize("fake", [FakeNvml([]), FakeNvml(failures={"nvmlInit": FakeNvmlError(9, "Driver Not Loaded")})])
def test_open_devices_without_a_usable_card_gives_the_cpu(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml) -> None:
    install(monkeypatch, fake)

    assert [info.kind for info in open_devices().list_devices()] == [DeviceKind.CPU]
    assert not fake.is_open


def test_open_devices_that_insists_on_nvidia_raises_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(DeviceDriverError):
        open_devices(DeviceKind.NVIDIA)
