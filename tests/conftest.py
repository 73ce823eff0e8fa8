"""Marks, and engines that must not be missing: MILLPOND_REQUIRE=docker,anvil turns their skips into failures."""

import os
import sys
from collections.abc import Generator

import pytest

ENGINES = ("docker", "anvil", "gpu", "network", "forge", "brownie")
RECURSION_LIMIT = 1000


def required_engines() -> set[str]:
    """The engines MILLPOND_REQUIRE names; raises `pytest.UsageError` on one nobody knows."""
    names = {name.strip() for name in os.environ.get("MILLPOND_REQUIRE", "").split(",")} - {""}
    unknown = sorted(names - set(ENGINES))
    if unknown:
        raise pytest.UsageError(f"MILLPOND_REQUIRE names {unknown}; known are {list(ENGINES)}")
    return names


def pytest_configure(config: pytest.Config) -> None:
    required_engines()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hypothesis may leave a higher limit behind; Python 3.11's JSON parser then overflows the C stack instead of raising."""
    sys.setrecursionlimit(RECURSION_LIMIT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    needed = sorted(engine for engine in required_engines() if item.get_closest_marker(engine))
    if report.skipped and needed and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"MILLPOND_REQUIRE={','.join(needed)} forbids this skip. {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and required_engines():
        report.outcome = "failed"
        report.longrepr = f"MILLPOND_REQUIRE is set and {collector.nodeid} skips as a whole: mark its tests instead"
    return report
