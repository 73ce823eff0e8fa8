from dataclasses import replace
from pathlib import Path

import pytest

from millpond.protocol.ids import Bytes32, address, bytes32
from millpond.protocol.signing import Domain, address_of, verify
from millpond_worker.assemble import templates_of
from millpond_worker.config import parse_config
from millpond_worker.devices.port import DeviceInfo, DeviceKind, SliceMode, SliceSpec
from millpond_worker.errors import SetupError
from millpond_worker.machine.policy import Policy, parse_hours
from millpond_worker.offers import (
    LIFETIME_S,
    OUTSTANDING_FILE,
    RENEW_AFTER_S,
    OfferBook,
    OfferTemplate,
    load_outstanding,
    save_outstanding,
)

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


# POLICY AND PRICES

NIGHT = Policy(hours=(parse_hours("22:00-06:00"),))
MIDNIGHT = NOW - NOW % 86_400


def test_renew_outside_hours_offers_nothing_and_offers_again_when_they_begin() -> None:
    offers = book(template())
    offers.change([template()], NIGHT)
    assert offers.renew({DEVICE: 1}, MIDNIGHT + 5 * 3600)
    assert offers.renew({DEVICE: 1}, MIDNIGHT + 6 * 3600)
    assert offers.current() == ()
    assert not offers.renew({DEVICE: 1}, MIDNIGHT + 12 * 3600)
    assert offers.renew({DEVICE: 1}, MIDNIGHT + 22 * 3600)
    assert len(offers.current()) == 1


def test_renew_shortly_before_closing_signs_no_offer_that_outlasts_the_hours() -> None:
    offers = book(template())
    offers.change([template()], NIGHT)
    offers.renew({DEVICE: 1}, MIDNIGHT + 6 * 3600 - 90)
    assert [signed.offer.deadline for signed in offers.current()] == [MIDNIGHT + 6 * 3600]


def test_price_rise_is_signed_at_once_and_names_the_older_offers_to_be_cancelled() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    offers.change([replace(template(), price=150)], Policy())
    assert offers.renew({DEVICE: 1}, NOW + 1)
    assert [signed.offer.pricePerSecond for signed in offers.current()] == [150]
    assert offers.cheaper(NOW + 1) == {DEVICE: 1}
    offers.renew({DEVICE: 2}, NOW + 2)
    assert offers.cheaper(NOW + 2) == {}


def test_price_cut_cancels_nothing() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    offers.change([replace(template(), price=50)], Policy())
    offers.renew({DEVICE: 1}, NOW + 1)
    assert offers.cheaper(NOW + 1) == {}


def test_price_rise_after_the_older_offers_ended_cancels_nothing() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    offers.change([replace(template(), price=150)], Policy())
    offers.renew({DEVICE: 1}, NOW + LIFETIME_S)
    assert offers.cheaper(NOW + LIFETIME_S) == {}


def test_slice_no_longer_offered_is_cancelled() -> None:
    offers = book(template(), template(share=400))
    offers.renew({DEVICE: 1}, NOW)
    offers.change([template()], Policy())
    offers.renew({DEVICE: 1}, NOW + 1)
    assert offers.cheaper(NOW + 1) == {DEVICE: 1}


def test_outstanding_offers_outlive_the_process(tmp_path: Path) -> None:
    first = book(template())
    first.renew({DEVICE: 1}, NOW)
    save_outstanding(tmp_path, first.outstanding)
    second = book(replace(template(), price=150))
    second.outstanding = load_outstanding(tmp_path)
    second.renew({DEVICE: 1}, NOW + 5)
    assert second.cheaper(NOW + 5) == {DEVICE: 1}


def test_load_outstanding_of_a_damaged_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / OUTSTANDING_FILE).write_text('[{"device": 1}]')
    assert load_outstanding(tmp_path) == ()


def test_clock_that_went_back_makes_offers_due_at_once() -> None:
    offers = book(template())
    offers.renew({DEVICE: 1}, NOW)
    assert offers.renew({DEVICE: 1}, NOW - 3600)
    assert [signed.offer.deadline for signed in offers.current()] == [NOW - 3600 + LIFETIME_S]


def test_template_below_the_floor_is_told_when_the_worker_starts() -> None:
    info = DeviceInfo("cpu-0", DeviceKind.CPU, "test cpu", 4096, "none", cores=4, host_cores=4, host_ram_mib=4096)
    given = {"rpc_url": "http://x", "chain_id": 1, "controller": POOL, "addresses": "a", "provider": POOL, "dev_key": 1}
    given["offers"] = [{"share": 500, "memory": "1GiB", "price": "0.10/h"}]
    assert len(templates_of(parse_config({**given, "price_floor": "0.20/h"}), {DEVICE: info}, 3600, 6)) == 1
    with pytest.raises(SetupError, match="below this provider's floor"):
        templates_of(parse_config({**given, "price_floor": "0.21/h"}), {DEVICE: info}, 3600, 6)
