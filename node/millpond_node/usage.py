"""What leases use, as their workers tell it with each beat. In memory, bounded per lease; gone with the lease."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.usage import MAX_BEAT_USAGES, MAX_SAMPLES, SAMPLE_SECONDS, LeaseUsage, UsageView
from millpond_node.machine.leases import LeaseRecord, Leases


@dataclass(slots=True)
class Series:
    """`at` is the node's own clock at the newest measurement: a worker's clock may be wrong."""

    newest: LeaseUsage
    at: int
    sampled_at: int
    samples: deque[LeaseUsage] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))


class UsageBook:
    """`take` believes a worker about its own live leases only."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._series: dict[Bytes32, Series] = {}

    def take(self, worker: Address, usages: tuple[LeaseUsage, ...], now: int) -> None:
        for usage in usages[:MAX_BEAT_USAGES]:
            record = self._leases.records.get(usage.lease)
            if record is not None and record.worker == worker and not record.is_over:
                self._add(usage, now)

    def view(self, record: LeaseRecord, now: int) -> UsageView:
        offer, series = record.offer.offer, self._series.get(record.lease)
        if series is None:
            return UsageView(record.lease, None, None, offer.cpuMilli, offer.ramMiB, ())
        age = max(0, now - series.at)
        return UsageView(record.lease, series.newest, age, offer.cpuMilli, offer.ramMiB, tuple(series.samples))

    def forget_gone(self) -> None:
        for lease in [lease for lease in self._series if lease not in self._leases.records]:
            del self._series[lease]

    def _add(self, usage: LeaseUsage, now: int) -> None:
        series = self._series.get(usage.lease)
        if series is None:
            series = self._series[usage.lease] = Series(usage, now, 0)
        series.newest, series.at = usage, now
        if now - series.sampled_at >= SAMPLE_SECONDS:
            series.sampled_at = now
            series.samples.append(usage)
