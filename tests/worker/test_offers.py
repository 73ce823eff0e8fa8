from millpond.protocol.ids import Bytes32, address, bytes32
from millpond.protocol.signing import Domain, address_of, verify
from millpond_worker.devices.port import SliceMode, SliceSpec
from millpond_worker.offers import LIFETIME_S, RENEW_AFTER_S, OfferBook, OfferTemplate

KEY = b"\x05" * 32
POOL = address("0x" + "33" * 20)
DEVICE, OTHER = bytes32(b"\x01" * 32), bytes32(b"\x02" * 32)
NOW = 1_700_000_000


def template(device: Bytes32 = DEVICE, share: int = 600, isolation: int = 1) -> OfferTemplate:
    spec = SliceSpec(device, share, 1024, 1200, 1024, 64, SliceMode.CPU, isolation)
    return OfferTemplate(device, spec, price=100, max_duration=3600, notice=600)


def book(*templates: OfferTemplate, isolation: int = 1) -> OfferBook:
    return OfferBook(templates, POOL, 31337, KEY, isolation)


def test_renew_signs_each_template_for_the_pool_and_chain() -> None:
    offers = book(template(), template(share=400))

    assert offers.renew({DEVICE: 7}, NOW)
    assert [signed.offer.share for signed in offers.current()] == [600, 400]
    for signed in offers.current():
        verify(signed.offer, Domain(31337, POOL), signed.signature, address_of(KEY))
        assert (signed.offer.epoch, signed.offer.deadline) == (7, NOW + LIFETIME_S)


def test_D17_renew_keeps_offers_shorter_than_the_hour_the_pool_allows() -> None:
    assert LIFETIME_S <= 3600
    assert RENEW_AFTER_S < LIFETIME_S


def test_renew_before_its_time_changes_nothing_and_after_it_signs_anew() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    first = offers.current()

    assert not offers.renew({DEVICE: 1}, NOW + RENEW_AFTER_S - 1)
    assert offers.current() == first
    assert offers.renew({DEVICE: 1}, NOW + RENEW_AFTER_S)
    assert offers.current() != first


def test_renew_with_a_new_epoch_signs_at_once() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)

    assert offers.renew({DEVICE: 2}, NOW + 1)
    assert [signed.offer.epoch for signed in offers.current()] == [2]


def test_renew_leaves_out_a_device_whose_epoch_is_unknown() -> None:
    offers = book(template(), template(OTHER))

    offers.renew({DEVICE: 1}, NOW)
    assert [signed.offer.device for signed in offers.current()] == [DEVICE]


def test_offer_never_promises_more_isolation_than_the_launcher_has() -> None:
    offers = book(template(isolation=3), isolation=1)
    offers.renew({DEVICE: 1}, NOW)

    assert [signed.offer.isolation for signed in offers.current()] == [1]


def test_withdraw_ends_all_offers_for_good() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    offers.withdraw()

    assert offers.current() == ()
    assert not offers.renew({DEVICE: 2}, NOW + RENEW_AFTER_S)
