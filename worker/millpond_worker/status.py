"""What a running worker shows of itself: one JSON file, written every other second."""

from __future__ import annotations

import os
from typing import Any

from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.machine.model import AttemptState, LeaseRow
from millpond_worker.stake import Stake


def status_of(agent: Agent, link: Link, stake: Stake | None, warning: str) -> dict[str, Any]:
    """Amounts are decimal strings of token base units, times Unix seconds."""
    parts, state = agent.parts, agent.state
    now = parts.clock.now()
    counts = {kind.value: 0 for kind in AttemptState}
    for found in state.attempts.values():
        counts[found.state.value] += 1
    return {
        "pid": os.getpid(),
        "at": now,
        "instance": parts.identity.instance,
        "version": parts.identity.version,
        "worker": parts.identity.wallet.address,
        "provider": parts.identity.provider,
        "controller": parts.pool.controller,
        "launcher": parts.launcher.kind,
        "warning": warning,
        "is_connected": link.is_up,
        "last_error": link.last_error,
        "is_draining": state.is_draining,
        "devices": [_device(entry, parts.ledger.free(entry.uuid)) for entry in parts.entries()],
        "offers": [_offer(item.offer) for item in parts.offers.current()],
        "leases": [_lease(row, now) for row in state.leases.values()],
        "stake": {"left": str(stake.left), "dearest_lease": str(stake.dearest)} if stake else None,
        "tasks": counts,
        "reports_waiting": len(agent.reports),
    }


def _device(entry: Any, free: Any) -> dict[str, Any]:
    return {
        "device": entry.device,
        "kind": entry.kind,
        "name": entry.name,
        "memory_mib": entry.memory_mib,
        "free_share": free.share_per_mille,
        "free_memory_mib": free.memory_mib,
    }


def _offer(offer: Any) -> dict[str, Any]:
    return {
        "device": offer.device,
        "share": offer.share,
        "memory_mib": offer.memoryMiB,
        "price_per_second": str(offer.pricePerSecond),
        "deadline": offer.deadline,
    }


def _lease(row: LeaseRow, now: int) -> dict[str, Any]:
    return {
        "lease": row.lease,
        "state": row.state.value,
        "renter": row.request.request.renter,
        "share": row.offer.offer.share,
        "memory_mib": row.offer.offer.memoryMiB,
        "price_per_second": str(row.offer.offer.pricePerSecond),
        "ready_at": row.ready_at,
        "ends_at": row.ends_at,
        "voucher": str(row.cumulative),
        "unpaid_seconds": row.unpaid_seconds(now),
        "message": row.message,
    }
