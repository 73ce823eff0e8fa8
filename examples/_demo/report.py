"""What the demo claims, as one JSON document, and the checks it must pass. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from _demo import ledger
from _demo.history import History
from _demo.ledger import Gas, Money, Slice


@dataclass(frozen=True, slots=True)
class Run:
    """What the renter saw. `attested` counts the receipts that it checked against the posted roots, `retried` the attempts that ran
    again after `killed`, the worker that was killed, was lost."""

    workers: int
    killed: str
    tasks: int
    succeeded: int
    attested: int
    retried: int
    best_accuracy: float
    launcher: str
    device_names: tuple[str, ...]
    refusal: str
    is_stranger_convinced: bool
    is_change_noticed: bool
    withdrawn: int
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """All figures, read back from the chain or measured."""

    run: Run
    money: Money
    slices: Sequence[Slice]
    gas: dict[str, Gas]
    opened: int
    closed: int
    posted: int
    device_kinds: Sequence[str]
    workers_registered: int
    balances: Any
    blocks: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; amounts are token base units as decimal strings."""
        run, money = self.run, {name: str(value) for name, value in asdict(self.money).items()}
        return {
            "workers": run.workers,
            "leases_opened": self.opened,
            "leases_closed": self.closed,
            "tasks": run.tasks,
            "tasks_succeeded": run.succeeded,
            "receipts_attested": run.attested,
            "attempts_retried": run.retried,
            "worker_killed": run.killed,
            **money,
            "withdrawn": str(run.withdrawn),
            "slices": [
                {**asdict(row), "earned": str(row.earned), "refunded": str(row.refunded)} for row in self.slices
            ],
            "gas": {name: row.as_dict() for name, row in self.gas.items()},
            "best_accuracy": run.best_accuracy,
            "launcher": run.launcher,
            "device_kinds": list(self.device_kinds),
            "device_names": list(run.device_names),
            "refused": run.refusal,
            "blocks": self.blocks,
            "wall_seconds": round(run.wall_seconds, 1),
            "checks": self.checks(),
        }

    def checks(self) -> dict[str, bool]:
        """Every claim the demo makes, by its words."""
        run, money, balances = self.run, self.money, self.balances
        return {
            "deposited == paid + fees + burnt + refunded": money.is_balanced,
            "deposited is exactly what the leases could cost": money.deposited == money.earmarked > 0,
            "Escrow's balances agree with its events": (
                (balances.free, balances.payouts, balances.treasury, balances.burn)
                == (money.refunded, money.paid, money.fees, money.burnt)
            ),
            "the provider withdrew what it earned": run.withdrawn == money.paid > 0,
            "every task succeeded": run.succeeded == run.tasks > 0,
            "every task's receipt is attested": run.attested == self.posted == run.tasks,
            "every opened lease is closed": self.opened == self.closed > 0,
            "two unequal slices of one device, each with tasks": ledger.has_unequal_slices(self.slices),
            "every lease ran tasks": all(row.tasks for row in self.slices),
            "a killed worker's attempts ran again elsewhere": bool(run.killed) and run.retried > 0,
            "a slice that does not fit is refused on chain": "Devices" in run.refusal,
            "two workers, each registered": self.workers_registered == run.workers == 2,
            "a stranger verifies a receipt": run.is_stranger_convinced,
            "a changed byte fails it": run.is_change_noticed,
        }

    @property
    def is_sound(self) -> bool:
        return all(self.checks().values())


def make_report(run: Run, history: History, slices: Sequence[Slice], pool: Any, renter: Any) -> Report:
    """Adds the chain's figures to the renter's."""
    return Report(
        run=run,
        money=ledger.money(history, renter),
        slices=slices,
        gas=ledger.gas(history.operations),
        opened=len(history.named("Controller", "LeaseOpened")),
        closed=len(history.named("Controller", "LeaseClosed")),
        posted=ledger.posted_receipts(history, pool),
        device_kinds=ledger.device_kinds(history),
        workers_registered=len(history.named("Devices", "ProviderRegistered")),
        balances=history.balances,
        blocks=history.last + 1,
    )
