"""Devices: the cpu device, NVML through its fake, slices and the ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond_worker.devices.cpu import CpuGpu, cpu_uuid, host_cores, host_ram_mib
from millpond_worker.devices.discover import open_devices
from millpond_worker.devices.errors import DeviceDriverError, DeviceUnknownError, SliceOverflowError, SliceShapeError
from millpond_worker.devices.fake import FakeDevice, FakeNvml, FakeNvmlError
from millpond_worker.devices.nvml import NvmlGpu
from millpond_worker.devices.port import DeviceInfo, DeviceKind, Gpu, SliceMode
from millpond_worker.devices.slices import SliceLedger, slice_of
from millpond_worker.launch.limits import gpus_of, limits_of

CPU = DeviceInfo("CPU-1", DeviceKind.CPU, "cpu: x", 4096, "linux", cores=4, host_cores=4, host_ram_mib=8192)
GPU = DeviceInfo("GPU-1", DeviceKind.NVIDIA, "H100", 81920, "570", host_cores=16, host_ram_mib=65536)


@pytest.fixture(params=["cpu", "nvml"])
def gpu(request: pytest.FixtureRequest) -> Gpu:
    return CpuGpu() if request.param == "cpu" else NvmlGpu(FakeNvml([FakeDevice("GPU-a"), FakeDevice("GPU-b")]))


# THE PORT


def test_list_devices_twice_is_the_same(gpu: Gpu) -> None:
    assert gpu.list_devices() == gpu.list_devices()
    assert len({device.uuid for device in gpu.list_devices()}) == len(gpu.list_devices()) > 0


def test_health_each_device_is_ok(gpu: Gpu) -> None:
    for device in gpu.list_devices():
        assert gpu.health(device.uuid).is_ok


def test_health_unknown_device_is_refused(gpu: Gpu) -> None:
    with pytest.raises(DeviceUnknownError) as caught:
        gpu.health("GPU-nowhere")
    assert caught.value.fields["uuid"] == "GPU-nowhere"


def test_close_twice_lets_the_driver_go_once(gpu: Gpu) -> None:
    gpu.close()
    fake = gpu._nvml if isinstance(gpu, NvmlGpu) else FakeNvml()
    assert not fake.is_open
    fake.nvmlInit()
    gpu.close()

    assert fake.is_open
    assert gpu.list_devices()


# CPU


def test_cpu_device_is_named_as_such_and_stable() -> None:
    (device,) = CpuGpu(label="a").list_devices()
    assert device.kind == "cpu"
    assert device.name.startswith("cpu")
    assert device.uuid.startswith("CPU-")
    assert CpuGpu(label="a").list_devices() == [device]
    assert CpuGpu(label="b").list_devices()[0].uuid != device.uuid


def test_cpu_uuid_differs_by_machine() -> None:
    assert cpu_uuid("m1", "") != cpu_uuid("m2", "")


def test_cpu_device_offers_no_more_than_the_machine_has() -> None:
    (device,) = CpuGpu(cores=100_000, memory_mib=1 << 40).list_devices()
    assert device.cores == host_cores()
    assert device.memory_mib == host_ram_mib()


def test_open_devices_cpu_insisted_gives_cpu() -> None:
    assert [device.kind for device in open_devices(DeviceKind.CPU).list_devices()] == [DeviceKind.CPU]


# NVML


def test_nvml_reports_memory_in_mib_and_driver() -> None:
    (device,) = NvmlGpu(FakeNvml([FakeDevice("GPU-a", total=80 << 30)], driver="570.1")).list_devices()
    assert (device.memory_mib, device.driver, device.kind) == (81920, "570.1", DeviceKind.NVIDIA)


def test_nvml_not_answering_is_a_driver_error() -> None:
    failing = FakeNvml(failures={"nvmlInit": FakeNvmlError(9, "Driver Not Loaded")})
    with pytest.raises(DeviceDriverError) as caught:
        NvmlGpu(failing)
    assert caught.value.fields["reason"] == "Driver Not Loaded"
    assert caught.value.remedy


def test_S17_nvml_device_lost_later_is_a_driver_error() -> None:
    fake = FakeNvml()
    gpu = NvmlGpu(fake)
    uuid = gpu.list_devices()[0].uuid
    fake.failures["nvmlDeviceGetMemoryInfo"] = FakeNvmlError(15, "GPU is lost")
    with pytest.raises(DeviceDriverError):
        gpu.health(uuid)


@pytest.mark.parametrize("change", [{"temperature": 99}, {"uncorrected_ecc": 3}])
def test_S17_nvml_hot_or_faulty_device_is_not_ok(change: dict[str, int]) -> None:
    health = NvmlGpu(FakeNvml([FakeDevice("GPU-a", **change)])).health("GPU-a")
    assert not health.is_ok
    assert len(health.reasons) == 1


def test_nvml_card_without_sensors_is_still_ok() -> None:
    missing = FakeNvmlError(3, "Not Supported")
    names = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetUtilizationRates")
    health = NvmlGpu(FakeNvml(failures=dict.fromkeys(names, missing))).health(
        "GPU-00000000-0000-0000-0000-000000000001"
    )
    assert health.is_ok
    assert health.temperature_c is None


# SLICES


def test_slice_of_cpu_gives_its_share_of_cores_and_its_memory() -> None:
    spec = slice_of(CPU, 300, 1024)
    assert (spec.cpu_milli, spec.ram_mib, spec.memory_mib, spec.mode, spec.isolation) == (
        1200,
        1024,
        1024,
        SliceMode.CPU,
        1,
    )
    limits = limits_of(spec)
    assert (limits.cpu_milli, limits.memory_mib, limits.tmp_mib) == (1200, 1024, spec.disk_mib)
    assert gpus_of(CPU) == ()


def test_slice_of_gpu_gets_host_resources_by_share() -> None:
    spec = slice_of(GPU, 250, 20000)
    assert (spec.cpu_milli, spec.ram_mib, spec.memory_mib, spec.mode, spec.isolation) == (
        4000,
        16384,
        20000,
        SliceMode.TIMESLICE,
        0,
    )
    assert slice_of(GPU, 1000, 81920).mode is SliceMode.WHOLE
    assert gpus_of(GPU) == ("nvidia.com/gpu=GPU-1",)


@pytest.mark.parametrize(
    ("share", "memory", "name"),
    [(0, 512, "share_per_mille"), (1001, 512, "share_per_mille"), (1, 15, "memory_mib"), (1, 4097, "memory_mib")],
)
def test_slice_of_wrong_size_is_refused(share: int, memory: int, name: str) -> None:
    with pytest.raises(SliceShapeError) as caught:
        slice_of(CPU, share, memory)
    assert caught.value.fields["name"] == name


@pytest.mark.parametrize(("device", "mode"), [(CPU, SliceMode.MIG), (GPU, SliceMode.CPU)])
def test_slice_of_wrong_mode_is_refused(device: DeviceInfo, mode: SliceMode) -> None:
    with pytest.raises(SliceShapeError) as caught:
        slice_of(device, 100, 512, mode=mode)
    assert caught.value.fields["name"] == "mode"


# THE LEDGER


def test_ledger_third_slice_over_the_share_is_refused() -> None:
    ledger = SliceLedger([CPU])
    ledger.reserve("a", slice_of(CPU, 600, 1024))
    ledger.reserve("b", slice_of(CPU, 300, 1024))
    with pytest.raises(SliceOverflowError) as caught:
        ledger.reserve("c", slice_of(CPU, 101, 64))
    assert caught.value.fields == {"device": "CPU-1", "resource": "share", "wanted": 101, "free": 100}
    assert set(ledger.held()) == {"a", "b"}


def test_ledger_over_the_memory_is_refused() -> None:
    ledger = SliceLedger([CPU])
    ledger.reserve("a", slice_of(CPU, 100, 4000))
    with pytest.raises(SliceOverflowError) as caught:
        ledger.reserve("b", slice_of(CPU, 100, 97))
    assert caught.value.fields["resource"] == "memory"


def test_ledger_same_slice_again_does_nothing_another_is_refused() -> None:
    ledger = SliceLedger([CPU])
    spec = slice_of(CPU, 600, 1024)
    ledger.reserve("a", spec)
    ledger.reserve("a", spec)
    with pytest.raises(SliceShapeError):
        ledger.reserve("a", replace(spec, share_per_mille=100))
    assert ledger.free("CPU-1").share_per_mille == 400


def test_ledger_released_slice_is_free_again() -> None:
    ledger = SliceLedger([CPU])
    ledger.reserve("a", slice_of(CPU, 1000, 4096))
    ledger.release("a")
    ledger.release("a")
    ledger.reserve("b", slice_of(CPU, 1000, 4096))
    assert ledger.free("CPU-1").share_per_mille == 0


def test_ledger_unknown_device_is_refused() -> None:
    with pytest.raises(DeviceUnknownError):
        SliceLedger([GPU]).reserve("a", slice_of(CPU, 1, 64))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 700), st.integers(16, 3000), st.booleans()), max_size=30))
def test_ledger_any_history_never_exceeds_the_device(history: list[tuple[int, int, int, bool]]) -> None:
    ledger = SliceLedger([CPU])
    for lease, share, memory, is_release in history:
        if is_release:
            ledger.release(str(lease))
            continue
        with suppress(SliceOverflowError, SliceShapeError):
            ledger.reserve(str(lease), slice_of(CPU, share, memory))
        assert sum(spec.share_per_mille for spec in ledger.held().values()) <= 1000
        assert sum(spec.memory_mib for spec in ledger.held().values()) <= CPU.memory_mib
