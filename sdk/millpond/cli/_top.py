"""What leases use now, as rows of a table that is drawn again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millpond.protocol.usage import LeaseUsage, UsageView
from millpond.protocol.views import LeaseView

COLUMNS = ("lease", "state", "cpu %", "cpu s", "memory MiB", "peak", "limit", "read MiB", "written", "net in", "net out",
           "GPU MiB", "GPU %", "age")  # fmt: skip
MIB = 1 << 20
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """`cpu_percent` of one core, between the last two measurements; None before there are two."""

    lease: LeaseView
    usage: UsageView
    cpu_percent: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            "lease": self.lease.lease, "state": self.lease.state, "cpu_percent": self.cpu_percent, "usage": self.usage,
            "deadline": self.lease.deadline, "next": self.lease.next,
        }  # fmt: skip

    def cells(self) -> tuple[str, ...]:
        now, head = self.usage.now, (self.lease.lease, str(self.lease.state))
        if now is None:
            return (*head, *([UNKNOWN] * (len(COLUMNS) - 2)))
        return (
            *head, _one(self.cpu_percent), _one(now.cpu_ms / 1000), _mib(now.memory_bytes), _mib(now.memory_peak_bytes),
            str(self.usage.memory_limit_mib), _mib(now.disk_read_bytes), _mib(now.disk_written_bytes),
            _mib(now.network_received_bytes), _mib(now.network_sent_bytes), _whole(now.gpu_memory_mib), _whole(now.gpu_percent),
            f"{self.usage.age_s} s",
        )  # fmt: skip


def row_of(lease: LeaseView, usage: UsageView, before: LeaseUsage | None) -> Row:
    """`before`: the measurement of the last drawing; without one, the samples of the node serve."""
    earlier = [*usage.samples, *([before] if before is not None else [])]
    past = [one for one in earlier if usage.now is not None and one.at < usage.now.at]
    return Row(lease, usage, cpu_percent(max(past, key=lambda one: one.at), usage.now) if past else None)


def cpu_percent(before: LeaseUsage, now: LeaseUsage | None) -> float | None:
    """Share of one core in per cent; a restarted worker counts from zero again, and then nothing is known."""
    if now is None or now.at <= before.at or now.cpu_ms < before.cpu_ms:
        return None
    return round((now.cpu_ms - before.cpu_ms) / (now.at - before.at) / 10, 1)


def cells_of(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [row.cells() for row in rows]


def _mib(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / MIB:.1f}"


def _one(figure: float | None) -> str:
    return UNKNOWN if figure is None else f"{figure:.1f}"


def _whole(figure: int | None) -> str:
    return UNKNOWN if figure is None else str(figure)
