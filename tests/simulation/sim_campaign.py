"""Campaigns: a crash at every point of a run, one run each; and seeds with several faults at random times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sim_run import Fault, Report, simulate
from sim_world import WORKERS, Scenario

SLICES = 24
"""The points of a run are dealt out to so many tests, so that they can run side by side."""
PROCESSES = (*WORKERS, "node", "renter")
ROUGH = Scenario(delay=(0.002, 0.4), loss=0.02, most=1600.0)


@dataclass
class Tally:
    """What a campaign found."""

    runs: int = 0
    crashed: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, name: str, who: str, report: Report) -> None:
        self.runs += 1
        self.crashed[who] += 1
        self.violations += [f"{name}: {report.faults}: {found}" for found in report.violations]

    def __str__(self) -> str:
        return f"{self.runs} runs {dict(self.crashed)}, {len(self.violations)} violations"


def points_of(seed: int) -> list[tuple[str, str]]:
    """The points of the run without a fault, which must be without a fault."""
    report = simulate(seed)
    assert not report.violations, report.violations
    return report.points


def crash_at(seed: int, points: list[tuple[str, str]], index: int) -> Report:
    """The run that is killed at the point: its process; or, after a block, the chain, which loses its last blocks."""
    who = points[index][0]
    is_chain = who == "chain"
    fault = Fault(who, 4.0, "rollback", 1 + index % 5) if is_chain else Fault(who, 1.0 + index % 3)
    report = simulate(seed, plan={index: fault})
    assert report.points[: index + 1] == points[: index + 1], "the run is not the one that was enumerated"
    assert report.faults
    return report


def crash_at_each(seed: int, points: list[tuple[str, str]], indices: Iterable[int]) -> Tally:
    tally = Tally()
    for index in indices:
        who, what = points[index]
        tally.add(f"seed {seed}, point {index} ({who} {what})", who, crash_at(seed, points, index))
    return tally


def faults_of(seed: int) -> tuple[Fault, ...]:
    """Three to six faults in the first minute."""
    dice = random.Random(seed)
    return tuple(_fault(dice, dice.uniform(0.2, 45.0)) for _ in range(dice.randint(3, 6)))


def _fault(dice: random.Random, at: float) -> Fault:
    kind = dice.choice(("kill", "kill", "kill", "cut", "rollback", "reorg", "rpc"))
    match kind:
        case "kill":
            return Fault(dice.choice(PROCESSES), dice.uniform(0.2, 12.0), at=at)
        case "cut":
            return Fault(dice.choice(WORKERS), dice.uniform(0.2, 15.0), "cut", depth=dice.randint(0, 1), at=at)
        case "rpc":
            return Fault(dice.choice(("node", *WORKERS)), dice.uniform(1.0, 20.0), "rpc", at=at)
        case _:
            return Fault("chain", dice.uniform(1.0, 8.0), kind, depth=dice.randint(1, 8), at=at)


def rough_ride(seed: int) -> Report:
    return simulate(seed, ROUGH, timed=faults_of(seed))
