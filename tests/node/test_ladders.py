"""Ladders through the whole node: what is kept, what is refused, and when rungs reach the worker."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from millpond.protocol.ids import Bytes32
from millpond.protocol.ladders import MAX_RUNGS, Ladder, Rung, amounts, sign_ladder
from millpond.protocol.messages import SignedOffer, VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import sign

PRICE, TICK, DURATION = 100, 1, 3600


def fast_offer(kit: Any, worker: Any) -> tuple[SignedOffer, ...]:
    """Ticks of one second."""
    return (kit.make_offer(worker.device, worker.key, tick=TICK),)


def make_ladder(kit: Any, lease: Bytes32, horizon: int = 60, key: str = "session", **changes: Any) -> Ladder:
    cumulatives = amounts(0, PRICE, TICK, horizon, PRICE * DURATION)
    return sign_ladder(lease, cumulatives, kit.ESCROW_DOMAIN, kit.key_of(key), **changes)


@pytest.fixture
async def served(kit: Any, node: Any) -> Any:
    """A worker with a serving lease of 1 s ticks, and the renter's API."""
    worker = node.worker()
    worker.offers = fast_offer(kit, worker)
    async with worker.connected():
        rented = await node.api().rent(worker)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "serving")
        yield worker, rented.lease, node.api()


async def test_ladder_of_a_serving_lease_pays_its_worker_tick_by_tick(kit: Any, served: Any) -> None:
    worker, lease, api = served

    answer = await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease))
    await worker.until(lambda: len(worker.vouchers) >= 3)

    assert (answer.status_code, answer.json()) == (200, {"rungs": 60, "left": "6000"})
    paid = [note.cumulative for note in worker.vouchers[:3]]
    steps = {later - earlier for earlier, later in itertools.pairwise([0, *paid])}
    assert steps <= {100, 200}, "one tick at a time, two at most where the machine was busy"


async def test_ladder_posted_again_changes_nothing(kit: Any, node: Any, served: Any) -> None:
    worker, lease, api = served
    ladder = make_ladder(kit, lease)
    await api.post(f"/v1/leases/{lease}/ladder", ladder)
    await worker.until(lambda: len(worker.vouchers) >= 1)
    before = node.journal.get("climb", lease)

    assert (await api.post(f"/v1/leases/{lease}/ladder", ladder)).status_code == 200
    assert node.journal.get("climb", lease) == before


async def test_ladder_without_rungs_takes_the_last_one_away(kit: Any, node: Any, served: Any) -> None:
    _, lease, api = served
    await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease))

    answer = await api.post(f"/v1/leases/{lease}/ladder", Ladder(lease, ()))

    assert answer.json() == {"rungs": 0, "left": "0"}
    assert node.journal.get("ladder", lease) is None


async def test_ladder_survives_a_crash_of_the_node(kit: Any, node: Any, served: Any) -> None:
    worker, lease, api = served
    await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease))
    await worker.until(lambda: len(worker.vouchers) >= 1)

    agent = kit.revived(node, node.journal.image())

    given = node.agent.core.books.leases.records[lease].note.cumulative
    assert agent.ladders.left(lease) == 6000 - given


async def test_ladder_of_a_lost_worker_releases_nothing(kit: Any, node: Any) -> None:
    worker = node.worker()
    worker.offers = fast_offer(kit, worker)
    async with worker.connected():
        rented = await node.api().rent(worker)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "serving")
        await node.api().post(f"/v1/leases/{rented.lease}/ladder", make_ladder(kit, rented.lease))
        await worker.until(lambda: len(worker.vouchers) >= 1)
    record = node.agent.core.books.leases.records[rented.lease]
    await kit.wait_for(lambda: not node.agent.workers.sessions)
    given = record.note.cumulative
    node.agent.ladders.climb()
    for _ in range(5):
        node.agent.core.head_time = node.agent.core.now() + 10
        node.agent.ladders.climb()

    assert record.note.cumulative == given


async def test_ladder_until_done_stops_once_its_tasks_have_ended(kit: Any, node: Any, served: Any) -> None:
    _, lease, api = served
    job = kit.new_job()
    await api.submit(job, lease, 1)
    await api.results(job)
    await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease, is_until_done=True))
    record = node.agent.core.books.leases.records[lease]
    for _ in range(10):
        node.agent.core.head_time = node.agent.core.now() + 1
        node.agent.ladders.climb()

    assert record.note.cumulative <= 100 * 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rungs: rungs[::-1], "rise"),
        (lambda rungs: rungs[5:], "beyond the last voucher"),
        (lambda rungs: (rungs[0], Rung(200, rungs[0].signature)), "not signed by"),
        (lambda rungs: (rungs[0], Rung(rungs[1].cumulative + 1, rungs[1].signature)), "rise"),
        (lambda rungs: tuple(Rung(100 * i, rungs[0].signature) for i in range(1, MAX_RUNGS + 2)), "at most 8640"),
    ],
    ids=["decreasing", "gap", "forged", "altered", "oversized"],
)
async def test_ladder_that_is_not_as_it_should_be_is_refused_and_the_last_one_stays(
    kit: Any, node: Any, served: Any, change: Any, text: str
) -> None:
    _, lease, api = served
    good = make_ladder(kit, lease)
    await api.post(f"/v1/leases/{lease}/ladder", good)
    kept = node.journal.get("ladder", lease)

    answer = await api.post(f"/v1/leases/{lease}/ladder", Ladder(lease, tuple(change(good.rungs))))

    assert answer.status_code == 400
    assert answer.json()["error"] == "LadderError"
    assert text in answer.json()["message"]
    assert node.journal.get("ladder", lease) == kept


async def test_ladder_signed_by_another_key_is_refused(kit: Any, served: Any) -> None:
    _, lease, api = served

    answer = await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease, key="thief"))

    assert answer.json()["error"] == "LadderError"
    assert answer.json()["fields"]["rung"] == 0


async def test_ladder_of_another_lease_is_refused(kit: Any, node: Any, served: Any) -> None:
    _, lease, api = served
    other = Bytes32("0x" + "77" * 32)

    foreign = await node.api("stranger").post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease))
    unknown = await api.post(f"/v1/leases/{other}/ladder", make_ladder(kit, other))
    mixed = await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, other))

    assert [answer.status_code for answer in (foreign, unknown, mixed)] == [404, 404, 422]


async def test_ladder_never_overtakes_what_the_renter_paid_itself(kit: Any, node: Any, served: Any) -> None:
    _, lease, api = served
    await api.post(f"/v1/leases/{lease}/ladder", make_ladder(kit, lease))
    own = VoucherNote(lease, 5000, sign(Voucher(lease, 5000), kit.ESCROW_DOMAIN, kit.key_of("session")))
    await api.post(f"/v1/leases/{lease}/vouchers", own)
    node.agent.ladders.climb()

    assert node.agent.core.books.leases.records[lease].note == own
