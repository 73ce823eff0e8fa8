"""Limits on what a stream of content may cost its reader, enforced while it streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from millpond.storage.errors import BudgetExceededError

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Budget:
    """`max_bytes` of content, `max_nodes` visits to blocks and entries (a block linked twice counts twice),
    `max_depth` of links and folders from the root, `max_seconds` of wall time."""

    max_bytes: int = 64 * GIB
    max_nodes: int = 1_000_000
    max_depth: int = 64
    max_seconds: float = 3600.0


class Meter:
    """What one walk has used of its `Budget`. Every method raises `BudgetExceededError`."""

    __slots__ = ("_budget", "_clock", "_started", "bytes_used", "nodes_used")

    def __init__(self, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget, self._clock = budget, clock
        self._started = clock()
        self.bytes_used = self.nodes_used = 0

    def visit(self, depth: int, nodes: int = 1) -> None:
        """Count `nodes` at `depth`; look at the clock."""
        self.nodes_used += nodes
        self._check("nodes", self.nodes_used, self._budget.max_nodes)
        self._check("depth", depth, self._budget.max_depth)
        self._check("seconds", self._clock() - self._started, self._budget.max_seconds)

    def take(self, size: int) -> None:
        """Count `size` bytes of content."""
        self.bytes_used += size
        self._check("bytes", self.bytes_used, self._budget.max_bytes)

    def expect(self, size: int = 0, nodes: int = 0) -> None:
        """Refuse at once content that claims to be larger than what is left."""
        self._check("bytes", self.bytes_used + size, self._budget.max_bytes)
        self._check("nodes", self.nodes_used + nodes, self._budget.max_nodes)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._budget.max_seconds - (self._clock() - self._started))

    def _check(self, what: str, used: float, limit: float) -> None:
        if used > limit:
            raise BudgetExceededError(f"the content needs more than {limit} {what}", what=what, used=used, limit=limit)
