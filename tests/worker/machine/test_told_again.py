"""A lease that the chain took back and opened again between two looks: the node, which saw it, is told again what is served."""

from __future__ import annotations

import pytest
from machine_harness import Harness
from worker_world import desired

from millpond.protocol.link import LeasePhase, Ready, Unpaid
from millpond_worker.machine.events import Tick


@pytest.mark.parametrize("phase", [LeasePhase.SEEN, LeasePhase.FINAL])
def test_O05_lease_seen_again_while_it_is_served_is_told_ready_again(phase: LeasePhase) -> None:
    it = Harness()
    lease = it.serve()
    told = len(it.reported(Ready))
    it.post(desired(1, phase))
    it.settle()
    assert len(it.reported(Ready)) == told + 1
    assert it.ready_at(lease) == it.state.leases[lease].ready_at


def test_O05_lease_seen_again_while_it_is_unpaid_is_told_both() -> None:
    it = Harness()
    it.serve()
    it.now += 30
    it.post(Tick())
    it.settle()
    before = len(it.reported(Ready)), len(it.reported(Unpaid))
    it.post(desired(1, LeasePhase.SEEN))
    it.settle()
    assert (len(it.reported(Ready)), len(it.reported(Unpaid))) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("phase", [LeasePhase.HINT, LeasePhase.CLOSED])
def test_lease_that_the_node_does_not_see_open_is_not_told(phase: LeasePhase) -> None:
    it = Harness()
    it.serve()
    told = len(it.reported(Ready))
    it.post(desired(1, phase))
    it.settle()
    assert len(it.reported(Ready)) == told
