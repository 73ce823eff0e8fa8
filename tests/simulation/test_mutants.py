"""The simulation must be able to fail: each of these defects, planted in the real code, is found."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from sim_campaign import crash_at, points_of
from sim_run import simulate

from millpond.protocol.ids import Bytes32
from millpond_node.durable import Durable
from millpond_node.machine import dispatch
from millpond_node.news import News
from millpond_node.settle import Settlement
from millpond_node.workers import WorkersEdge
from millpond_worker.agent.leases import LeaseDesk
from millpond_worker.agent.reports import Reports
from millpond_worker.machine import attempt, rows
from millpond_worker.machine import lease as lease_machine

SEED = 2
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # of killed processes


def violations_at(who: str, what: str, most: int = 8) -> list[str]:
    """What is found by crashes at the points whose name has `what` in it, in turn until something is."""
    points = points_of(SEED)
    places = [index for index, (by, name) in enumerate(points) if by.startswith(who) and what in name]
    assert places, f"there is no point {who} {what}"
    for index in places[:most]:
        found = crash_at(SEED, points, index).violations
        if found:
            return found
    return []


def acknowledge_reports_before_the_commit(patch: Patch) -> list[str]:
    def flush(self: Any) -> None:
        acks, self._acks = self._acks, {}
        for worker, seq in acks.items():
            self._core.durable.batch.put("worker", worker, str(seq).encode())
        self._acknowledge(acks)

    patch.setattr(WorkersEdge, "_flush_acks", flush)
    return simulate(SEED).violations


def accept_tasks_before_the_commit(patch: Patch) -> list[str]:
    async def settled(self: Durable) -> None:
        self.touch()

    patch.setattr(Durable, "settled", settled)
    return violations_at("node", "before fsync job")


def send_reports_before_the_commit(patch: Patch) -> list[str]:
    add = Reports.add

    def add_and_send(self: Reports, seq: int, body: Any) -> None:
        add(self, seq, body)
        self.commit(seq)

    patch.setattr(Reports, "add", add_and_send)
    return simulate(SEED).violations


def forget_vouchers_in_a_crash(patch: Patch) -> list[str]:
    load = rows.load

    def load_without(state: Any, *args: Any) -> None:
        load(state, *args)
        for name, row in state.leases.items():
            state.leases[name] = row.with_(cumulative=0, signature=b"")

    patch.setattr(rows, "load", load_without)
    return violations_at("worker", "intent before worker-1/collect")


def send_again_under_the_same_attempt(patch: Patch) -> list[str]:
    assign = dispatch.assign

    def same(state: Any, job: Any, task: Any, lease: str, number: int, tries: int) -> None:
        assign(state, job, task, lease, 1 if lease else number, tries)

    patch.setattr(dispatch, "assign", same)
    return violations_at("worker", "after sending started", 3)


def drop_the_outbox_at_a_restart(patch: Patch) -> list[str]:
    made = Reports.__init__

    def forgetful(self: Reports, journal: Any, domain: Any, key: bytes) -> None:
        made(self, journal, domain, key)
        self._rows.clear()
        self.acked = self.added

    patch.setattr(Reports, "__init__", forgetful)
    return violations_at("worker", "before sending attempt_ended")


def forget_fences_in_a_crash(patch: Patch) -> list[str]:
    load = rows.load

    def load_without(state: Any, *args: Any) -> None:
        load(state, *args)
        state.fences.clear()
        state.attempts.clear()

    patch.setattr(rows, "load", load_without)
    return violations_at("worker", "after sending attempt_ended")


def leave_containers_of_the_last_life(patch: Patch) -> list[str]:
    async def nothing(self: LeaseDesk) -> int:
        self._is_swept = True
        return 0

    async def none(self: LeaseDesk) -> list[Any]:
        self._is_swept = True
        return []

    async def wipe(self: LeaseDesk, lease: Bytes32) -> None:
        host = self.hosts.pop(lease, None)
        if host is not None:
            await host.close()
        self._parts.ledger.release(lease)

    patch.setattr(LeaseDesk, "kill_orphans", nothing)
    patch.setattr(LeaseDesk, "sweep", none)
    patch.setattr(LeaseDesk, "_wipe", wipe)
    return violations_at("worker", "sending ready", 2)


def post_receipts_again_after_a_restart(patch: Patch) -> list[str]:
    def again(self: Settlement, job: Any, task: Any, cursor: int, signed: Any) -> None:
        self.add(job, task, cursor, signed)

    patch.setattr(Settlement, "restore_receipt", again)
    return violations_at("node", "fsync batch")


def keep_the_cursor_before_what_it_brought(patch: Patch) -> list[str]:
    take = News.take

    def late(self: News, batch: Any) -> None:
        self._core.durable.batch.put("meta", "cursor", batch.cursor.encode())
        self._core.durable.touch()
        asyncio.get_running_loop().call_later(0.1, take, self, batch)

    patch.setattr(News, "take", late)
    return violations_at("node", "after fsync meta")


def never_tell_ready_again(patch: Patch) -> list[str]:
    """The defect that this simulation found: a lease that the chain took back and opened again between two looks."""
    patch.setattr(lease_machine, "_told_again", lambda *args: [])
    return violations_at("chain", "block 3")


def run_an_attempt_again_after_its_crash(patch: Patch) -> list[str]:
    def restarted(state: Any, running: Any) -> list[Any]:
        for found in list(state.attempts.values()):
            state.attempts.pop((found.key.lease, found.key.task), None)
            state.fences.get(found.key.lease, {}).pop(found.key.task, None)
        return []

    patch.setattr(attempt, "restarted", restarted)
    return violations_at("worker", "before sending attempt_ended")


QUICK: list[Callable[[Patch], list[str]]] = [
    acknowledge_reports_before_the_commit,
    send_reports_before_the_commit,
    forget_vouchers_in_a_crash,
    drop_the_outbox_at_a_restart,
    forget_fences_in_a_crash,
    leave_containers_of_the_last_life,
    post_receipts_again_after_a_restart,
    keep_the_cursor_before_what_it_brought,
    never_tell_ready_again,
    run_an_attempt_again_after_its_crash,
]
LONG = [accept_tasks_before_the_commit, send_again_under_the_same_attempt]
"""Found by what never ends: these runs go on to their last minute."""
MUTANTS = QUICK + (LONG if os.environ.get("MILLPOND_CRASH") == "all" else [])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_simulation_finds_a_worker_or_node_that_would(
    mutant: Callable[[Patch], list[str]], monkeypatch: Patch, record_property: Callable[[str, object], None]
) -> None:
    found = mutant(monkeypatch)
    record_property("crash planted defects", 1)
    record_property("crash planted defects found", int(bool(found)))
    print(f"\n{mutant.__name__}: {found[:1]}")
    assert found
