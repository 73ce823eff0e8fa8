import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.protocol import units
from millpond.protocol.vouchers import Meter, earmark, split


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("2h", 7200), ("1.5 h", 5400), ("1d", 86_400)])
def test_parse_duration_reads_what_people_write(text: str, seconds: int) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(("text", "mib"), [("512", 512), ("512MiB", 512), ("1.5GiB", 1536), ("2G", 2048)])
def test_parse_memory_reads_what_people_write(text: str, mib: int) -> None:
    assert units.parse_memory(text) == mib


@pytest.mark.parametrize("text", ["", "-1", "1 fortnight", "1..5", "nan", "1e9999999", "١"])
def test_parse_of_nonsense_refuses(text: str) -> None:
    for parse in (units.parse_duration, units.parse_memory):
        with pytest.raises(units.UnitError):
            parse(text)


def test_parse_amount_with_too_many_digits_refuses() -> None:
    with pytest.raises(units.UnitError, match="decimals"):
        units.parse_amount("0.0000001", 6)


@given(st.integers(0, 2**100), st.integers(0, 18))
def test_parse_amount_of_a_formatted_amount_is_the_amount(base: int, decimals: int) -> None:
    assert units.parse_amount(units.format_amount(base, decimals, decimals), decimals) == base


@pytest.mark.parametrize(("text", "price"), [("0.36/h", 100), ("0.36", 100), ("0.0001/s", 100), ("0.006/m", 100)])
def test_parse_price_gives_base_units_per_second(text: str, price: int) -> None:
    assert units.parse_price(text, 6) == price


@given(st.integers(0, 10**30), st.integers(0, 250_000), st.integers(0, 100_000))
def test_C42_split_of_any_amount_conserves_it(amount: int, fee: int, burn: int) -> None:
    payee, fees, burnt = split(amount, fee, burn)

    assert payee + fees + burnt == amount
    assert min(payee, fees, burnt) >= 0


def test_meter_earns_nothing_before_ready_and_nothing_after_the_end() -> None:
    meter = Meter(ready_at=100, ends_at=200, price_per_second=3)

    assert [meter.earned(now) for now in (99, 100, 101, 200, 300)] == [0, 0, 3, 300, 300]
    assert meter.unpaid_seconds(150, 3 * 40) == 10


def test_earmark_covers_the_time_and_the_opening_deposit() -> None:
    assert earmark(7, 3600, 60) == 7 * 3660
