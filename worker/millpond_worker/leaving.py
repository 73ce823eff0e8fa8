"""Leaving a pool: what still ties a provider to it, what can be done about that now, and what must be waited for. Pure.

Level-triggered: each pass follows from what the chain says, so a pass that was cut off anywhere is simply done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from millpond.chain.bindings.structs import Device, Provision, ThawEntry
from millpond.protocol.ids import Address, Bytes32

EXIT_MARGIN_S = 86_400
"""After a device's longest reservation, from which on it leaves whatever its pool says (IDevices)."""


@dataclass(frozen=True, slots=True)
class LeaseTie:
    """A lease that is not over. `until` is when its next step is due, in chain time."""

    lease: Bytes32
    step: str
    until: int


@dataclass(frozen=True, slots=True)
class Ties:
    """All that holds a provider in a pool at one block. Amounts in token base units."""

    pool: Address
    head_time: int
    devices: Mapping[Bytes32, Device]
    provision: Provision
    thawable: int
    thaws: Sequence[ThawEntry]
    idle: int
    owed: int
    leases: Sequence[LeaseTie] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """A step that the chain would accept now. `device` for those that concern one, `amount` where one is moved."""

    step: str
    device: Bytes32 | None = None
    amount: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """A step that is not due yet. `until` is chain time, 0 where nobody can say."""

    step: str
    until: int
    why: str


def next_move(ties: Ties) -> Move | None:
    """What to do first; nothing when all is done or must be waited for."""
    return next(_moves(ties), None)


def _moves(ties: Ties) -> Iterator[Move]:
    held = ties.provision.active + ties.provision.thawing
    if held and not ties.provision.retiredAt:
        yield Move("retire")
    for device, item in _here(ties):
        if not item.usedShare or ties.head_time >= item.latestEnd + EXIT_MARGIN_S:
            yield Move("leave", device)
        elif not item.isDraining:
            yield Move("drain", device)
    if any(entry.maturesAt <= ties.head_time for entry in ties.thaws):
        yield Move("complete thaw")
    if ties.thawable:
        yield Move("thaw", amount=ties.thawable)
    if ties.idle:
        yield Move("withdraw stake", amount=ties.idle)
    if ties.owed:
        yield Move("withdraw earnings", amount=ties.owed)


def waits(ties: Ties) -> list[Wait]:
    """What is left when there is no move, soonest first. Empty: the provider is out."""
    found = [Wait(tie.step, tie.until, f"lease {tie.lease}") for tie in ties.leases]
    for _, item in _here(ties):
        if item.usedShare:
            until = item.latestEnd + EXIT_MARGIN_S
            found.append(Wait("leave", until, f"{item.usedShare} per mille of a device are leased; at the latest"))
    provision = ties.provision
    if provision.exposure and provision.active:
        until = provision.retiredAt + provision.thawPeriod
        found.append(
            Wait("release exposure", until, "stake is reserved for leases whose windows are open; at the latest")
        )
    if ties.thaws:
        found.append(Wait("complete thaw", ties.thaws[-1].maturesAt, "the stake thaws"))
    if provision.frozen:
        found.append(Wait("unfreeze", 0, "stake is frozen while an offence is judged"))
    return sorted(found, key=lambda item: item.until)


def _here(ties: Ties) -> list[tuple[Bytes32, Device]]:
    return [(device, item) for device, item in ties.devices.items() if item.pool == ties.pool]
