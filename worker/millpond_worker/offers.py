"""The worker's offers: made from templates, signed with the operator key, renewed before their deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32
from millpond.protocol.messages import TICK_SECONDS, SignedOffer
from millpond.protocol.signed import Offer
from millpond.protocol.signing import Domain, sign
from millpond.protocol.units import PPM
from millpond_worker.devices.port import SliceMode, SliceSpec
from millpond_worker.home import read_json, write_json
from millpond_worker.machine.policy import Policy

LIFETIME_S = 3000
RENEW_AFTER_S = 600
OUTSTANDING_FILE = "offers.json"
MODE_NUMBERS = {SliceMode.CPU: 0, SliceMode.TIMESLICE: 1, SliceMode.MPS: 2, SliceMode.MIG: 3, SliceMode.WHOLE: 5}


@dataclass(frozen=True, slots=True)
class OfferTemplate:
    """One kind of slice of one device, offered as often as the device has room. `price` in token base units per second."""

    device: Bytes32
    slice: SliceSpec
    price: int
    max_duration: int
    notice: int
    tick: int = TICK_SECONDS
    cap_per_renter: int = 0
    bandwidth_mbit: int = 0

    def offer(self, controller: Address, epoch: int, deadline: int, isolation: int) -> Offer:
        spec = self.slice
        return Offer(
            controller=controller,
            device=self.device,
            epoch=epoch,
            mode=MODE_NUMBERS[spec.mode],
            isolation=min(spec.isolation, isolation),
            share=spec.share_per_mille,
            memoryMiB=spec.memory_mib,
            cpuMilli=spec.cpu_milli,
            ramMiB=spec.ram_mib,
            diskMiB=spec.disk_mib,
            bandwidthMbit=self.bandwidth_mbit,
            pricePerSecond=self.price,
            tick=self.tick,
            notice=self.notice,
            determinism=ZERO_BYTES32,
            maxDuration=self.max_duration,
            capPerRenter=self.cap_per_renter,
            deadline=deadline,
        )


def exposure_of(templates: Sequence[OfferTemplate], exposure_ppm: int) -> int:
    """Stake that the dearest single lease of the offers reserves, base units: price times duration times the pool's ratio."""
    return max((-(-item.price * item.max_duration * exposure_ppm // PPM) for item in templates), default=0)


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What of an offer once signed still binds: the chain opens leases of it until `deadline`, or a higher epoch."""

    device: Bytes32
    epoch: int
    share: int
    memory_mib: int
    price: int
    max_duration: int
    deadline: int

    def is_covered(self, templates: Sequence[OfferTemplate]) -> bool:
        """Whether a template gives as much for no more: then nothing is lost by the old offer."""
        return any(
            (item.device, item.slice.share_per_mille, item.slice.memory_mib)
            == (self.device, self.share, self.memory_mib)
            and item.price <= self.price
            and item.max_duration >= self.max_duration
            for item in templates
        )


def outstanding_of(offer: Offer) -> Outstanding:
    return Outstanding(
        *(offer.device, offer.epoch, offer.share, offer.memoryMiB),
        *(offer.pricePerSecond, offer.maxDuration, offer.deadline),
    )


def save_outstanding(folder: Path, outstanding: Sequence[Outstanding]) -> None:
    """So that a price raised while the worker was down cancels what it signed before."""
    write_json(folder / OUTSTANDING_FILE, [asdict(item) for item in outstanding])


def load_outstanding(folder: Path) -> tuple[Outstanding, ...]:
    """Empty where there is no such file, or none that can be read."""
    try:
        return tuple(Outstanding(**item) for item in read_json(folder / OUTSTANDING_FILE) or [])
    except TypeError:
        return ()


class OfferBook:
    """The offers that stand now. `isolation` is the launcher's class: no offer promises more.

    `outstanding` is every offer ever signed that the chain may still open, newest deadline of each shape and price.
    """

    def __init__(
        self, templates: Sequence[OfferTemplate], controller: Address, chain_id: int, key: bytes, isolation: int
    ) -> None:
        self.templates = tuple(templates)
        self.policy = Policy()
        self.outstanding: tuple[Outstanding, ...] = ()
        self._controller, self._key, self._isolation = controller, key, isolation
        self._domain = Domain(chain_id, controller)
        self._epochs: dict[Bytes32, int] = {}
        self._signed: tuple[SignedOffer, ...] = ()
        self._signed_at = 0
        self._is_withdrawn = self._is_changed = False

    @property
    def devices(self) -> tuple[Bytes32, ...]:
        return tuple(dict.fromkeys(template.device for template in self.templates))

    @property
    def signed_at(self) -> int:
        """When the offers that stand were signed; 0 while none do."""
        return self._signed_at if self._signed else 0

    def current(self) -> tuple[SignedOffer, ...]:
        """What is offered; nothing before the first `renew`, outside the hours, and after `withdraw`."""
        return () if self._is_withdrawn else self._signed

    def withdraw(self) -> None:
        """Offers nothing any more. Offers already signed stay valid on chain until their deadline or a higher epoch."""
        self._is_withdrawn = True

    def change(self, templates: Sequence[OfferTemplate], policy: Policy) -> None:
        """Other prices, slices or hours: signed at the next `renew`, whenever that is."""
        self.templates, self.policy, self._is_changed = tuple(templates), policy, True

    def cheaper(self, now: int) -> dict[Bytes32, int]:
        """Devices with an offer out that gives more than is offered now, and its epoch: to be cancelled on chain."""
        return {
            item.device: item.epoch
            for item in self.outstanding
            if item.deadline > now
            and item.epoch == self._epochs.get(item.device)
            and not item.is_covered(self.templates)
        }

    def renew(self, epochs: Mapping[Bytes32, int], now: int) -> bool:
        """Signs anew when the offers are due, an epoch changed, or it is opening or closing time; whether they changed.

        A device keeps the last epoch heard of it; one of which none was ever heard is left out. No offer outlasts the hours.
        """
        known = {**self._epochs, **epochs}
        if self._is_withdrawn or not known:
            return False
        if not self.policy.is_open(now):
            was, self._signed, self._epochs = bool(self._signed), (), known
            return was
        if not self._is_due(known, now):
            return False
        self._epochs, self._signed_at, self._is_changed = known, now, False
        deadline = min(now + LIFETIME_S, self.policy.next_change(now, LIFETIME_S) or now + LIFETIME_S)
        self._signed = tuple(
            self._sign(template.offer(self._controller, known[template.device], deadline, self._isolation))
            for template in self.templates
            if template.device in known
        )
        self._keep_outstanding(now)
        return True

    def _is_due(self, known: Mapping[Bytes32, int], now: int) -> bool:
        """A clock that went back makes them due too: their deadline would lie further ahead than a pool allows."""
        is_fresh = bool(self._signed) and self._signed_at <= now < self._signed_at + RENEW_AFTER_S
        return self._is_changed or known != self._epochs or not is_fresh

    def _keep_outstanding(self, now: int) -> None:
        found: dict[Outstanding, Outstanding] = {}
        for item in (*self.outstanding, *(outstanding_of(signed.offer) for signed in self._signed)):
            shape = replace(item, deadline=0)
            old = found.get(shape)
            is_dead = item.deadline <= now or item.epoch < self._epochs.get(item.device, 0)
            if not is_dead and (old is None or old.deadline < item.deadline):
                found[shape] = item
        self.outstanding = tuple(found.values())

    def _sign(self, offer: Offer) -> SignedOffer:
        return SignedOffer(offer, sign(offer, self._domain, self._key))
