"""Adds up what the chain's events say: money, slices, gas. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from _demo.history import Event, History, Operation
from millpond.protocol.ids import Address, Bytes32

DEVICE_KINDS = ("cpu", "nvidia")
"""By the number that `Devices` keeps."""


@dataclass(frozen=True, slots=True)
class Money:
    """Token base units. `earmarked` is the most that the leases could cost; `paid` what payees earned, fee and burn taken off."""

    deposited: int
    earmarked: int
    paid: int
    fees: int
    burnt: int
    refunded: int

    @property
    def is_balanced(self) -> bool:
        return self.deposited == self.paid + self.fees + self.burnt + self.refunded


@dataclass(frozen=True, slots=True)
class Slice:
    """One lease. `seconds` is what was paid for, `earned` is the provider's part in token base units."""

    lease: Bytes32
    device: Bytes32
    share: int
    memory_mib: int
    tasks: int
    seconds: int
    earned: int
    refunded: int


@dataclass(frozen=True, slots=True)
class Gas:
    """Of one kind of transaction. `refused` counts those that reverted; they cost gas as well."""

    count: int
    least: int
    mean: int
    most: int
    refused: int

    def as_dict(self) -> dict[str, int]:
        return {"count": self.count, "min": self.least, "mean": self.mean, "max": self.most, "refused": self.refused}


def money(history: History, renter: Address) -> Money:
    """All that `renter` deposited, and where it went."""
    funded = [args for args in history.named("Escrow", "LeaseFunded") if args["payer"] == renter]
    leases = {args["lease"] for args in funded}
    collected = [args for args in history.named("Escrow", "VoucherCollected") if args["lease"] in leases]
    settled = [args for args in history.named("Escrow", "LeaseSettled") if args["lease"] in leases]
    returned = [args for args in history.named("Escrow", "OpeningDepositReturned") if args["lease"] in leases]
    return Money(
        deposited=sum(args["amount"] for args in history.named("Escrow", "Deposited") if args["account"] == renter),
        earmarked=sum(args["earmark"] for args in funded),
        paid=sum(args["paid"] - args["fee"] - args["burnt"] for args in collected),
        fees=sum(args["fee"] for args in collected),
        burnt=sum(args["burnt"] for args in (*collected, *settled)),
        refunded=sum(args["amount"] for args in returned) + sum(args["refunded"] for args in settled),
    )


def slices(history: History, tasks: Counter[Bytes32]) -> list[Slice]:
    """Every lease of the pool in the order of opening; `tasks` counts receipts by lease."""
    return [
        _slice(args, [event for event in history.events if event.args.get("lease") == args["lease"]], tasks)
        for args in history.named("Controller", "LeaseOpened")
    ]


def _slice(opened: Mapping[str, Any], events: Iterable[Event], tasks: Counter[Bytes32]) -> Slice:
    lease, terms = opened["lease"], opened["terms"]
    gross = earned = refunded = 0
    for event in events:
        args = event.args
        if event.name == "VoucherCollected":
            gross, earned = gross + args["paid"], earned + args["paid"] - args["fee"] - args["burnt"]
        elif event.name == "OpeningDepositReturned":
            refunded += args["amount"]
        elif event.name == "LeaseSettled":
            refunded += args["refunded"]
    seconds = gross // terms["pricePerSecond"]
    return Slice(lease, terms["device"], terms["share"], terms["memoryMiB"], tasks[lease], seconds, earned, refunded)


def has_unequal_slices(rows: Iterable[Slice]) -> bool:
    """Whether some device carried two slices of different shares, both with tasks."""
    shares: dict[Bytes32, set[int]] = {}
    for row in rows:
        if row.tasks:
            shares.setdefault(row.device, set()).add(row.share)
    return any(len(found) > 1 for found in shares.values())


def gas(operations: Iterable[Operation]) -> dict[str, Gas]:
    """By operation, the most expensive sum first."""
    used: dict[str, list[int]] = {}
    refused: Counter[str] = Counter()
    for operation in operations:
        used.setdefault(operation.name, []).append(operation.gas)
        refused[operation.name] += not operation.is_ok
    rows = {
        name: Gas(len(values), min(values), round(fmean(values)), max(values), refused[name])
        for name, values in used.items()
    }
    return dict(sorted(rows.items(), key=lambda item: -item[1].count * item[1].mean))


def posted_receipts(history: History, pool: Address) -> int:
    """How many receipts the posted roots of `pool` commit to."""
    return sum(args["count"] for args in history.named("Attestations", "ReceiptsPosted") if args["pool"] == pool)


def device_kinds(history: History) -> list[str]:
    """Kinds of the registered devices, each once."""
    numbers = {args["kind"] for args in history.named("Devices", "DeviceRegistered")}
    return [DEVICE_KINDS[number] if number < len(DEVICE_KINDS) else f"kind {number}" for number in sorted(numbers)]
