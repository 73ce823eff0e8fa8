"""An agent on simulated ports: the life of a lease and its tasks, cuts, crashes, and what survives them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from agent_life import DURATION, Running, running, serve, until, until_later, with_code
from worker_world import (
    ATTESTATIONS,
    CHAIN_ID,
    DEVICE,
    OPERATOR,
    PRICE,
    START,
    STRANGER,
    SimNode,
    World,
    call,
    desired,
    spec,
    voucher,
)

from millpond.protocol.hashing import sha256
from millpond.protocol.link import (
    Ack,
    AttemptEnded,
    AttemptLost,
    Cancel,
    Ended,
    EndReason,
    LeasePhase,
    Offers,
    Ready,
    Started,
    Unpaid,
    VoucherKept,
)
from millpond.protocol.messages import AttemptStatus
from millpond.protocol.receipts import check_signature
from millpond.protocol.signing import Domain
from millpond.protocol.values import decode
from millpond.storage.cid import cid_of
from millpond.storage.errors import SourceError
from millpond.storage.journal import MemoryJournal
from millpond_worker.agent.inputs import input_cid
from millpond_worker.edge.clock import settle
from millpond_worker.machine.model import LeaseState, TxKind


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_lease_seen_becomes_ready_and_holds_its_slice(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        assert node.bodies(Ready) == [Ready(lease, START)]
        assert life.agent.parts.ledger.held()[lease].share_per_mille == 600
        assert [found.spec.lease for found in world.launcher.containers.values()] == [lease]


async def test_hello_carries_device_and_signed_offers(world: World) -> None:
    async with running(world):
        node = await SimNode.accept(world.net)
        await until(lambda: node.others)
        assert node.hello.devices[0].device == DEVICE
        assert node.hello.offers[0].offer.share == 600
        assert node.hello.launcher == "fake"


async def test_task_run_gives_signed_receipt_with_its_content_committed(world: World) -> None:
    code = await with_code(world)
    async with running(world):
        node, lease = await serve(world)
        task = spec(0, code=code, args=call(21))
        await node.run(lease, task)
        await until(lambda: node.bodies(AttemptEnded))
        body = node.bodies(AttemptEnded)[0]
        receipt = body.signed.receipt
        check_signature(body.signed, Domain(CHAIN_ID, ATTESTATIONS))
        assert body.signed.worker == OPERATOR.address
        assert decode(body.value) == 42
        assert receipt.resultHash == "0x" + sha256(body.value).hex()
        assert body.signed.value_cid == cid_of(body.value)
        assert body.signed.input_cid == input_cid(task)
        assert (receipt.lease, receipt.task, receipt.attempt, receipt.device) == (lease, task.id, 1, DEVICE)
        assert receipt.status == AttemptStatus.SUCCEEDED


async def test_task_that_raises_is_sealed_as_failed_with_its_words(world: World) -> None:
    code = await with_code(world)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, spec(0, code=code, entry="__mp_main__:shout", args=call(3)))
        await until(lambda: node.bodies(AttemptEnded))
        body = node.bodies(AttemptEnded)[0]
        assert body.signed.receipt.status == AttemptStatus.FAILED
        assert (body.failure.type, body.failure.message) == ("ValueError", "no 3")


async def test_task_with_unknown_code_is_lost_and_nothing_signed(world: World) -> None:
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, spec(0, code=cid_of(b"nowhere"), args=call(1)))
        await until(lambda: node.bodies(AttemptLost))
        assert not node.bodies(AttemptEnded)


async def test_task_with_malformed_cid_fails_with_receipt(world: World) -> None:
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, spec(0, code="not a cid", args=call(1)))
        await until(lambda: node.bodies(AttemptEnded))
        body = node.bodies(AttemptEnded)[0]
        assert body.failure.type == "CidError"
        assert body.signed.receipt.status == AttemptStatus.FAILED


async def test_large_value_travels_by_cid(world: World) -> None:
    code = await with_code(world)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, spec(0, code=code, args=call("x" * 50_000)))
        await until(lambda: node.bodies(AttemptEnded))
        body = node.bodies(AttemptEnded)[0]
        assert body.value is None
        stored = await world.store.blocks.get(body.signed.value_cid)
        assert decode(stored) == "x" * 100_000


async def test_store_that_is_away_delays_the_receipt_but_loses_nothing(world: World) -> None:
    code = await with_code(world)
    async with running(world):
        node, lease = await serve(world)
        world.store.failures["put"] = SourceError("the node is away", source="sim")
        await node.run(lease, spec(0, code=code, args=call("x" * 50_000)))
        await settle()
        assert not node.bodies(AttemptEnded)
        await asyncio.sleep(0.01)
        await world.clock.advance(1)
        await until(lambda: node.bodies(AttemptEnded))


async def test_duplicate_run_gives_one_receipt(world: World) -> None:
    code = await with_code(world)
    async with running(world):
        node, lease = await serve(world)
        for _ in range(3):
            await node.run(lease, spec(0, code=code, args=call(1)))
        await until(lambda: node.bodies(AttemptEnded))
        await node.run(lease, spec(0, code=code, args=call(1)))
        await asyncio.sleep(0.02)
        assert len(node.bodies(AttemptEnded)) == 1


async def test_cancel_running_task_is_sealed_as_cancelled(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    world.launcher.held.add(task.id)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, task)
        await until(lambda: world.launcher.calls["execute"])
        await settle()
        await node.say(Cancel(lease, task.id, 1))
        await until(lambda: node.bodies(AttemptEnded))
        assert node.bodies(AttemptEnded)[0].signed.receipt.status == AttemptStatus.CANCELLED


async def test_task_that_lasts_is_announced_once(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    world.launcher.held.add(task.id)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, task)
        await until(lambda: world.launcher.calls["execute"])
        await world.clock.advance(3)
        await until(lambda: node.bodies(Started))
        assert node.bodies(Started) == [Started(lease, task.id, 1)]


async def test_container_that_dies_loses_the_attempt_and_is_started_again(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    world.launcher.held.add(task.id)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, task)
        await until(lambda: world.launcher.calls["execute"])
        await settle()
        world.launcher._remove(next(iter(world.launcher.containers)))
        await until(lambda: node.bodies(AttemptLost))
        await node.run(lease, spec(1, code=code, args=call(4)))
        await until(lambda: node.bodies(AttemptEnded))
        assert world.launcher.calls["start"] == 2


async def test_voucher_kept_is_reported_and_a_strangers_is_refused(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        await node.say(voucher(lease, 9 * PRICE, STRANGER))
        await node.say(voucher(lease, 5 * PRICE))
        await until(lambda: node.bodies(VoucherKept))
        await node.say(voucher(lease, 4 * PRICE))
        await settle()
        assert node.bodies(VoucherKept) == [VoucherKept(lease, 5 * PRICE)]
        assert life.agent.state.leases[lease].cumulative == 5 * PRICE


async def test_unpaid_lease_is_paused_and_goes_on_when_paid(world: World) -> None:
    async with running(world):
        node, lease = await serve(world)
        container = next(iter(world.launcher.containers.values()))
        await world.clock.advance(22)
        await until(lambda: node.bodies(Unpaid))
        await until(lambda: not container.going.is_set())
        await world.clock.advance(10)
        await node.say(voucher(lease, 21 * PRICE))
        await until(container.going.is_set)
        await until(lambda: len(node.bodies(Ready)) == 2)
        assert node.bodies(Ready)[-1].at == START + 11


def kinds(world: World) -> list[TxKind]:
    return [sent.kind for sent in world.chain.sent]


async def pass_time(world: World, seconds: int) -> None:
    for _ in range(seconds // 5):
        await world.clock.jump(5)
        await asyncio.sleep(0.001)


async def test_D11_unpaid_lease_is_collected_demanded_and_closed_when_the_answer_time_is_over(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        await node.say(voucher(lease, 4 * PRICE))
        await pass_time(world, 120)
        await until(lambda: kinds(world) == [TxKind.COLLECT, TxKind.DEMAND])
        await pass_time(world, 850)
        assert life.agent.state.leases[lease].state is LeaseState.UNPAID
        assert world.launcher.containers
        await pass_time(world, 60)
        await until(lambda: node.bodies(Ended))
        assert node.bodies(Ended)[0].reason is EndReason.UNPAID
        assert not world.launcher.containers
        await pass_time(world, 10)
        assert kinds(world) == [TxKind.COLLECT, TxKind.DEMAND, TxKind.CLOSE_UNPAID, TxKind.COLLECT_FINAL]


async def test_demand_of_an_earlier_time_never_closes_a_lease_that_was_served_since(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        await pass_time(world, 100)
        await until(lambda: kinds(world) == [TxKind.DEMAND])
        await node.say(voucher(lease, 900 * PRICE))
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)
        await pass_time(world, 1200)
        assert kinds(world) == [TxKind.DEMAND, TxKind.COLLECT, TxKind.DEMAND]
        assert life.agent.state.leases[lease].state is LeaseState.UNPAID


async def test_renter_that_pays_at_the_chain_itself_is_served_on(world: World) -> None:
    async with running(world) as life:
        _, lease = await serve(world)
        await pass_time(world, 30)
        assert life.agent.state.leases[lease].state is LeaseState.UNPAID
        world.chain.leases[lease] = replace(world.chain.leases[lease], collected=100 * PRICE)
        await pass_time(world, 5)
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)


async def test_O11_unpaid_lease_starts_no_container_after_a_restart_until_it_is_paid(world: World) -> None:
    async with running(world):
        _, lease = await serve(world)
        await pass_time(world, 30)
    world.launcher.containers.clear()
    async with running(world, "second") as life:
        back = await SimNode.accept(world.net)
        await pass_time(world, 10)
        assert life.agent.state.leases[lease].state is LeaseState.UNPAID
        assert not world.launcher.containers
        await back.say(voucher(lease, 60 * PRICE))
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)
        assert len(world.launcher.containers) == 1


async def test_O12_unpaid_lease_outlives_a_cut_line(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        world.net.is_down = True
        await node.cut()
        for _ in range(60):
            await world.clock.jump(10)
        assert life.agent.state.leases[lease].state is LeaseState.UNPAID
        world.net.is_down = False
        await world.clock.advance(5)
        back = await SimNode.accept(world.net)
        await back.say(voucher(lease, 600 * PRICE))
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)


async def test_closed_lease_is_cleared_collected_and_ended(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        await node.say(voucher(lease, 7 * PRICE))
        await world.clock.advance(7)
        world.chain.close_lease(lease)
        await node.say(desired(1, LeasePhase.CLOSED))
        await until(lambda: node.bodies(Ended))
        await world.clock.advance(10)
        await until(lambda: world.chain.sent)
        assert (world.chain.sent[0].kind, world.chain.sent[0].cumulative) == (TxKind.COLLECT_FINAL, 7 * PRICE)
        assert node.bodies(Ended) == [Ended(lease, EndReason.CLOSED)]
        assert not world.launcher.containers
        assert life.agent.parts.ledger.held() == {}
        assert lease in world.store.forgotten


async def test_expired_lease_is_closed_on_chain_by_the_worker_and_at_last_released(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        await node.say(voucher(lease, (DURATION + 1) * PRICE))
        await until(lambda: node.bodies(VoucherKept))
        await world.clock.jump(DURATION + 1)
        await until_later(world, lambda: TxKind.COLLECT_FINAL in [sent.kind for sent in world.chain.sent])
        assert node.bodies(Ended)[0].reason is EndReason.EXPIRED
        await world.clock.jump(2 * 86_400 + 120)
        await until_later(world, lambda: lease not in life.agent.state.leases)
        assert [sent.kind for sent in world.chain.sent] == [TxKind.CLOSE, TxKind.COLLECT_FINAL, TxKind.RELEASE]


async def test_reports_are_sent_again_until_acknowledged(world: World) -> None:
    async with running(world):
        node, _ = await serve(world)
        first = list(node.reports)
        await node.cut()
        await world.clock.advance(2)
        back = await SimNode.accept(world.net)
        await until(lambda: back.reports)
        assert back.reports == first
        await back.say(Ack(first[-1].seq))
        await settle()
        await back.cut()
        await world.clock.advance(3)
        third = await SimNode.accept(world.net, acked=first[-1].seq)
        await until(lambda: third.others)
        await settle()
        assert third.reports == []


async def test_lease_refused_by_launcher_ends_with_its_reason(world: World) -> None:
    world.launcher.images.clear()
    async with running(world):
        node = await SimNode.accept(world.net)
        hint = desired(1, LeasePhase.SEEN)
        world.chain.open(hint.lease, DURATION)
        await node.say(hint)
        await until(lambda: node.bodies(Ended))
        assert node.bodies(Ended)[0].reason is EndReason.LAUNCH_FAILED
        assert "millpond-task:1" in node.bodies(Ended)[0].message


async def test_lease_only_claimed_by_the_node_is_never_started(world: World) -> None:
    async with running(world) as life:
        node = await SimNode.accept(world.net)
        await node.say(desired(1, LeasePhase.FINAL))
        await world.clock.advance(10)
        assert world.launcher.calls["start"] == 0
        assert next(iter(life.agent.state.leases.values())).state is LeaseState.PREPARING


async def test_reorganised_lease_goes_back_and_comes_again(world: World) -> None:
    async with running(world) as life:
        node, lease = await serve(world)
        fact = world.chain.leases[lease]
        world.chain.drop(lease)
        await world.clock.advance(4)
        await until(lambda: not life.agent.parts.ledger.held())
        assert life.agent.state.leases[lease].state is LeaseState.PREPARING
        assert not world.launcher.containers
        world.chain.leases[lease] = fact
        await world.clock.advance(4)
        await until(lambda: len(node.bodies(Ready)) == 2)


async def test_O11_restart_serves_leases_again_and_kills_orphans(world: World) -> None:
    async with running(world):
        _, lease = await serve(world)
    world.launcher.containers.clear()
    await world.clock.advance(50)
    async with running(world, "second") as life:
        world.launcher.leave_cold(await _spec_of(world, "0x" + "77" * 32))
        node = await SimNode.accept(world.net)
        await until(lambda: life.agent.state.leases[lease].state is LeaseState.READY)
        await world.clock.advance(4)
        await until(lambda: len(world.launcher.containers) == 1)
        await until(lambda: len(node.bodies(Ready)) == 2)
        assert node.bodies(Ready)[-1].at == START + 50


async def _spec_of(world: World, lease: str) -> object:
    from millpond_worker.launch.port import ContainerSpec, Limits

    return ContainerSpec(lease, "0x0", "millpond-task:1", Limits(100, 64), task="0x" + "01" * 32, attempt=1)


async def test_O11_restart_after_close_leaves_no_container_and_collects(world: World) -> None:
    async with running(world):
        node, lease = await serve(world)
        await node.say(voucher(lease, 3 * PRICE))
        await until(lambda: node.bodies(VoucherKept))
    world.chain.close_lease(lease)
    async with running(world, "second"):
        back = await SimNode.accept(world.net)
        await until(lambda: back.bodies(Ended))
        await world.clock.advance(10)
        await until(lambda: world.chain.sent)
        assert world.chain.sent[0].cumulative == 3 * PRICE
        assert not world.launcher.containers


async def test_D14_attempt_running_at_a_crash_is_lost_and_never_signed_under_its_number(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    world.launcher.held.add(task.id)
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, task)
        await until(lambda: world.launcher.calls["execute"])
    world.launcher.held.clear()
    async with running(world, "second"):
        back = await SimNode.accept(world.net)
        await back.run(lease, task)
        await until(lambda: back.bodies(AttemptLost))
        await back.run(lease, task, attempt=2)
        await until(lambda: back.bodies(AttemptEnded))
        assert [body.signed.receipt.attempt for body in back.bodies(AttemptEnded)] == [2]


async def test_D14_sealed_attempt_is_sent_again_with_the_same_signature(world: World) -> None:
    code = await with_code(world)
    task = spec(0, code=code, args=call(1))
    async with running(world):
        node, lease = await serve(world)
        await node.run(lease, task)
        await until(lambda: node.bodies(AttemptEnded))
    async with running(world, "second"):
        back = await SimNode.accept(world.net)
        await back.run(lease, task)
        await until(lambda: back.bodies(AttemptEnded))
        await asyncio.sleep(0.02)
        assert back.bodies(AttemptEnded) == node.bodies(AttemptEnded)


async def test_O01_nothing_leaves_before_its_commit(tmp_path: Path) -> None:
    world = World(tmp_path, journal=MemoryJournal(holds=True))
    async with running(world):
        node = await SimNode.accept(world.net)
        hint = desired(1, LeasePhase.SEEN)
        world.chain.open(hint.lease, DURATION)
        await node.say(hint)
        await until(lambda: world.launcher.containers)
        await asyncio.sleep(0.02)
        assert node.reports == []
        for _ in range(5):
            world.journal.release()
            await asyncio.sleep(0.005)
        assert node.bodies(Ready)


async def test_journal_failure_ends_the_agent(world: World) -> None:
    life = Running(world)
    await life.start()
    world.journal.fail()
    node = await SimNode.accept(world.net)
    await node.say(desired(1))
    await until(life.jobs[0].done)
    assert type(life.jobs[0].exception()).__name__ == "JournalFailedError"
    await life.kill()


async def test_changed_epoch_sends_new_offers(world: World) -> None:
    async with running(world) as life:
        node = await SimNode.accept(world.net)
        world.chain.epoch = 4
        await life.rounds.renew()
        await until(lambda: [message for message in node.others if isinstance(message, Offers)])
        message = next(message for message in node.others if isinstance(message, Offers))
        assert message.offers[0].offer.epoch == 4
