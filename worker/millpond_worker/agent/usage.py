"""What each lease uses, measured again and again and told with the next beat."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from millpond.protocol.errors import LaunchError
from millpond.protocol.ids import Bytes32, bytes32
from millpond.protocol.usage import MAX_BEAT_USAGES, LeaseUsage
from millpond_worker.launch.port import Launcher, Measured, OwnedContainer

log = logging.getLogger("millpond_worker")
MEASURE_SECONDS = 5.0


@dataclass(slots=True)
class Account:
    """One lease's. `last_cpu`: of each container at its last measurement, so that a new container goes on from the sum."""

    cpu_ms: int = 0
    peak_bytes: int = 0
    last_cpu: dict[str, int] = field(default_factory=dict)

    def add(self, lease: Bytes32, at: int, found: dict[str, Measured]) -> LeaseUsage:
        for name, one in found.items():
            self.cpu_ms += max(0, one.cpu_ms - self.last_cpu.get(name, 0))
        self.last_cpu = {name: one.cpu_ms for name, one in found.items()}
        memory = sum(one.memory_bytes for one in found.values())
        self.peak_bytes = max(self.peak_bytes, memory)
        ones = list(found.values())
        return LeaseUsage(
            lease, at, self.cpu_ms, memory, self.peak_bytes, _sum([one.disk_read_bytes for one in ones]),
            _sum([one.disk_written_bytes for one in ones]), _sum([one.network_received_bytes for one in ones]),
            _sum([one.network_sent_bytes for one in ones]),
        )  # fmt: skip


class Gauge:
    """`measure` may be slow and never raises; `take` gives what was measured since it was last asked."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._accounts: dict[Bytes32, Account] = {}
        self._news: dict[Bytes32, LeaseUsage] = {}

    async def measure(self, leases: list[Bytes32], now: int) -> None:
        for lease in [lease for lease in self._accounts if lease not in leases]:
            del self._accounts[lease]
        try:
            owned = [one for one in await self._launcher.list_owned() if one.is_running]
        except LaunchError as error:
            log.info("nothing is measured: %s", error.message)
            return
        for lease in leases[:MAX_BEAT_USAGES]:
            found = await self._of([one for one in owned if one.lease == lease])
            if found:
                self._news[lease] = self._accounts.setdefault(lease, Account()).add(bytes32(lease), now, found)

    def take(self) -> tuple[LeaseUsage, ...]:
        news, self._news = self._news, {}
        return tuple(news.values())

    async def _of(self, owned: list[OwnedContainer]) -> dict[str, Measured]:
        found = {}
        for one in owned:
            try:
                found[one.id] = await self._launcher.measure(one)
            except LaunchError as error:
                log.debug("%s is not measured: %s", one.id, error.message)
            except Exception:
                log.exception("%s is not measured: figures that nobody expected", one.id)  # no lease may end over them
        return found


def _sum(figures: list[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
