"""Rows of `lease top`."""

from types import SimpleNamespace

from millpond.cli._top import COLUMNS, cpu_percent, row_of
from millpond.protocol.ids import Bytes32
from millpond.protocol.usage import LeaseUsage, UsageView

LEASE = Bytes32("0x" + "11" * 32)
VIEW = SimpleNamespace(lease=LEASE, state="serving", deadline=5, next="closing")


def used(at: int, cpu_ms: int, memory: int = 3 << 20) -> LeaseUsage:
    return LeaseUsage(LEASE, at, cpu_ms, memory, memory)


def test_lease_without_a_measurement_shows_nothing_as_zero() -> None:
    row = row_of(VIEW, UsageView(LEASE, None, None, 1000, 256, ()), None)
    assert row.cells() == (LEASE, "serving", *["-"] * (len(COLUMNS) - 2))


def test_cpu_is_the_share_of_one_core_since_the_newest_earlier_measurement() -> None:
    usage = UsageView(LEASE, used(20, 9_000), 1, 1000, 256, (used(5, 0), used(10, 4_000)))
    assert row_of(VIEW, usage, None).cpu_percent == 50.0
    assert row_of(VIEW, usage, used(15, 8_000)).cpu_percent == 20.0


def test_cpu_of_a_restarted_worker_or_a_repeated_measurement_is_unknown() -> None:
    assert cpu_percent(used(10, 5_000), used(12, 10)) is None
    assert cpu_percent(used(10, 5_000), used(10, 5_000)) is None


def test_figures_nobody_measures_are_a_dash_and_json_keeps_null() -> None:
    row = row_of(VIEW, UsageView(LEASE, used(20, 9_000), 1, 1000, 256, ()), None)
    cells = dict(zip(COLUMNS, row.cells(), strict=True))
    assert (cells["net in"], cells["GPU %"], cells["memory MiB"], cells["limit"]) == ("-", "-", "3.0", "256")
    assert row.as_json()["usage"].now.gpu_percent is None
