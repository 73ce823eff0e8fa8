"""The dispatcher: nothing lost, attempts only grow, no receipt twice, counts add up."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, task_id
from millpond.protocol.messages import Failure, SignedReceipt, TaskSpec
from millpond.protocol.signed import Receipt
from millpond_node.machine import dispatch
from millpond_node.machine.commands import SaveResult, SendCancel, SendRun
from millpond_node.machine.tasks import (
    MAX_CREDIT,
    AttemptDone,
    AttemptGone,
    AttemptStarted,
    CancelAsked,
    Desk,
    JobOrphaned,
    LaneOpened,
    LaneStopped,
    ReceiptsAt,
    Stage,
    TasksSubmitted,
)

JOB = Bytes32("0x" + "11" * 32)
LEASES = [Bytes32("0x" + f"{i:02x}" * 32) for i in (0xA1, 0xA2, 0xA3)]
OWNER = Address("0x" + "22" * 20)


def spec(index: int, max_attempts: int = 3) -> TaskSpec:
    return TaskSpec(task_id(JOB, index), index, entry="m:f", max_attempts=max_attempts)


def submitted(first: int, count: int, leases=LEASES, max_attempts: int = 3) -> TasksSubmitted:
    return TasksSubmitted(JOB, OWNER, tuple(leases), tuple(spec(first + i, max_attempts) for i in range(count)))


def receipt(run: SendRun, status: int = 0) -> AttemptDone:
    signed = Receipt(run.lease, run.spec.id, run.attempt, *([ZERO_BYTES32] * 5), 1, 2, 0, status)
    return AttemptDone(SignedReceipt(signed, b"", OWNER), None, Failure("E", "e") if status else None)


def runs(commands) -> list[SendRun]:
    return [command for command in commands if isinstance(command, SendRun)]


def results(commands) -> list[SaveResult]:
    return [command for command in commands if isinstance(command, SaveResult)]


def test_submit_without_an_open_lane_sends_nothing_and_queues() -> None:
    desk = Desk()
    assert runs(dispatch.handle(desk, submitted(0, 5), 0.0)) == []
    assert desk.jobs[JOB].view().queued == 5


def test_lane_opened_gets_tasks_up_to_its_credit_in_order() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 5), 0.0)
    sent = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))
    assert [run.spec.index for run in sent] == [0, 1]


def test_short_job_is_spread_over_its_lanes() -> None:
    desk = Desk()
    for lease in LEASES:
        dispatch.handle(desk, LaneOpened(lease), 0.0)
    sent = runs(dispatch.handle(desk, submitted(0, 3), 0.0))
    assert {run.lease for run in sent} == set(LEASES)


def test_submit_again_is_known_and_changes_nothing() -> None:
    desk = Desk()
    dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0)
    dispatch.handle(desk, submitted(0, 2), 0.0)
    assert runs(dispatch.handle(desk, submitted(0, 2), 0.0)) == []
    assert len(desk.jobs[JOB].tasks) == 2


def test_fast_lane_earns_more_credit_within_its_bound() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 3000), 0.0)
    out = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))
    for step in range(1, 2000):
        out = out[1:] + runs(dispatch.handle(desk, receipt(out[0]), step * 0.0005))
    assert 100 <= desk.lanes[LEASES[0]].credit <= MAX_CREDIT
    assert len(desk.lanes[LEASES[0]].outstanding) == desk.lanes[LEASES[0]].credit


def test_O03_receipt_of_an_attempt_that_was_requeued_is_refused() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1, LEASES[:2]), 0.0)
    late = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    dispatch.handle(desk, LaneStopped(LEASES[0], False, True), 1.0)
    second = runs(dispatch.handle(desk, LaneOpened(LEASES[1]), 1.0))[0]
    assert second.attempt == late.attempt + 1
    assert results(dispatch.handle(desk, receipt(late), 2.0)) == []
    assert desk.stale == 1
    assert len(results(dispatch.handle(desk, receipt(second), 3.0))) == 1


def test_O09_receipt_delivered_twice_counts_once() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1), 0.0)
    run = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    assert len(results(dispatch.handle(desk, receipt(run), 1.0))) == 1
    assert results(dispatch.handle(desk, receipt(run), 1.0)) == []
    assert desk.jobs[JOB].view().succeeded == 1


def test_started_attempts_lost_too_often_end_the_task_without_a_receipt() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1, max_attempts=2), 0.0)
    run = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    again = runs(dispatch.handle(desk, AttemptGone(run.lease, run.spec.id, run.attempt, "oom"), 1.0))[0]
    ended = results(dispatch.handle(desk, AttemptGone(again.lease, again.spec.id, again.attempt, "oom"), 2.0))
    assert ended[0].signed is None
    assert ended[0].failure is not None
    assert ended[0].failure.type == "AttemptsExhausted"
    assert desk.jobs[JOB].view().failed == 1


def test_task_out_of_attempts_names_the_last_reason_also_when_its_worker_fell_silent() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1, max_attempts=2), 0.0)
    run = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    again = runs(dispatch.handle(desk, AttemptGone(run.lease, run.spec.id, run.attempt, "OSError: no space"), 1.0))[0]
    dispatch.handle(desk, AttemptStarted(again.lease, again.spec.id, again.attempt), 1.5)
    ended = results(dispatch.handle(desk, LaneStopped(LEASES[0], False, True), 2.0))
    assert ended[0].failure is not None
    assert ended[0].failure.message == "it was lost in 2 of at most 2 attempts: its worker fell silent"


def test_task_out_of_attempts_names_the_workers_last_reason() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1, max_attempts=1), 0.0)
    run = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    gone = AttemptGone(run.lease, run.spec.id, run.attempt, "OSError: no space")
    ended = results(dispatch.handle(desk, gone, 1.0))
    assert ended[0].failure is not None
    assert ended[0].failure.message == "it was lost in 1 of at most 1 attempts: OSError: no space"


def test_attempts_not_started_are_requeued_without_counting_as_tries() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1, max_attempts=1), 0.0)
    for _ in range(5):
        assert runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))
        assert results(dispatch.handle(desk, LaneStopped(LEASES[0], False, True), 1.0)) == []
    assert desk.jobs[JOB].view().queued == 1


def test_lane_opened_again_sends_its_outstanding_attempts_again() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 2), 0.0)
    first = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))
    assert runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0)) == first


def test_requeued_tasks_go_before_those_never_sent() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 6), 0.0)
    dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0)
    dispatch.handle(desk, LaneStopped(LEASES[0], True, False), 1.0)
    assert [run.spec.index for run in runs(dispatch.handle(desk, LaneOpened(LEASES[1]), 1.0))] == [0, 1]


def test_cancel_ends_queued_tasks_and_asks_the_worker_for_the_others() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 4), 0.0)
    dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0)
    commands = dispatch.handle(desk, CancelAsked(JOB, ()), 1.0)
    assert len([command for command in commands if isinstance(command, SendCancel)]) == 2
    assert desk.jobs[JOB].view().cancelled == 2
    assert desk.jobs[JOB].view().running == 2


def test_cancelling_task_of_a_lost_lane_ends_as_cancelled() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1), 0.0)
    dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0)
    dispatch.handle(desk, CancelAsked(JOB, ()), 1.0)
    ended = results(dispatch.handle(desk, LaneStopped(LEASES[0], True, True), 2.0))
    assert [item.signed for item in ended] == [None]
    assert desk.jobs[JOB].view().cancelled == 1


def test_orphaned_job_ends_its_queued_tasks_with_a_reason() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 3), 0.0)
    ended = results(dispatch.handle(desk, JobOrphaned(JOB), 9.0))
    assert {item.failure.type for item in ended if item.failure} == {"LeaseEnded"}
    assert desk.open == 0


def test_receipts_stage_goes_up_and_down_with_the_chain() -> None:
    desk = Desk()
    dispatch.handle(desk, submitted(0, 1), 0.0)
    run = runs(dispatch.handle(desk, LaneOpened(LEASES[0]), 0.0))[0]
    dispatch.handle(desk, receipt(run), 1.0)
    refs = ((JOB, run.spec.id),)
    counts = []
    for stage in (Stage.ATTESTED, Stage.ATTESTED, Stage.FINAL, Stage.SIGNED, Stage.ATTESTED):
        dispatch.handle(desk, ReceiptsAt(refs, stage), 2.0)
        counts.append((desk.jobs[JOB].attested, desk.jobs[JOB].final))
    assert counts == [(1, 0), (1, 0), (1, 1), (0, 0), (1, 0)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "open", "stop", "over", "done", "fail", "gone", "late", "start", "cancel"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_O02_any_history_loses_no_task_and_accepts_no_receipt_twice(steps) -> None:
    desk, out, old, ended = Desk(), [], [], Counter()
    attempts: dict[Bytes32, int] = {}
    accepted: set[Bytes32] = set()
    for at, (what, pick) in enumerate(steps):
        chosen = out[pick % len(out)] if out else None
        match what:
            case "submit":
                event = submitted(pick * 3, 3, LEASES[: 1 + pick % 3])
                accepted |= {item.id for item in event.tasks}
            case "open":
                event = LaneOpened(LEASES[pick % 3])
            case "stop" | "over":
                event = LaneStopped(LEASES[pick % 3], what == "over", True)
            case "done" | "fail" if chosen:
                event = receipt(chosen, int(what == "fail"))
            case "gone" if chosen:
                event = AttemptGone(chosen.lease, chosen.spec.id, chosen.attempt, "gone")
            case "start" if chosen:
                event = AttemptStarted(chosen.lease, chosen.spec.id, chosen.attempt)
            case "late" if old:
                event = receipt(old[pick % len(old)])
            case "cancel":
                event = CancelAsked(JOB, ())
            case _:
                continue
        commands = dispatch.handle(desk, event, float(at))
        for run in runs(commands):
            assert run.attempt >= attempts.get(run.spec.id, 0)
            attempts[run.spec.id] = run.attempt
            out.append(run)
            old.append(run)
        ended.update(item.task for item in results(commands))
        check(desk, accepted, ended)


def check(desk: Desk, accepted: set[Bytes32], ended: Counter) -> None:
    if JOB not in desk.jobs:
        return
    view = desk.jobs[JOB].view()
    assert set(desk.jobs[JOB].tasks) == accepted
    assert view.tasks == view.queued + view.running + view.succeeded + view.failed + view.cancelled == len(accepted)
    assert all(count == 1 for count in ended.values())
    assert len(ended) == view.succeeded + view.failed + view.cancelled
    assert desk.open == view.queued + view.running
    assert sum(len(lane.outstanding) for lane in desk.lanes.values()) == view.running
    assert all(len(lane.outstanding) <= lane.credit for lane in desk.lanes.values())
