"""What a lease uses of the machine it runs on: measured by its worker, told with the beat, shown by the node."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import Message

SAMPLE_SECONDS = 10
MAX_SAMPLES = 360
MAX_BEAT_USAGES = 256


@dataclass(frozen=True, slots=True)
class LeaseUsage(Message):
    """One measurement. `at` is Unix seconds at the worker; `cpu_ms` counts over all of the lease's containers since its worker began to measure them.

    `memory_peak_bytes` is the highest that was measured, not the highest there was. None is what the worker cannot measure: a lease
    without a network has no network bytes, one without a GPU of its own no GPU figures.
    """

    lease: Bytes32
    at: int
    cpu_ms: int
    memory_bytes: int
    memory_peak_bytes: int
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None
    gpu_memory_mib: int | None = None
    gpu_percent: int | None = None


@dataclass(frozen=True, slots=True)
class UsageView(Message):
    """A lease's newest measurement and the last ones, one in ten seconds, oldest first. `age_s` is how old the newest is.

    `memory_limit_mib` and `cpu_milli_limit` are the offer's. Nothing measured yet: `now` and `age_s` are None.
    """

    lease: Bytes32
    now: LeaseUsage | None
    age_s: int | None
    cpu_milli_limit: int
    memory_limit_mib: int
    samples: tuple[LeaseUsage, ...]
