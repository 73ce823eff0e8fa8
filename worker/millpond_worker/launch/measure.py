"""Figures of a container from what its engine says: Docker's stats, or /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .port import Measured

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPU_FIELDS = slice(11, 15)
"""utime, stime, cutime and cstime of /proc/PID/stat behind the name: children that ended count with their parent."""


def measured_by_docker(stats: Mapping[str, Any]) -> Measured:
    """Memory without the page cache that could be dropped, as `docker stats` shows it."""
    memory = stats.get("memory_stats") or {}
    cache = (memory.get("stats") or {}).get("inactive_file", 0)
    cpu = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage", 0)
    networks = stats.get("networks")
    rows = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    return Measured(
        int(cpu) // 1_000_000,
        max(0, int(memory.get("usage", 0)) - int(cache)),
        _disk(rows, "read"),
        _disk(rows, "write"),
        _network(networks, "rx_bytes"),
        _network(networks, "tx_bytes"),
    )


def measured_by_proc(pids: Iterable[int]) -> Measured:
    """Sums over processes; one that ends meanwhile counts for nothing."""
    cpu, memory = 0, 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue
        cpu += sum(int(ticks) for ticks in stat[CPU_FIELDS])
        memory += pages * PAGE_BYTES
    return Measured(cpu * 1000 // TICKS_PER_S, memory)


def _disk(rows: list[Mapping[str, Any]] | None, op: str) -> int | None:
    """None where the kernel keeps no account, 0 where nothing was read or written yet."""
    if rows is None:
        return None
    return sum(int(row.get("value", 0)) for row in rows if str(row.get("op", "")).lower() == op)


def _network(networks: Mapping[str, Mapping[str, Any]] | None, name: str) -> int | None:
    return sum(int(of.get(name, 0)) for of in networks.values()) if networks else None
