"""Why a request waits, and when each state ends."""

import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.protocol import wire
from millpond.protocol.views import LeaseState, LeaseView, RequestState, RequestView, TaskStage, TaskView, Why
from millpond_node.api.deadlines import due_of_task
from millpond_node.api.waits import Held, room_at
from millpond_node.machine.tasks import Stage, Task, TaskState

WORD = "0x" + "11" * 32


async def asked(kit, api, **changes) -> Why:
    signed = kit.make_request(api.key, **changes)
    assert (await api.post("/v1/requests", signed)).status_code == 202
    return wire.read(Why, (await api.get(f"/v1/why/{signed.request.struct_hash()}")).content)


async def test_why_counts_add_up_to_the_offers_and_name_the_nearest_change(kit, node) -> None:
    worker = node.worker(offers=())
    worker.offers = tuple(
        kit.make_offer(worker.device, worker.key, share=share, pricePerSecond=price)
        for share, price in ((300, 900), (200, 100), (900, 1500))
    )
    async with worker.connected():
        why = await asked(kit, node.api(), share=310)
    assert why.considered == len(worker.offers) == why.fitting + sum(item.removed for item in why.filters)
    assert {item.filter: item.removed for item in why.filters} == {"share": 2, "price": 1}
    assert [(change.field, change.asked, change.needed, change.text) for change in why.nearest] == [
        ("share", 310, 300, "share <= 300")
    ]
    assert why.expected_wait_s is None


async def test_why_without_any_offer_promises_nothing(kit, node) -> None:
    why = await asked(kit, node.api())
    assert (why.considered, why.nearest, why.expected_wait_s) == (0, (), None)
    assert (why.state, why.next) == (RequestState.QUEUED, RequestState.EXPIRED)


async def test_why_expects_the_end_of_the_lease_in_the_way(kit, node) -> None:
    worker = node.worker(offers=())
    worker.offers = (kit.make_offer(worker.device, worker.key, share=600),)
    async with worker.connected():
        rented = await node.api().rent(worker, duration=500)
        why = await asked(kit, node.api())
        ends_at = node.agent.core.books.leases.records[rented.lease].ends_at
        behind = await asked(kit, node.api())
    assert [item.filter for item in why.filters] == ["capacity"]
    assert why.expected_wait_s == pytest.approx(ends_at - time.time(), abs=5)
    assert why.nearest == ()
    assert behind.expected_wait_s is None  # the one ahead takes the place


HELD = st.builds(Held, st.integers(1, 500), st.integers(1, 500), st.none() | st.integers(0, 1000))


@given(st.integers(1, 1000), st.integers(1, 1000), st.lists(HELD, max_size=6))
def test_room_is_there_when_it_is_said_to_be_and_not_before(share, memory, held) -> None:
    wait = room_at(share, memory, (100, 100), held, 0)
    times = range(1001) if wait is None else range(wait)
    for at in (*list(times)[:: max(1, len(times) // 7)], *([] if wait is None else [wait])):
        over = [item for item in held if item.ends_at is not None and item.ends_at <= at]
        fits = share <= 100 + sum(item.share for item in over) and memory <= 100 + sum(item.memory_mib for item in over)
        assert fits == (wait is not None and at >= wait)


async def test_every_state_of_a_request_and_a_lease_says_its_deadline_and_what_is_next(kit, node) -> None:
    api = node.api()
    signed = kit.make_request(api.key)
    queued = wire.read(RequestView, (await api.post("/v1/requests", signed)).content)
    assert (queued.deadline, queued.next) == (signed.request.deadline, RequestState.EXPIRED)
    async with node.worker().connected() as worker:
        rented = await api.rent(worker, duration=700)
        view = wire.read(LeaseView, (await api.get(f"/v1/leases/{rented.lease}")).content)
        opened = wire.read(RequestView, (await api.get(f"/v1/requests/{rented.request}")).content)
    assert (view.deadline, view.next) == (view.ends_at, LeaseState.CLOSING)
    assert (opened.state, opened.deadline, opened.next) == (RequestState.OPEN, None, "")


async def test_task_says_where_it_is_and_foreign_ones_are_not_there(kit, node) -> None:
    api, job = node.api(), kit.new_job()
    async with node.worker(runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 1)
        task = kit.task_id(job, 0)
        path = f"/v1/jobs/{job}/tasks/{task}"
        desk = node.agent.core.books.desk
        await kit.wait_for(lambda: desk.jobs[job].tasks[task].state is TaskState.SENT)
        view = wire.read(TaskView, (await api.get(path)).content)
        assert (view.state, view.next, view.attempt) == (TaskStage.SENT, TaskStage.QUEUED, 1)
        assert 0 < view.deadline_s <= 3600
        assert (await node.api("stranger").get(path)).status_code == 404
        assert (await api.get(f"/v1/jobs/{job}/tasks/{kit.task_id(job, 9)}")).status_code == 404


LEASE = SimpleNamespace(lease=WORD, is_over=False, ends_at=500)


@pytest.mark.parametrize(
    ("task", "due"),
    [
        (Task(WORD, 0, None), (560, TaskStage.ENDED)),
        (Task(WORD, 0, None, TaskState.SENT, WORD, 1), (400, TaskStage.QUEUED)),
        (Task(WORD, 0, SimpleNamespace(time_limit_s=30.0), TaskState.SENT, WORD, 1, is_started=True), (30, TaskStage.ENDED)),
        (Task(WORD, 0, SimpleNamespace(time_limit_s=900.0), TaskState.SENT, WORD, 1, is_started=True), (400, TaskStage.QUEUED)),
        (Task(WORD, 0, None, TaskState.ENDED), (None, "")),
        (Task(WORD, 0, None, TaskState.ENDED, stage=Stage.SIGNED), (None, TaskStage.ATTESTED)),
        (Task(WORD, 0, None, TaskState.ENDED, stage=Stage.ATTESTED), (None, TaskStage.FINAL)),
        (Task(WORD, 0, None, TaskState.ENDED, stage=Stage.FINAL), (None, "")),
    ],
)  # fmt: skip
def test_task_in_any_state_has_its_next_one(task, due) -> None:
    assert due_of_task(task, [LEASE], 160, 100) == due


async def test_offers_say_price_room_and_that_nothing_is_known_of_score_and_proof(kit, node) -> None:
    async with node.worker().connected():
        (view,) = (await node.api().get("/v1/offers")).json()
    assert (view["price"], view["is_free"], view["score"], view["proof_age_s"]) == ("100", True, None, None)


async def test_writes_sent_again_have_no_second_effect_and_the_same_answer(kit, node) -> None:
    api, job = node.api(), kit.new_job()
    async with node.worker(runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        signed = kit.make_request(api.key, share=1000)
        voucher = kit.Voucher(rented.lease, 50)
        note = kit.VoucherNote(rented.lease, 50, kit.sign(voucher, kit.ESCROW_DOMAIN, kit.key_of("session")))
        answers = [
            [
                (await api.post("/v1/requests", signed)).json(),
                (await api.post(f"/v1/leases/{rented.lease}/vouchers", note)).json(),
                sum((await api.submit(job, rented.lease, 3)).json().values()),
                (await api.send("POST", f"/v1/jobs/{job}/cancel", b"")).json(),
            ]
            for _ in range(2)
        ]
    assert answers[0] == answers[1]
    assert len(node.agent.core.books.desk.jobs[job].tasks) == 3
    assert signed.request.struct_hash() in node.agent.core.books.requests.records
