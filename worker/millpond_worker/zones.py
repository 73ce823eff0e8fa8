"""Time zones, from this machine's database of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class LocalMinute:
    """`Policy.minute_of` of a zone by its name, changes of clocks included."""

    zone: str

    def __call__(self, now: int) -> int:
        local = datetime.fromtimestamp(now, ZoneInfo(self.zone))
        return local.hour * 60 + local.minute


def check_zone(name: str) -> str:
    """Raises `ValueError` for a zone that this machine does not know."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"no such time zone on this machine: {name!r}; write for example Europe/Berlin") from None
    return name
