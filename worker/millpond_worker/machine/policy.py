"""What a provider allows: when new leases start, for whom, in which images, at which price. Pure; a running lease is never judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from millpond.protocol.ids import Address
from millpond.protocol.units import SHARE_FULL

MINUTES_A_DAY = 1440
LOOK_AHEAD_S = 2 * 86_400
_DIGEST = "sha256:"


def utc_minute(now: int) -> int:
    return now % 86_400 // 60


@dataclass(frozen=True, slots=True)
class Hours:
    """Minutes of a day, [start, end); an end at or before the start lies on the next day."""

    start: int
    end: int

    def holds(self, minute: int) -> bool:
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True, slots=True)
class Policy:
    """Empty tuples and sets allow everything. `price_floor` is for a whole device, token base units per second.

    `minute_of` is the minute of the day in `time_zone` at a Unix second.
    Image patterns have `*` and `?`; one that begins with `sha256:` is compared with the image's digest, another with its name.
    """

    hours: tuple[Hours, ...] = ()
    time_zone: str = "UTC"
    minute_of: Callable[[int], int] = utc_minute
    price_floor: int = 0
    allow_images: tuple[str, ...] = ()
    refuse_images: tuple[str, ...] = ()
    refuse_renters: frozenset[Address] = frozenset()

    def is_open(self, now: int) -> bool:
        """Whether new leases are accepted at Unix second `now`."""
        if not self.hours:
            return True
        minute = self.minute_of(now)
        return any(hours.holds(minute) for hours in self.hours)

    def next_change(self, now: int, within_s: int = LOOK_AHEAD_S) -> int:
        """The first second after `now` at which it opens or closes; 0 where none comes within `within_s`.

        Goes from minute to minute, so that the days on which clocks are changed need no rule of their own.
        """
        if not self.hours:
            return 0
        is_open = self.is_open(now)
        first = now - now % 60 + 60
        return next((at for at in range(first, now + within_s + 1, 60) if self.is_open(at) is not is_open), 0)

    def hours_problem(self, now: int) -> str:
        if self.is_open(now):
            return ""
        opens = self.next_change(now)
        when = f"; it does again at {_clock(self.minute_of(opens))} {self.time_zone}" if opens else ""
        return f"this provider accepts no new leases now{when}"

    def price_problem(self, price: int, share: int) -> str:
        """`price` of a slice of `share` per mille, base units per second."""
        if price >= self.price_floor * share // SHARE_FULL:
            return ""
        return f"the price is below this provider's floor: {price} for {share} per mille, {self.price_floor} for a whole device"

    def renter_problem(self, renter: Address) -> str:
        return f"this provider refuses the renter {renter}" if renter in self.refuse_renters else ""

    def image_problem(self, name: str, digest: str = "") -> str:
        """Why an image is refused. Without its `digest` (64 hexadecimal digits) only what its name decides is decided."""
        digest = digest or _digest_of(name)
        if any(_matches(pattern, name, digest) for pattern in self.refuse_images):
            return f"this provider refuses the image {name}"
        is_undecided = not digest and any(pattern.startswith(_DIGEST) for pattern in self.allow_images)
        if not self.allow_images or is_undecided:
            return ""
        is_allowed = any(_matches(pattern, name, digest) for pattern in self.allow_images)
        return "" if is_allowed else f"the image {name} is not one that this provider allows"


ANY = Policy()
"""Everything, always."""


def parse_hours(text: str) -> Hours:
    """`22:00-06:00`; 24:00 is the end of the day. Raises `ValueError`."""
    start, sign, end = text.partition("-")
    first, last = _minute(start), _minute(end)
    if not sign or first in (last, MINUTES_A_DAY):
        raise ValueError(f"hours like 22:00-06:00 are needed, not {text!r}")
    return Hours(first, last)


def shown_hours(hours: Hours) -> str:
    return f"{_clock(hours.start)}-{_clock(hours.end)}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _minute(text: str) -> int:
    hour, sign, minute = text.strip().partition(":")
    if not (sign and hour.isdecimal() and minute.isdecimal() and len(minute) == 2):
        raise ValueError(f"a time like 06:30 is needed, not {text!r}")
    found = int(hour) * 60 + int(minute)
    if int(minute) > 59 or found > MINUTES_A_DAY:
        raise ValueError(f"there is no time {text.strip()!r}")
    return found


def _digest_of(name: str) -> str:
    _, sign, digest = name.partition("@" + _DIGEST)
    return digest if sign else ""


def _matches(pattern: str, name: str, digest: str) -> bool:
    if pattern.startswith(_DIGEST):
        return bool(digest) and fnmatchcase(digest, pattern.removeprefix(_DIGEST))
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("@")[0], pattern)
