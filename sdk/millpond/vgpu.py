"""What a renter asks for: a compute share and memory of one device, with the host resources that go with it."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.errors import InputError
from millpond.protocol.units import SHARE_FULL, parse_memory

DEFAULT_DURATION_S = 3600


@dataclass(frozen=True, slots=True)
class Vgpu:
    """One vGPU. `share` is per mille of a device, `memory` device memory (`"512MiB"` or MiB); the rest are least amounts, 0 for any.

    Raises `InputError` where a number is out of range.
    """

    share: int
    memory: str | int = 0
    cpu_milli: int = 0
    ram: str | int = 0
    disk: str | int = 0
    isolation: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.share <= SHARE_FULL:
            raise InputError(
                f"share is {self.share}, outside 1 ... 1000", remedy="Give the share per mille: 500 is half a device."
            )
        if not 0 <= self.isolation <= 3:
            raise InputError(f"isolation is {self.isolation}, outside 0 ... 3", remedy="0 is advisory, 3 hardware.")

    @property
    def memory_mib(self) -> int:
        return _mib(self.memory)

    @property
    def ram_mib(self) -> int:
        return _mib(self.ram)

    @property
    def disk_mib(self) -> int:
        return _mib(self.disk)

    @classmethod
    def parse(cls, text: str) -> Vgpu:
        """Reads `SHARE[:MEMORY]`, for example `600:512MiB`."""
        share, _, memory = text.partition(":")
        if not share.isdigit():
            raise InputError(
                f"cannot read the vGPU {text!r}", remedy="Write SHARE or SHARE:MEMORY, for example 600:512MiB."
            )
        return cls(int(share), memory or 0)


def _mib(value: str | int) -> int:
    return value if isinstance(value, int) else parse_memory(value)
