"""The first policy: the queue's order, filters, best fit (least free memory that suffices, then a fixed order)."""

from __future__ import annotations

import json
from dataclasses import asdict

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signed import Offer, Request
from millpond.protocol.views import FilterCount, Relaxation
from millpond_node.policy.filters import FILTERS, Ask, distance, failing, first_failing, fits, relaxed
from millpond_node.policy.port import (
    Decision,
    Delta,
    Explanation,
    FundsKnown,
    Listing,
    OfferAvoided,
    OffersListed,
    RequestGone,
    RequestQueued,
    SliceFreed,
    SliceTaken,
    Start,
    WorkerSeen,
)
from millpond_node.policy.state import State, ordered

MAX_AHEAD = 32


class SimplePolicy:
    """A request that does not fit lets later ones pass. It is tried again only when something changed that may help it."""

    def __init__(self) -> None:
        self._state = State()
        self._ordered: list[RequestQueued] | None = None

    def apply(self, delta: Delta) -> None:
        match delta:
            case RequestQueued() | RequestGone():
                self._queue(delta)
            case OffersListed(worker=worker, listings=listings):
                self._list(worker, listings)
            case WorkerSeen(worker=worker, is_online=is_online):
                (self._state.online.add if is_online else self._state.online.discard)(worker)
                self._state.version += is_online
            case SliceTaken():
                self._state.ledger.take(delta)
            case SliceFreed(lease=lease):
                self._state.version += self._state.ledger.free(lease)
            case OfferAvoided(request=request, offer=offer, until=until):
                self._state.avoided[request, offer] = until
            case FundsKnown(renter=renter, free=free):
                self._state.version += free > self._state.funds.get(renter, -1)
                self._state.funds[renter] = free

    def decide(self, now: int, limit: int) -> list[Decision]:
        state = self._state
        self._end_backoffs(now)
        decisions: list[Decision] = []
        for queued in self._order():
            if len(decisions) >= limit:
                break
            if state.tried.get(queued.hash) == state.version:
                continue
            start = self._place(queued, now)
            if start is None:
                state.tried[queued.hash] = state.version
            else:
                decisions.append(start)
        for start in decisions:
            self.apply(RequestGone(start.request))
        return decisions

    def explain(self, request: Bytes32, now: int) -> Explanation | None:
        queued = self._state.queue.get(request)
        if queued is None:
            return None
        ask = Ask(queued, self._state, now)
        removed: dict[str, tuple[int, Listing]] = {}
        fitting = 0
        for item in self._offers():
            rule = first_failing(ask, item)
            if rule is None:
                fitting += 1
            else:
                count, example = removed.get(rule.name, (0, item))
                removed[rule.name] = (count + 1, example)
        counts = tuple(
            FilterCount(rule.name, removed[rule.name][0], rule.remedy(ask, removed[rule.name][1]))
            for rule in FILTERS
            if rule.name in removed
        )
        position = 1 + next(i for i, item in enumerate(self._order()) if item.hash == request)
        nearest = () if fitting else self._nearest(ask)
        message = self._advice(ask, fitting)
        waiting = () if fitting else self._waiting(ask, position)
        return Explanation(position, len(self._state.offers), fitting, counts, message, nearest, waiting)

    def free_of(self, device: Bytes32) -> tuple[int, int]:
        return self._state.free_of(device)

    def snapshot(self) -> bytes:
        state = self._state
        data = {
            "offers": [[asdict(item) | {"offer": item.offer.to_json()}] for item in self._offers()],
            "online": sorted(state.online),
            "slices": [asdict(entry) for entry in state.ledger.slices.values()],
            "queue": [[item.hash, item.request.to_json(), item.priority, item.order] for item in self._order()],
            "avoided": [[*key, until] for key, until in state.avoided.items()],
            "funds": {renter: str(free) for renter, free in state.funds.items()},
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()

    def restore(self, data: bytes) -> None:
        read = json.loads(data)
        self._state, self._ordered = State(), None
        listed: dict[Address, list[Listing]] = {}
        for (item,) in read["offers"]:
            listing = Listing(**(item | {"offer": Offer.from_json(item["offer"])}))
            listed.setdefault(listing.worker, []).append(listing)
        for worker, listings in listed.items():
            self.apply(OffersListed(worker, tuple(listings)))
        self._state.online = set(read["online"])
        for entry in read["slices"]:
            self.apply(SliceTaken(**entry))
        for hash_, request, priority, order in read["queue"]:
            self.apply(RequestQueued(hash_, Request.from_json(request), priority, order))
        self._state.avoided = {(request, offer): until for request, offer, until in read["avoided"]}
        self._state.funds = {renter: int(free) for renter, free in read["funds"].items()}

    def _queue(self, delta: RequestQueued | RequestGone) -> None:
        self._ordered = None
        self._state.tried.pop(delta.hash, None)
        if isinstance(delta, RequestQueued):
            self._state.queue[delta.hash] = delta
            return
        self._state.queue.pop(delta.hash, None)

    def _list(self, worker: Address, listings: tuple[Listing, ...]) -> None:
        state = self._state
        for old in state.of_worker.pop(worker, ()):
            state.offers.pop(old, None)
        for item in listings:
            state.offers[item.hash] = item
            state.memory[item.offer.device] = item.memory_mib
        state.of_worker[worker] = tuple(item.hash for item in listings)
        state.version += 1

    def _order(self) -> list[RequestQueued]:
        if self._ordered is None:
            self._ordered = ordered(self._state.queue)
        return self._ordered

    def _offers(self) -> list[Listing]:
        return sorted(self._state.offers.values(), key=lambda item: (item.offer.device, item.hash))

    def _place(self, queued: RequestQueued, now: int) -> Start | None:
        ask = Ask(queued, self._state, now)
        fitting = [item for item in self._state.offers.values() if fits(ask, item)]
        if not fitting:
            return None
        best = min(fitting, key=self._rank)
        share, memory = self._state.free_of(best.offer.device)
        request, offer = queued.request, best.offer
        self._state.ledger.take(SliceTaken(queued.hash, offer.device, offer.share, offer.memoryMiB, request.renter))
        return Start(
            queued.hash,
            best.hash,
            f"{len(fitting)} of {len(self._state.offers)} offers fit; free {share}/1000, {memory} MiB",
        )

    def _rank(self, item: Listing) -> tuple[int, int, int, str, str]:
        """Smallest wins: what stays free of the device, then the smaller slice, then the cheaper, then ids."""
        _, memory = self._state.free_of(item.offer.device)
        return (memory, item.offer.memoryMiB, item.offer.pricePerSecond, item.offer.device, item.hash)

    def _nearest(self, ask: Ask) -> tuple[Relaxation, ...]:
        """The changes towards the offer that is nearest to the request, of those it could have at once."""
        found = [changes for item in self._offers() if (changes := relaxed(ask, item))]
        return min(found, key=distance, default=())

    def _waiting(self, ask: Ask, position: int) -> tuple[Bytes32, ...]:
        """Nobody can say what many ahead will take: beyond `MAX_AHEAD` nothing is known."""
        if position > MAX_AHEAD:
            return ()
        ahead = [Ask(queued, self._state, ask.now) for queued in self._order()[: position - 1]]
        return tuple(
            item.hash
            for item in self._offers()
            if _lacks_room_only(ask, item)
            and not any(fits(other, item) or _lacks_room_only(other, item) for other in ahead)
        )

    def _advice(self, ask: Ask, fitting: int) -> str:
        if fitting:
            return "It fits, and is placed at the next decision."
        best: list[str] | None = None
        for item in self._offers():
            remedies = [rule.remedy(ask, item) for rule in failing(ask, item)]
            if best is None or len(remedies) < len(best):
                best = remedies
        if best is None:
            return "No worker offers anything in this pool at present."
        return " ".join(best)

    def _end_backoffs(self, now: int) -> None:
        over = [key for key, until in self._state.avoided.items() if until <= now]
        for key in over:
            del self._state.avoided[key]
        self._state.version += bool(over)


def _lacks_room_only(ask: Ask, item: Listing) -> bool:
    return [rule.name for rule in failing(ask, item)] == ["capacity"]
