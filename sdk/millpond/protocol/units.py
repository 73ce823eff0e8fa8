"""Units people type and the integers that travel: token amounts, prices, sizes, durations. Never floats."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation

from millpond.protocol.errors import InputError

SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
MEBIBYTES = {"MiB": 1, "GiB": 1024, "M": 1, "G": 1024, "MB": 1, "GB": 1024}
SHARE_FULL = 1000
PPM = 1_000_000
MAX_DIGITS = 60
_EXACT = Context(prec=200)


class UnitError(InputError):
    remedy_text = "Write a number and a unit, for example 90s, 2h, 512MiB, 1.5 or 0.2/h."


def _number(text: str, whole: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise UnitError(f"not a number: {whole!r}", text=whole) from None
    if not value.is_finite() or value < 0 or abs(value.adjusted()) > MAX_DIGITS:
        raise UnitError(f"must be zero or more, and of reasonable size: {whole!r}", text=whole)
    return value


def _split(text: str, units: dict[str, int], default: str) -> int:
    match = re.fullmatch(r"\s*([0-9][0-9._]*)\s*([A-Za-z]*)\s*", text)
    if match is None or (match[2] or default) not in units:
        raise UnitError(f"cannot read {text!r}; units are {', '.join(units)}", text=text)
    return int(_number(match[1], text) * units[match[2] or default])


def parse_duration(text: str) -> int:
    """Seconds; a bare number is seconds."""
    return _split(text, SECONDS, "s")


def parse_memory(text: str) -> int:
    """MiB; a bare number is MiB."""
    return _split(text, MEBIBYTES, "MiB")


def parse_amount(text: str, decimals: int) -> int:
    """Base units of a token with `decimals`; refuses more digits than the token has."""
    scaled = _number(text.strip(), text).scaleb(decimals, _EXACT)
    if scaled != scaled.to_integral_value():
        raise UnitError(f"{text!r} has more than the token's {decimals} decimals", text=text, decimals=decimals)
    return int(scaled)


def parse_price(text: str, decimals: int) -> int:
    """Base units per second, rounded down, from `0.2/h`, `0.00005/s` or a bare amount per hour."""
    amount, _, unit = text.partition("/")
    seconds = SECONDS.get(unit.strip() or "h")
    if seconds is None:
        raise UnitError(f"cannot read the price {text!r}; write it per s, m, h or d", text=text)
    return int(_number(amount.strip(), text).scaleb(decimals, _EXACT)) // seconds


def format_amount(base_units: int, decimals: int, places: int = 6) -> str:
    """A plain decimal number with at most `places` digits after the point, rounded down."""
    whole, rest = divmod(base_units, 10**decimals)
    digits = f"{rest:0{decimals}d}"[: min(places, decimals)].rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)
