"""What a worker measures of its leases."""

from dataclasses import replace

from millpond.protocol.ids import Bytes32
from millpond_worker.agent.usage import Gauge
from millpond_worker.launch.errors import EngineUnavailableError
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.launch.measure import measured_by_docker
from millpond_worker.launch.port import ContainerSpec, Limits, Measured

LEASE, OTHER = Bytes32("0x" + "11" * 32), Bytes32("0x" + "22" * 32)
LIMITS = Limits(1000, 256)


async def started(launcher: FakeLauncher, lease: Bytes32 = LEASE):
    return await launcher.start(ContainerSpec(lease, "0x", "millpond-task:1", LIMITS))


async def test_measure_tells_each_lease_once_until_measured_again() -> None:
    launcher = FakeLauncher()
    gauge = Gauge(launcher)
    await started(launcher)
    await started(launcher, OTHER)
    await gauge.measure([LEASE], 100)
    (usage,) = gauge.take()
    assert (usage.lease, usage.at, usage.cpu_ms, usage.memory_bytes) == (LEASE, 100, 10, 1 << 20)
    assert gauge.take() == ()


async def test_cpu_goes_on_over_containers_and_peak_stays() -> None:
    launcher = FakeLauncher()
    gauge = Gauge(launcher)
    first = await started(launcher)
    launcher.measured = Measured(500, 9 << 20)
    await gauge.measure([LEASE], 1)
    await launcher.stop(first)
    await started(launcher)
    launcher.measured = Measured(20, 1 << 20)
    await gauge.measure([LEASE], 2)
    (usage,) = gauge.take()
    assert (usage.cpu_ms, usage.memory_bytes, usage.memory_peak_bytes) == (520, 1 << 20, 9 << 20)


async def test_engine_that_fails_measures_nothing_and_raises_nothing() -> None:
    launcher = FakeLauncher()
    gauge = Gauge(launcher)
    await started(launcher)
    for call in ("list_owned", "measure"):
        launcher.failures[call] = EngineUnavailableError("down", engine="fake", address="")
        await gauge.measure([LEASE], 1)
        assert gauge.take() == ()


async def test_figures_nobody_expected_end_nothing() -> None:
    launcher = FakeLauncher()
    gauge = Gauge(launcher)
    await started(launcher)
    launcher.failures["measure"] = TypeError("'NoneType' object is not iterable")
    await gauge.measure([LEASE], 1)

    assert gauge.take() == ()


async def test_unknown_figures_stay_unknown_and_known_ones_add_up() -> None:
    launcher = FakeLauncher()
    gauge = Gauge(launcher)
    launcher.measured = replace(launcher.measured, disk_read_bytes=5)
    await started(launcher)
    await started(launcher)
    await gauge.measure([LEASE], 1)
    (usage,) = gauge.take()
    assert (usage.disk_read_bytes, usage.network_sent_bytes) == (10, None)


def test_docker_stats_are_read_without_the_cache() -> None:
    stats = {
        "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}},
        "memory_stats": {"usage": 300, "stats": {"inactive_file": 100}},
        "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 7}, {"op": "Write", "value": 8}]},
        "networks": {"eth0": {"rx_bytes": 3, "tx_bytes": 4}},
    }
    assert measured_by_docker(stats) == Measured(1500, 200, 7, 8, 3, 4)


def test_docker_stats_without_network_or_disk_are_unknown() -> None:
    assert measured_by_docker({"blkio_stats": {"io_service_bytes_recursive": None}}) == Measured(0, 0)
