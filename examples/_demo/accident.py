"""The accident of the demo: one worker is killed in the middle of the sweep, and started again after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from millpond.dev.accounts import provider_accounts, wallet
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import TaskResult
from millpond.protocol.views import LeaseView

AFTER = 3
"""Results of the victim before it is killed: it is at work, and most of the sweep is still to come."""


@dataclass(slots=True)
class Accident:
    """`kill` ends worker number n by SIGKILL, `restart` starts it again from its home. `name` is empty until it happened."""

    kill: Callable[[int], None]
    restart: Callable[[int], None]
    workers: int
    out: Console
    name: str = ""
    _victim: Address | None = None
    _leases: set[Bytes32] = field(default_factory=set)
    _seen: int = 0

    def choose(self, views: Sequence[LeaseView]) -> None:
        """The victim is the worker of these leases."""
        self._victim = views[0].worker if views else None
        self._leases = {view.lease for view in views}

    def arrived(self, result: TaskResult) -> None:
        """Kills once the victim has shown that it works."""
        if self.name or self._victim is None or result.signed is None:
            return
        self._seen += result.signed.receipt.lease in self._leases
        if self._seen == AFTER:
            number = self._number()
            self.kill(number)
            self.name = f"worker-{number + 1}"
            self.out.print(
                f"  [bold red]kill -9[/] {self.name}: its tasks run again elsewhere once it has been silent for 30 s"
            )

    def repair(self) -> None:
        """The worker comes back, ends what it left behind and serves on."""
        if self.name:
            self.restart(self._number())
            self.out.print(f"  {self.name} started again")

    def _number(self) -> int:
        operators = {wallet(provider_accounts(number)[1]).address: number for number in range(self.workers)}
        assert self._victim is not None
        return operators[self._victim]
