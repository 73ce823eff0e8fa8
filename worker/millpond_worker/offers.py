"""The worker's offers: made from templates, signed with the operator key, renewed before their deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32
from millpond.protocol.messages import TICK_SECONDS, SignedOffer
from millpond.protocol.signed import Offer
from millpond.protocol.signing import Domain, sign
from millpond.protocol.units import PPM
from millpond_worker.devices.port import SliceMode, SliceSpec

LIFETIME_S = 3000
RENEW_AFTER_S = 600
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


class OfferBook:
    """The offers that stand now. `isolation` is the launcher's class: no offer promises more."""

    def __init__(
        self, templates: Sequence[OfferTemplate], controller: Address, chain_id: int, key: bytes, isolation: int
    ) -> None:
        self.templates = tuple(templates)
        self._controller, self._key, self._isolation = controller, key, isolation
        self._domain = Domain(chain_id, controller)
        self._epochs: dict[Bytes32, int] = {}
        self._signed: tuple[SignedOffer, ...] = ()
        self._signed_at = 0
        self._is_withdrawn = False

    @property
    def devices(self) -> tuple[Bytes32, ...]:
        return tuple(dict.fromkeys(template.device for template in self.templates))

    def current(self) -> tuple[SignedOffer, ...]:
        """What is offered; nothing before the first `renew` and after `withdraw`."""
        return () if self._is_withdrawn else self._signed

    def withdraw(self) -> None:
        """Offers nothing any more. Offers already signed stay valid on chain until their deadline or a higher epoch."""
        self._is_withdrawn = True

    def renew(self, epochs: Mapping[Bytes32, int], now: int) -> bool:
        """Signs anew when the offers are due or an epoch changed; whether they changed.

        A device keeps the last epoch heard of it; one of which none was ever heard is left out.
        """
        known = {**self._epochs, **epochs}
        is_due = now >= self._signed_at + RENEW_AFTER_S
        if self._is_withdrawn or not known or not (is_due or known != self._epochs):
            return False
        self._epochs, self._signed_at = known, now
        self._signed = tuple(
            self._sign(template.offer(self._controller, known[template.device], now + LIFETIME_S, self._isolation))
            for template in self.templates
            if template.device in known
        )
        return True

    def _sign(self, offer: Offer) -> SignedOffer:
        return SignedOffer(offer, sign(offer, self._domain, self._key))
