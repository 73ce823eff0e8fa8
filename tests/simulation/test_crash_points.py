"""kill -9 at every commit, message and transaction of the network; at several by default, at all of them with `make test-crash`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest
from sim_campaign import SLICES, crash_at_each, points_of, rough_ride
from sim_run import Fault, simulate
from sim_world import Scenario

IS_LONG = os.environ.get("MILLPOND_CRASH") == "all"
SEED = 1
SEEDS = int(os.environ.get("MILLPOND_CRASH_SEEDS", "480" if IS_LONG else "8"))
SEEDS_AT_ONCE = 20 if IS_LONG else 4
slow = pytest.mark.timeout(3600)
Count = Callable[[str, object], None]
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # of killed processes


@pytest.fixture(scope="module")
def points() -> list[tuple[str, str]]:
    return points_of(SEED)


def test_same_seed_gives_the_same_run() -> None:
    assert simulate(7).points == simulate(7).points != simulate(8).points


def test_points_cover_every_way_a_process_promises(points: list[tuple[str, str]]) -> None:
    """Each daemon's commits, each kind of report and answer, each transaction, each step of the renter, each block."""
    found = {f"{who} {what}" for who, what in points}
    for wanted in (
        r"node before fsync .*request", r"node after fsync .*submit", r"node after fsync .*result", r"node .* fsync batch",
        r"worker-1 before fsync .*push", r"worker-2 after fsync lease", r"worker-1 after sending .*attempt_ended",
        r"worker-1 before sending .*voucher_kept", r"worker-2 .* sending .*ready", r"node before sending ack",
        r"node after sending run", r"node before sending voucher", r"node intent before open", r"node intent after post",
        r"node broadcast post", r"worker-1 intent before worker-1/collect_final", r"worker-2 broadcast worker-2/release",
        r"renter broadcast renter/close", r"renter before POST /v1/requests", r"renter after POST /v1/jobs", r"chain block",
    ):  # fmt: skip
        assert any(re.match(wanted, point) for point in found), wanted


@slow
@pytest.mark.parametrize("part", range(SLICES if IS_LONG else 1))
def test_O01_crash_at_any_point_loses_nothing_and_ends(
    part: int, points: list[tuple[str, str]], record_property: Count
) -> None:
    step = SLICES if IS_LONG else 3 * SLICES
    tally = crash_at_each(SEED, points, range(part, len(points), step))
    print(f"\ncrash points: {len(points)} in the run, part {part + 1}: {tally}")
    record_property("crash points", tally.runs)
    record_property("crash violations", len(tally.violations))
    assert not tally.violations, "\n".join(tally.violations[:20])


@slow
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_AT_ONCE))
def test_O01_several_faults_at_random_lose_nothing_and_end(first: int, record_property: Count) -> None:
    found: list[str] = []
    count = 0
    for seed in range(first, min(SEEDS, first + SEEDS_AT_ONCE)):
        report = rough_ride(seed)
        count += len(report.faults)
        found += [f"seed {seed}: {report.faults}: {each}" for each in report.violations]
    print(f"\nseeds {first} to {seed}: {count} faults, {len(found)} violations")
    record_property("crash seeds", seed - first + 1)
    record_property("crash faults of the seeds", count)
    record_property("crash violations", len(found))
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("who", ["node", "renter"])
def test_O12_process_that_is_away_for_ten_minutes_finds_its_leases_running(who: str) -> None:
    report = simulate(3, Scenario(most=2400.0, stay=700.0), timed=(Fault(who, 600.0, at=14.0),))
    assert report.faults
    assert not report.violations, report.violations
    assert ("worker-1", "broadcast worker-1/close_unpaid") not in report.points


@pytest.mark.parametrize(
    "faults",
    [
        (Fault("chain", 600.0, "rollback", 0, at=14.0),),
        tuple(Fault(who, 600.0, "rpc", at=14.0) for who in ("node", "worker-1", "worker-2")),
    ],
    ids=["chain", "rpc"],
)
def test_O12_leases_survive_a_chain_or_rpc_that_is_away_for_ten_minutes(faults: tuple[Fault, ...]) -> None:
    report = simulate(4, Scenario(most=2400.0, stay=700.0), timed=faults)
    assert not report.violations, report.violations
    results = [index for index, point in enumerate(report.points) if point == ("renter", "after keeping a result")]
    down = [index for index, point in enumerate(report.points) if point[0] == "chain" and index < results[-1]]
    assert len(results) == 8
    assert down
