"""Filters between a request and an offer, in a fixed order. Each says what it removed and what would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millpond.protocol.ids import ZERO_BYTES32
from millpond.protocol.views import Relaxation
from millpond.protocol.vouchers import earmark
from millpond_node.policy.port import Listing, RequestQueued
from millpond_node.policy.state import State

OPEN_MARGIN_S = 15
"""An offer must live this much longer than now, or its transaction would come too late."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request against the present state. `now` is Unix seconds."""

    queued: RequestQueued
    state: State
    now: int


@dataclass(frozen=True, slots=True)
class Filter:
    """`passes` says whether the offer may serve; `remedy` what would make this offer pass; `relax` which values of the request would.

    `relax` is None where the renter cannot ask for less: then only time, money or another offer helps.
    """

    name: str
    passes: Callable[[Ask, Listing], bool]
    remedy: Callable[[Ask, Listing], str]
    relax: Callable[[Ask, Listing], list[Relaxation]] | None = None


def _named(ask: Ask, item: Listing) -> bool:
    return ask.queued.request.offer in (ZERO_BYTES32, item.hash)


def _online(ask: Ask, item: Listing) -> bool:
    return item.is_healthy and item.worker in ask.state.online


def _isolation(ask: Ask, item: Listing) -> bool:
    return item.offer.isolation >= ask.queued.request.isolation


def _share(ask: Ask, item: Listing) -> bool:
    return item.offer.share >= ask.queued.request.share


def _memory(ask: Ask, item: Listing) -> bool:
    return item.offer.memoryMiB >= ask.queued.request.memoryMiB


def _host(ask: Ask, item: Listing) -> bool:
    offer, request = item.offer, ask.queued.request
    return offer.cpuMilli >= request.cpuMilli and offer.ramMiB >= request.ramMiB and offer.diskMiB >= request.diskMiB


def _price(ask: Ask, item: Listing) -> bool:
    return item.offer.pricePerSecond <= ask.queued.request.maxPricePerSecond


def _duration(ask: Ask, item: Listing) -> bool:
    return ask.queued.request.duration <= item.offer.maxDuration


def _deadline(ask: Ask, item: Listing) -> bool:
    return item.offer.deadline > ask.now + OPEN_MARGIN_S


def _funds(ask: Ask, item: Listing) -> bool:
    free = ask.state.funds.get(ask.queued.request.renter)
    return free is None or free >= _needed(ask, item)


def _cap(ask: Ask, item: Listing) -> bool:
    live = ask.state.ledger.live.get((ask.queued.request.renter, item.offer.device), 0)
    return item.offer.capPerRenter == 0 or live < item.offer.capPerRenter


def _capacity(ask: Ask, item: Listing) -> bool:
    share, memory = ask.state.free_of(item.offer.device)
    return item.offer.share <= share and item.offer.memoryMiB <= memory


def _not_avoided(ask: Ask, item: Listing) -> bool:
    return ask.state.avoided.get((ask.queued.hash, item.hash), 0) <= ask.now


def _needed(ask: Ask, item: Listing) -> int:
    request = ask.queued.request
    return earmark(item.offer.pricePerSecond, request.duration, request.depositSeconds)


_HELD_BY = {
    "isolation": "isolation",
    "share": "share",
    "memoryMiB": "memoryMiB",
    "cpuMilli": "cpuMilli",
    "ramMiB": "ramMiB",
    "diskMiB": "diskMiB",
    "duration": "maxDuration",
}
"""Fields of a request, each with the offer's field that bounds it from above."""


def _at_most(*names: str) -> Callable[[Ask, Listing], list[Relaxation]]:
    def relax(ask: Ask, item: Listing) -> list[Relaxation]:
        found = [(name, getattr(ask.queued.request, name), getattr(item.offer, _HELD_BY[name])) for name in names]
        return [Relaxation(name, asked, most, f"{name} <= {most}") for name, asked, most in found if asked > most]

    return relax


def _relax_price(ask: Ask, item: Listing) -> list[Relaxation]:
    price = item.offer.pricePerSecond
    asked = ask.queued.request.maxPricePerSecond
    return [Relaxation("maxPricePerSecond", asked, price, f"maxPricePerSecond >= {price}")]


def _host_remedy(ask: Ask, item: Listing) -> str:
    offer = item.offer
    return f"Ask for at most {offer.cpuMilli} CPU milli, {offer.ramMiB} MiB of RAM and {offer.diskMiB} MiB of disk."


def _capacity_remedy(ask: Ask, item: Listing) -> str:
    share, memory = ask.state.free_of(item.offer.device)
    return f"Wait until a lease there ends: the device has {share} per mille and {memory} MiB free."


FILTERS: tuple[Filter, ...] = (
    Filter("offer", _named, lambda ask, item: "Leave the request's offer at zero to accept other offers."),
    Filter(
        "online",
        _online,
        lambda ask, item: "Wait for the provider: its worker is not connected, or the device is not healthy.",
    ),
    Filter(
        "isolation",
        _isolation,
        lambda ask, item: f"Accept isolation class {item.offer.isolation}.",
        _at_most("isolation"),
    ),
    Filter(
        "share",
        _share,
        lambda ask, item: f"Ask for at most {item.offer.share} per mille of compute.",
        _at_most("share"),
    ),
    Filter(
        "memory",
        _memory,
        lambda ask, item: f"Ask for at most {item.offer.memoryMiB} MiB of device memory.",
        _at_most("memoryMiB"),
    ),
    Filter("host", _host, _host_remedy, _at_most("cpuMilli", "ramMiB", "diskMiB")),
    Filter(
        "price",
        _price,
        lambda ask, item: f"Raise the highest price to {item.offer.pricePerSecond} base units per second.",
        _relax_price,
    ),
    Filter(
        "duration",
        _duration,
        lambda ask, item: f"Ask for at most {item.offer.maxDuration} seconds.",
        _at_most("duration"),
    ),
    Filter(
        "deadline", _deadline, lambda ask, item: "Wait a moment: the worker signs its offers again before they expire."
    ),
    Filter("funds", _funds, lambda ask, item: f"Fund the escrow with {_needed(ask, item)} base units free."),
    Filter("cap", _cap, lambda ask, item: f"Close a lease there: one renter may hold {item.offer.capPerRenter}."),
    Filter("capacity", _capacity, _capacity_remedy),
    Filter(
        "refused", _not_avoided, lambda ask, item: "Wait: the chain just refused this offer; it is tried again shortly."
    ),
)


def fits(ask: Ask, item: Listing) -> bool:
    return all(rule.passes(ask, item) for rule in FILTERS)


def first_failing(ask: Ask, item: Listing) -> Filter | None:
    return next((rule for rule in FILTERS if not rule.passes(ask, item)), None)


def failing(ask: Ask, item: Listing) -> list[Filter]:
    return [rule for rule in FILTERS if not rule.passes(ask, item)]


def relaxed(ask: Ask, item: Listing) -> tuple[Relaxation, ...]:
    """What to change so that the offer fits; empty when it fits, or when no change of the request would do."""
    rules = failing(ask, item)
    if any(rule.relax is None for rule in rules):
        return ()
    return tuple(change for rule in rules if rule.relax is not None for change in rule.relax(ask, item))


def distance(changes: tuple[Relaxation, ...]) -> tuple[int, int]:
    """How far a request is from an offer: values to change, then by how much of what was asked, in ppm."""
    return len(changes), sum(abs(item.needed - item.asked) * 1_000_000 // max(1, item.asked) for item in changes)
