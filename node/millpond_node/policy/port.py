"""The port of a scheduling policy. The node and a simulator drive the same class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signed import Offer, Request
from millpond.protocol.views import FilterCount, Relaxation


@dataclass(frozen=True, slots=True)
class Listing:
    """An offer as the policy sees it. `memory_mib` is the whole device's, share its 1000 per mille."""

    hash: Bytes32
    offer: Offer
    worker: Address
    provider: Address
    memory_mib: int
    is_healthy: bool = True


@dataclass(frozen=True, slots=True)
class OffersListed:
    """All offers of a worker; replaces what it offered before."""

    worker: Address
    listings: tuple[Listing, ...]


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    worker: Address
    is_online: bool


@dataclass(frozen=True, slots=True)
class RequestQueued:
    """`order`: the place in the order of submission. `priority`: the renter's wish among its own requests."""

    hash: Bytes32
    request: Request
    priority: int
    order: int


@dataclass(frozen=True, slots=True)
class RequestGone:
    hash: Bytes32


@dataclass(frozen=True, slots=True)
class OfferAvoided:
    """The chain refused this offer for this request: not again before `until`, Unix seconds."""

    request: Bytes32
    offer: Bytes32
    until: int


@dataclass(frozen=True, slots=True)
class SliceTaken:
    """A lease takes its slice, whoever opened it."""

    lease: Bytes32
    device: Bytes32
    share: int
    memory_mib: int
    renter: Address


@dataclass(frozen=True, slots=True)
class SliceFreed:
    lease: Bytes32


@dataclass(frozen=True, slots=True)
class FundsKnown:
    """Free escrow of a renter, token base units."""

    renter: Address
    free: int


Delta = OffersListed | WorkerSeen | RequestQueued | RequestGone | OfferAvoided | SliceTaken | SliceFreed | FundsKnown


@dataclass(frozen=True, slots=True)
class Start:
    """Open a lease of `offer` for `request`. `trail` says why: filters' counts and the winner's figures, for the journal."""

    request: Bytes32
    offer: Bytes32
    trail: str


Decision = Start


@dataclass(frozen=True, slots=True)
class Explanation:
    """`considered` = sum of `removed` + `fitting`. `position` counts from 1 in the queue, 0 when not queued.

    `nearest`: see `Why`. `waiting` are the offers that lack nothing but room on their device, and which nobody ahead in the queue could take.
    """

    position: int
    considered: int
    fitting: int
    filters: tuple[FilterCount, ...]
    message: str
    nearest: tuple[Relaxation, ...] = ()
    waiting: tuple[Bytes32, ...] = ()


@runtime_checkable
class Policy(Protocol):
    """A deterministic function of the deltas applied so far: same deltas, same decisions."""

    def apply(self, delta: Delta) -> None: ...

    def decide(self, now: int, limit: int) -> list[Decision]:
        """At most `limit` decisions; each takes its capacity at once, as a slice under the request's hash, which `SliceFreed` gives back."""
        ...

    def explain(self, request: Bytes32, now: int) -> Explanation | None:
        """None for a request that is not queued."""
        ...

    def free_of(self, device: Bytes32) -> tuple[int, int]:
        """Free share (per mille) and memory (MiB) of a device; zeros for an unknown one."""
        ...

    def snapshot(self) -> bytes:
        """All of its state."""
        ...

    def restore(self, data: bytes) -> None: ...
