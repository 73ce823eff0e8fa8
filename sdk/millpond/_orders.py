"""Pure rules of a renter's order: which offers fit, what a request says, what it can cost at most."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.errors import InputError
from millpond.protocol.ids import ZERO_BYTES32, Address
from millpond.protocol.signed import Request
from millpond.protocol.views import OfferView, PoolView
from millpond.protocol.vouchers import earmark
from millpond.vgpu import Vgpu

REQUEST_LIFETIME_S = 900


class NoOfferError(InputError):
    remedy_text = "See `millpond offers`; ask for a smaller share or less memory, or give a highest price of your own."


@dataclass(frozen=True, slots=True)
class Order:
    """`price` is the highest, in base units per second; `duration` the longest, in seconds."""

    vgpu: Vgpu
    price: int
    duration: int

    def most(self, pool: PoolView) -> int:
        """What Escrow earmarks at this price: nothing beyond it can ever be taken."""
        return earmark(self.price, self.duration, pool.deposit_seconds)


def fits(vgpu: Vgpu, view: OfferView) -> bool:
    """Whether the offer's slice is large enough; price and what the device has left are the node's affair."""
    offer = view.signed.offer
    return (
        offer.share >= vgpu.share
        and offer.memoryMiB >= vgpu.memory_mib
        and offer.cpuMilli >= vgpu.cpu_milli
        and offer.ramMiB >= vgpu.ram_mib
        and offer.diskMiB >= vgpu.disk_mib
        and offer.isolation >= vgpu.isolation
    )


def choose_price(vgpu: Vgpu, offers: list[OfferView]) -> int:
    """The price of the cheapest offer that fits and whose worker is online; raises `NoOfferError` when there is none."""
    prices = [view.signed.offer.pricePerSecond for view in offers if view.is_online and fits(vgpu, view)]
    if not prices:
        raise NoOfferError(f"none of {len(offers)} offers fits {vgpu}", offers=len(offers))
    return min(prices)


def build_request(
    order: Order, pool: PoolView, renter: Address, voucher_signer: Address, nonce: int, now: int
) -> Request:
    """A request whose offer the node may choose. `nonce` is 256 random bits, `now` Unix seconds."""
    return Request(
        renter=renter,
        controller=pool.controller,
        token=pool.token,
        offer=ZERO_BYTES32,
        submitter=pool.node,
        isolation=order.vgpu.isolation,
        share=order.vgpu.share,
        memoryMiB=order.vgpu.memory_mib,
        cpuMilli=order.vgpu.cpu_milli,
        ramMiB=order.vgpu.ram_mib,
        diskMiB=order.vgpu.disk_mib,
        maxPricePerSecond=order.price,
        duration=order.duration,
        depositSeconds=pool.deposit_seconds,
        voucherSigner=voucher_signer,
        verification=0,
        data=ZERO_BYTES32,
        deadline=now + REQUEST_LIFETIME_S,
        nonce=nonce,
    )
