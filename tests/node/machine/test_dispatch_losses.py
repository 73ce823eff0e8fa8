"""Which losses of attempts count as tries of their task: only those that the task itself may have caused."""

import pytest

from millpond.protocol.ids import Address, Bytes32, task_id
from millpond.protocol.link import LossCause
from millpond.protocol.messages import SignedReceipt, TaskSpec
from millpond.protocol.signed import Receipt
from millpond_node.machine import dispatch
from millpond_node.machine.commands import SaveResult, SendRun
from millpond_node.machine.tasks import (
    AttemptDone,
    AttemptGone,
    AttemptStarted,
    Desk,
    LaneOpened,
    TasksSubmitted,
)

JOB = Bytes32("0x" + "11" * 32)
LEASE, OTHER = Bytes32("0x" + "a1" * 32), Bytes32("0x" + "a2" * 32)
OWNER = Address("0x" + "22" * 20)


def opened(max_attempts: int = 1, count: int = 1) -> tuple[Desk, list[SendRun]]:
    desk = Desk()
    specs = tuple(TaskSpec(task_id(JOB, i), i, entry="m:f", max_attempts=max_attempts) for i in range(count))
    dispatch.handle(desk, TasksSubmitted(JOB, OWNER, (LEASE, OTHER), specs), 0.0)
    return desk, runs(dispatch.handle(desk, LaneOpened(LEASE), 0.0))


def runs(commands) -> list[SendRun]:
    return [command for command in commands if isinstance(command, SendRun)]


def gone(desk: Desk, run: SendRun, cause: LossCause):
    return dispatch.handle(desk, AttemptGone(run.lease, run.spec.id, run.attempt, "why", cause), 1.0)


@pytest.mark.parametrize(
    ("cause", "is_started", "is_over"),
    [
        (LossCause.TASK, False, True),
        (LossCause.CRASH, True, True),
        (LossCause.CRASH, False, False),
        (LossCause.WORKER, True, False),
        (LossCause.LEASE, True, False),
    ],
)
def test_loss_counts_as_a_try_only_where_the_task_may_have_caused_it(cause, is_started, is_over) -> None:
    desk, [run] = opened()
    if is_started:
        dispatch.handle(desk, AttemptStarted(run.lease, run.spec.id, run.attempt), 0.5)
    commands = gone(desk, run, cause)
    assert [c for c in commands if isinstance(c, SaveResult)] != [] if is_over else not desk.jobs[JOB].view().failed
    assert bool(desk.jobs[JOB].view().queued + desk.jobs[JOB].view().running) is not is_over


def test_loss_of_a_lease_not_served_sends_it_nothing_until_it_is_ready_again() -> None:
    desk, [run] = opened()
    assert runs(gone(desk, run, LossCause.LEASE)) == []
    [again] = runs(dispatch.handle(desk, LaneOpened(LEASE), 2.0))
    assert (again.spec.id, again.attempt) == (run.spec.id, 2)


def test_loss_of_a_lease_not_served_runs_on_the_jobs_other_lease() -> None:
    desk, [run] = opened()
    dispatch.handle(desk, LaneOpened(OTHER), 0.0)
    [again] = runs(gone(desk, run, LossCause.LEASE))
    assert again.lease == OTHER


def test_receipt_from_a_lease_opens_its_lane_again() -> None:
    desk, [first, second] = opened(count=2)
    assert runs(gone(desk, first, LossCause.LEASE)) == []
    zero = Bytes32("0x" + "00" * 32)
    receipt = Receipt(LEASE, second.spec.id, second.attempt, *([zero] * 5), 1, 2, 0, 0)
    [again] = runs(dispatch.handle(desk, AttemptDone(SignedReceipt(receipt, b"", OWNER), None, None), 2.0))
    assert again.spec.id == first.spec.id


def test_task_given_back_for_ever_ends_at_last() -> None:
    desk, [run] = opened()
    sent = 1
    while found := runs(gone(desk, run, LossCause.WORKER)):
        [run] = found
        sent += 1
    assert sent == 1 + dispatch.MOST_UNCOUNTED
    assert desk.jobs[JOB].view().failed == 1
