import dataclasses

import pytest

from millpond._orders import NoOfferError, Order, build_request, choose_price, fits
from millpond.errors import InputError
from millpond.protocol.ids import ZERO_BYTES32, address, bytes32
from millpond.protocol.messages import DeviceEntry, SignedOffer
from millpond.protocol.signed import Offer
from millpond.protocol.views import OfferView, PoolView
from millpond.vgpu import Vgpu

A, B, C = (address("0x" + byte * 20) for byte in ("aa", "bb", "cc"))
DEVICE = bytes32(b"\x01" * 32)
POOL = PoolView(31337, A, B, C, A, A, A, A, C, "tUSD", 6, "img", "0.1", 25_000, 5_000, 60, 2)


def offer_view(price: int, share: int = 500, memory: int = 1024, is_online: bool = True) -> OfferView:
    offer = Offer(
        A, DEVICE, 1, 0, 1, share, memory, 1000, 512, 100, 0, price, 10, 60, ZERO_BYTES32, 3600, 0, 1_700_000_000
    )
    entry = DeviceEntry(DEVICE, "u", "cpu", "cpu", 4096, 2)
    return OfferView(
        SignedOffer(offer, b""), DEVICE, A, entry, "docker", is_online, 1000, 4096, offer.pricePerSecond, is_online
    )


def test_choose_price_takes_the_cheapest_that_fits_and_is_online() -> None:
    views = [offer_view(1, is_online=False), offer_view(2, share=100), offer_view(7), offer_view(5), offer_view(9)]

    assert choose_price(Vgpu(400), views) == 5


def test_choose_price_without_a_fitting_offer_says_how_many_there_are() -> None:
    with pytest.raises(NoOfferError, match="none of 1 offers"):
        choose_price(Vgpu(501), [offer_view(1)])


@pytest.mark.parametrize(
    ("vgpu", "expected"),
    [
        (Vgpu(500, 1024), True),
        (Vgpu(501), False),
        (Vgpu(1, "1025MiB"), False),
        (Vgpu(1, cpu_milli=1001), False),
        (Vgpu(1, ram=513), False),
        (Vgpu(1, disk=101), False),
        (Vgpu(1, isolation=2), False),
    ],
)
def test_fits_compares_every_part(vgpu: Vgpu, expected: bool) -> None:
    assert fits(vgpu, offer_view(1)) is expected


def test_build_request_lets_only_the_node_choose_the_offer() -> None:
    order = Order(Vgpu(500, "1GiB"), 7, 3600)
    request = build_request(order, POOL, A, C, 9, 1000)

    assert (request.offer, request.submitter) == (ZERO_BYTES32, B)
    assert (request.share, request.memoryMiB, request.duration, request.maxPricePerSecond) == (500, 1024, 3600, 7)
    assert (request.voucherSigner, request.nonce, request.deadline) == (C, 9, 1900)
    assert order.most(POOL) == 7 * 3660
    assert dataclasses.replace(request, nonce=10).struct_hash() != request.struct_hash()


@pytest.mark.parametrize("text", ["", "half", "0", "1001", "500:lots", "-5"])
def test_parse_of_a_senseless_vgpu_refuses(text: str) -> None:
    with pytest.raises(InputError):
        _ = Vgpu.parse(text).memory_mib


def test_parse_of_a_vgpu_reads_share_and_memory() -> None:
    assert Vgpu.parse("600:1.5GiB") == Vgpu(600, "1.5GiB")
    assert Vgpu.parse("600:1.5GiB").memory_mib == 1536
