"""kill -9 at each step of a lease and of an attempt, one after the other; then the node sends everything again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from machine_harness import DURATION, Harness
from worker_world import PRICE, desired, spec

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import AttemptLost, LeasePhase
from millpond_worker.machine.events import Tick
from millpond_worker.machine.model import AttemptKey, LeaseState

Steps = list[Callable[[], object]]


def attempt_way(it: Harness, key: AttemptKey) -> Steps:
    return [
        lambda: it.run(key.lease, 0, key.attempt),
        it.commit,
        it.step,
        it.commit,
        it.step,
        it.commit,
        lambda: it.finish(key),
        it.commit,
        it.step,
        it.commit,
        it.send,
        it.ack,
        it.commit,
    ]


ATTEMPT_STEPS = 13


def complete(it: Harness, key: AttemptKey) -> None:
    """The node sends the attempt again, and everything goes well."""
    it.run(key.lease, 0, key.attempt)
    it.settle()
    it.finish(key)
    it.settle()
    it.send()


@pytest.mark.parametrize("point", range(ATTEMPT_STEPS + 1))
@pytest.mark.parametrize("is_committing", [True, False])
def test_D14_crash_at_any_step_of_an_attempt_signs_it_at_most_once(point: int, is_committing: bool) -> None:
    it = Harness()
    lease = it.serve()
    first = AttemptKey(lease, spec(0).id, 1)
    for step in attempt_way(it, first)[:point]:
        if is_committing or step != it.commit:
            step()
    it.crash()
    it.settle()
    complete(it, first)
    assert len(it.signed.get(first, set())) <= 1
    lost = [body for body in it.reported(AttemptLost) if (body.task, body.attempt) == (first.task, 1)]
    assert len(it.signed.get(first, set())) + len(lost) >= 1
    complete(it, AttemptKey(lease, first.task, 2))
    assert all(len(found) == 1 for found in it.signed.values())


def lease_way(it: Harness, lease: Bytes32) -> Steps:
    return [
        lambda: it.post(desired(1)),
        it.commit,
        lambda: it.open(lease),
        lambda: it.post(desired(1, LeasePhase.SEEN)),
        it.commit,
        it.step,
        it.step,
        it.commit,
        it.step,
        it.commit,
        lambda: it.pay(lease, 5 * PRICE),
        it.commit,
        lambda: setattr(it, "now", it.now + 30),
        lambda: it.post(Tick()),
        it.commit,
        lambda: it.pay(lease, 40 * PRICE),
        it.commit,
        lambda: it.close(lease),
        lambda: it.look(lease),
        it.commit,
        it.step,
        it.commit,
        it.step,
        it.commit,
        it.step,
    ]


@pytest.mark.parametrize("point", range(25))
def test_O01_crash_at_any_step_of_a_lease_ends_clean_and_collected_once(point: int) -> None:
    it = Harness()
    lease = desired(1).lease
    for step in lease_way(it, lease)[:point]:
        step()
    durable = it.disk.load().leases.get(lease)
    it.crash()
    it.settle()
    it.connect()
    it.post(desired(1, LeasePhase.SEEN))
    it.settle()
    it.now += 2 * DURATION
    it.post(Tick())
    for _ in range(6):
        it.now += 100
        it.look(lease)
        it.settle()
    assert lease not in it.host.running
    row = it.state.leases.get(lease)
    assert row is None or row.state is LeaseState.CLEAN
    if lease in it.chain:
        assert it.paid[lease] == (durable.cumulative if durable else 0)
