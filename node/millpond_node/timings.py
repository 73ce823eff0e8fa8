"""How long requests wait for a place and tasks for a worker, as histograms. Only what still waits is remembered."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from millpond.protocol.ids import Bytes32
from millpond.protocol.views import RequestState
from millpond_node.core import Core
from millpond_node.machine.commands import Queue, SaveResult, SaveSent, Unqueue

DISPATCH_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0)
WAIT_BOUNDS_S = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(slots=True)
class Histogram:
    """`counts[i]`: observations up to `bounds[i]` and above the bound before; the last one is of all above."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Timings:
    """Times are of the node's monotonic clock; what waited before a restart is not counted."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._tasks: dict[Bytes32, float] = {}
        self._requests: dict[Bytes32, float] = {}
        self.dispatch = Histogram(DISPATCH_BOUNDS_S)
        self.wait = Histogram(WAIT_BOUNDS_S)
        core.watches(SaveSent, self._sent)
        core.watches(SaveResult, self._ended)
        core.watches(Queue, self._queued)
        core.watches(Unqueue, self._unqueued)

    def __len__(self) -> int:
        return len(self._tasks) + len(self._requests)

    def submitting(self, job: Bytes32, tasks: Iterable[Bytes32]) -> None:
        """Call it before the tasks are queued: the first are sent at once."""
        known = self._core.books.desk.jobs.get(job)
        now = self._core.clock.monotonic()
        for task in tasks:
            if known is None or task not in known.tasks:
                self._tasks[task] = now

    def refused(self, tasks: Iterable[Bytes32]) -> None:
        for task in tasks:
            self._tasks.pop(task, None)

    def _sent(self, command: SaveSent) -> None:
        since = self._tasks.pop(command.task, None) if command.lease else None
        if since is not None:
            self.dispatch.observe(self._core.clock.monotonic() - since)

    def _ended(self, command: SaveResult) -> None:
        self._tasks.pop(command.task, None)

    def _queued(self, command: Queue) -> None:
        self._requests.setdefault(command.request, self._core.clock.monotonic())

    def _unqueued(self, command: Unqueue) -> None:
        since = self._requests.pop(command.request, None)
        record = self._core.books.requests.records[command.request]
        if since is not None and record.state is RequestState.OPENING:
            self.wait.observe(self._core.clock.monotonic() - since)
