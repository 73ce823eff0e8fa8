"""How long until there is room on a device, from the ends of the leases on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """What a live lease holds of a device until `ends_at`, Unix seconds; None for an end this node does not know."""

    share: int
    memory_mib: int
    ends_at: int | None


def room_at(share: int, memory_mib: int, free: tuple[int, int], held: Iterable[Held], now: int) -> int | None:
    """Seconds until `share` and `memory_mib` fit beside what is `free` now; None when the known ends never give so much."""
    free_share, free_memory = free
    if share <= free_share and memory_mib <= free_memory:
        return 0
    known = sorted((item for item in held if item.ends_at is not None), key=lambda item: item.ends_at or 0)
    for item in known:
        free_share, free_memory = free_share + item.share, free_memory + item.memory_mib
        if share <= free_share and memory_mib <= free_memory:
            return max(0, (item.ends_at or 0) - now)
    return None
