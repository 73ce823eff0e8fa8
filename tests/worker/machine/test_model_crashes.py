"""Any order of events, any crash point: no attempt is signed twice, vouchers only grow, and every lease ends clean."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from machine_harness import DURATION, Harness
from worker_world import PRICE, desired, spec

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import AttemptLost, Cancel, LeasePhase, LossCause
from millpond.protocol.messages import AttemptStatus
from millpond_worker.machine.commands import Clear
from millpond_worker.machine.events import Disconnected, Launched, Tick
from millpond_worker.machine.model import LIVE, AttemptKey, LeaseRow, LeaseState

LEASES = st.sampled_from([1, 1, 1, 2])
TASKS = st.sampled_from([0, 0, 1])
ATTEMPTS = st.sampled_from([1, 1, 2])


class WorkerLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.it = Harness()
        self.kept: dict[Bytes32, int] = {}
        self.served: dict[Bytes32, int] = {}

    def lease(self, nonce: int) -> Bytes32:
        return desired(nonce).lease

    @rule(nonce=LEASES)
    def serve(self, nonce: int) -> None:
        """The usual way to a lease that is ready, whatever was before."""
        lease = self.lease(nonce)
        if lease not in self.it.chain:
            self.it.open(lease)
        self.it.post(desired(nonce, LeasePhase.SEEN))
        self.it.settle()

    @rule(nonce=LEASES, task=TASKS, attempt=ATTEMPTS, steps=st.sampled_from([2, 3, 4, 5, 6, 7, 8, 8, 8]))
    def work(self, nonce: int, task: int, attempt: int, steps: int) -> None:
        """The usual way of an attempt, cut off after some of its steps."""
        key = AttemptKey(self.lease(nonce), spec(task).id, attempt)
        way: list[Callable[[], object]] = [
            lambda: self.it.run(key.lease, task, attempt),
            lambda: self.it.settle(1),
            lambda: self.it.settle(2),
            lambda: self.it.finish(key),
            lambda: self.it.settle(2),
            self.it.commit,
            self.it.send,
            self.it.ack,
        ]
        for step in way[:steps]:
            step()

    @rule(nonce=LEASES, seconds=st.integers(1, 60))
    def pay_and_crash(self, nonce: int, seconds: int) -> None:
        self.serve(nonce)
        self.pay(nonce, seconds)
        self.it.send()
        self.it.commit()
        self.it.send()
        self.crash()

    @rule(nonce=LEASES, task=TASKS, attempt=ATTEMPTS)
    def seal_and_send_at_once(self, nonce: int, task: int, attempt: int) -> None:
        """Up to the receipt, whose commit is still under way when everything that may leave does."""
        self.serve(nonce)
        self.work(nonce, task, attempt, 4)
        while self.it.todo:
            self.it.step()
        self.it.send()

    @rule(nonce=LEASES, task=TASKS, attempt=ATTEMPTS)
    def run_again_after_a_crash(self, nonce: int, task: int, attempt: int) -> None:
        self.serve(nonce)
        self.work(nonce, task, attempt, 3)
        self.crash()
        self.serve(nonce)
        self.work(nonce, task, attempt, 3)

    @rule(nonce=LEASES)
    def say_twice_that_it_is_launched(self, nonce: int) -> None:
        self.serve(nonce)
        self.time_passes(1)
        self.launched_again(nonce)

    @rule(nonce=LEASES)
    def hint(self, nonce: int) -> None:
        self.it.post(desired(nonce))

    @rule(nonce=LEASES)
    def opens(self, nonce: int) -> None:
        lease = self.lease(nonce)
        if lease not in self.it.chain:
            self.it.open(lease)
        self.it.post(desired(nonce, LeasePhase.SEEN))

    @rule(nonce=LEASES)
    def closes(self, nonce: int) -> None:
        self.it.close(self.lease(nonce))
        self.it.look(self.lease(nonce))

    @rule(nonce=LEASES)
    def reorganises(self, nonce: int) -> None:
        lease = self.lease(nonce)
        if lease in self.it.chain and not self.it.chain[lease].is_settled:
            self.it.drop(lease)
        self.it.look(lease)

    @rule(nonce=LEASES, task=TASKS, attempt=ATTEMPTS)
    def run(self, nonce: int, task: int, attempt: int) -> None:
        self.it.run(self.lease(nonce), task, attempt)

    @rule(nonce=LEASES, task=TASKS, attempt=ATTEMPTS)
    def cancel(self, nonce: int, task: int, attempt: int) -> None:
        self.it.post(Cancel(self.lease(nonce), spec(task).id, attempt))

    @rule(status=st.sampled_from([AttemptStatus.SUCCEEDED, AttemptStatus.FAILED, None]))
    def finish(self, status: AttemptStatus | None) -> None:
        for key in sorted(self.it.host.executing, key=str)[:1]:
            self.it.finish(key, status)

    @rule(nonce=LEASES, seconds=st.integers(0, 60))
    def pay(self, nonce: int, seconds: int) -> None:
        self.it.pay(self.lease(nonce), seconds * PRICE)

    @rule(index=st.integers(0, 5))
    def step(self, index: int) -> None:
        self.it.step(index)

    @rule()
    def perform_all(self) -> None:
        self.it.settle(4)

    @rule()
    def commit(self) -> None:
        self.it.commit()

    @rule()
    def launch_fails(self) -> None:
        self.it.fail_launches()

    @rule()
    def send(self) -> None:
        self.it.send()

    @rule()
    def ack(self) -> None:
        self.it.ack()

    @rule(seconds=st.sampled_from([1, 15, 200]))
    def time_passes(self, seconds: int) -> None:
        for lease, row in self.it.state.leases.items():
            self.served[lease] = self.served.get(lease, 0) + seconds * (row.state is LeaseState.READY)
        self.it.now += seconds
        self.it.post(Tick())

    @rule()
    def connect(self) -> None:
        self.it.connect()

    @rule()
    def disconnect(self) -> None:
        self.it.post(Disconnected())

    @rule()
    def crash(self) -> None:
        self.kept = {}
        before = dict(self.served)
        self.it.crash()
        for lease, row in self.it.state.leases.items():
            self.served[lease] = self.metered(row)
            assert self.served[lease] <= before.get(lease, 0), "the meter counts what was not served"

    @invariant()
    def no_attempt_is_signed_twice(self) -> None:
        assert all(len(found) == 1 for found in self.it.signed.values())

    def metered(self, row: LeaseRow) -> int:
        return (row.stopped_at or self.it.now) - row.ready_at if row.ready_at else 0

    @rule(nonce=LEASES)
    def launched_again(self, nonce: int) -> None:
        """The launcher says twice that a container is up."""
        row = self.it.state.leases.get(self.lease(nonce))
        if row is not None and row.state is LeaseState.READY:
            self.it.post(Launched(row.lease))

    @invariant()
    def meter_counts_the_seconds_served(self) -> None:
        for lease, row in self.it.state.leases.items():
            assert self.metered(row) == self.served.get(lease, 0)

    @invariant()
    def voucher_said_to_be_kept_is_kept(self) -> None:
        for lease, row in self.it.state.leases.items():
            assert row.cumulative >= self.it.promised.get(lease, 0)

    @invariant()
    def lease_that_ended_is_cleared_once_all_is_performed(self) -> None:
        for lease, row in self.it.state.leases.items():
            if row.state is LeaseState.CLOSING:
                assert Clear(lease) in self.it.todo

    @invariant()
    def vouchers_only_grow(self) -> None:
        for lease, row in self.it.state.leases.items():
            assert row.cumulative >= self.kept.get(lease, 0)
            self.kept[lease] = row.cumulative

    @invariant()
    def nothing_runs_outside_a_live_lease(self) -> None:
        for found in self.it.state.attempts.values():
            row = self.it.state.leases.get(found.key.lease)
            assert row is not None
            if row.state not in LIVE:
                assert found.state.value not in ("queued", "running")

    @invariant()
    def clean_lease_has_no_container(self) -> None:
        for lease, row in self.it.state.leases.items():
            if row.state is LeaseState.CLEAN:
                assert lease not in self.it.host.running

    @invariant()
    def sequence_has_no_gap(self) -> None:
        waiting = self.it.unsent
        assert waiting == list(range(self.it.disk.next_seq, self.it.disk.next_seq + len(waiting)))

    def teardown(self) -> None:
        """Left alone, every lease ends: expired, closed, collected, released, forgotten."""
        it = self.it
        for _ in range(12):
            it.connect()
            it.now += DURATION
            it.post(Tick())
            for lease in list(it.state.leases):
                it.look(lease)
            it.settle()
            it.send()
            it.ack()
        it.now += 3 * 86_400
        for _ in range(4):
            it.now += 100
            for lease in list(it.state.leases):
                it.look(lease)
            it.settle()
        assert not it.host.running
        assert not [row for row in it.state.leases.values() if row.state is not LeaseState.CLEAN]
        assert not it.state.leases
        assert not it.state.attempts
        assert all(len(found) == 1 for found in it.signed.values())


WorkerLife.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestD14WorkerLife = WorkerLife.TestCase


def test_D14_model_catches_a_worker_that_forgets_its_fences() -> None:
    """The model itself must be able to fail: without the fences an attempt runs, and would be signed, a second time."""
    it = Harness()
    lease = it.serve()
    key = it.run(lease)
    it.settle()
    it.finish(key)
    it.settle()
    it.send()
    it.ack()
    it.commit()
    it.state.fences.clear()
    it.run(lease)
    with pytest.raises(AssertionError, match="runs twice"):
        it.settle()


def test_D14_run_of_an_attempt_of_which_nothing_is_held_is_answered_and_never_signed_again() -> None:
    """A node set back to an older journal sends what was finished, acknowledged and purged long ago."""
    it = Harness()
    lease = it.serve()
    key = it.run(lease)
    it.settle()
    it.finish(key)
    it.settle()
    it.send()
    it.ack()
    it.commit()
    it.crash()
    it.settle()
    it.run(lease)
    it.settle()
    it.send()
    lost = [body for body in it.reported(AttemptLost) if (body.task, body.attempt) == (key.task, 1)]
    assert [body.cause for body in lost] == [LossCause.WORKER]
    assert len(it.signed[key]) == 1
    second = it.run(lease, 0, 2)
    it.settle()
    it.finish(second)
    it.settle()
    it.send()
    assert len(it.signed[second]) == 1


def test_run_that_still_goes_on_or_waits_for_its_acknowledgement_is_not_answered() -> None:
    it = Harness()
    lease = it.serve()
    key = it.run(lease)
    it.settle()
    it.run(lease)
    it.finish(key)
    it.settle()
    it.run(lease)
    it.settle()
    assert it.reported(AttemptLost) == []
