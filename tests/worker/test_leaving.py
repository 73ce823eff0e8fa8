from typing import Any

import pytest
from worker_world import CONTROLLER, DEVICE, OWNER, desired, fact, state, voucher

from millpond.chain.bindings.structs import Device, Provision, ThawEntry
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32
from millpond.protocol.link import LeasePhase
from millpond_worker.leaving import EXIT_MARGIN_S, LeaseTie, Ties, next_move, waits
from millpond_worker.machine.commands import SendTx
from millpond_worker.machine.events import ChainSaid, HostClean, LeaseStatus
from millpond_worker.machine.handle import handle
from millpond_worker.machine.model import TxKind

NOW = 1_700_000_000


def device(**changes: Any) -> Device:
    values: dict[str, Any] = {"provider": OWNER.address, "offerEpoch": 0, "kind": 0, "memoryMiB": 4096, "stint": 0}
    values |= {"pool": CONTROLLER, "usedShare": 0, "usedMemoryMiB": 0, "latestEnd": 0, "isDraining": False}
    return Device(**(values | {"model": ZERO_BYTES32} | changes))


def provision(**changes: Any) -> Provision:
    values: dict[str, Any] = {"slasher": OWNER.address, "tokenId": 0, "thawPeriod": 600, "slashCapPpm": 0, "active": 0}
    values |= {"thawing": 0, "frozen": 0, "exposure": 0, "retiredAt": 0}
    return Provision(**(values | changes))


def ties(**changes: Any) -> Ties:
    values: dict[str, Any] = {"pool": CONTROLLER, "head_time": NOW, "devices": {}, "provision": provision()}
    values |= {"thawable": 0, "thaws": [], "idle": 0, "owed": 0}
    return Ties(**(values | changes))


LEASED = device(usedShare=600, latestEnd=NOW + 100)
RETIRED = {"active": 100, "retiredAt": NOW - 10}


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({"provision": provision(active=100), "thawable": 100}, "retire"),
        ({"devices": {DEVICE: device()}, "provision": provision(**RETIRED)}, "leave"),
        ({"devices": {DEVICE: LEASED}}, "drain"),
        ({"devices": {DEVICE: LEASED}, "head_time": NOW + 100 + EXIT_MARGIN_S}, "leave"),
        ({"provision": provision(**RETIRED), "thawable": 60}, "thaw"),
        ({"thaws": [ThawEntry(60, NOW)]}, "complete thaw"),
        ({"idle": 60}, "withdraw stake"),
        ({"owed": 60}, "withdraw earnings"),
    ],
)
def test_next_move(changes: dict[str, Any], step: str) -> None:
    move = next_move(ties(**changes))
    assert move is not None
    assert move.step == step


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"thaws": [ThawEntry(60, NOW + 5)]}, [("complete thaw", NOW + 5)]),
        ({"provision": provision(**RETIRED, exposure=100)}, [("release exposure", NOW - 10 + 600)]),
        ({"provision": provision(frozen=5)}, [("unfreeze", 0)]),
        ({"leases": [LeaseTie(ZERO_BYTES32, "collect", NOW + 9)]}, [("collect", NOW + 9)]),
        (
            {"devices": {DEVICE: device(usedShare=1, latestEnd=NOW, isDraining=True)}},
            [("leave", NOW + EXIT_MARGIN_S)],
        ),
    ],
)
def test_waits_name_their_step_and_when_it_is_due(changes: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    found = ties(**changes)
    assert next_move(found) is None
    assert [(item.step, item.until) for item in waits(found)] == expected


def test_provider_with_nothing_in_the_pool_is_out() -> None:
    there = ties(devices={DEVICE: device(pool=ZERO_ADDRESS)})
    assert next_move(there) is None
    assert waits(there) == []


def test_leaving_worker_gives_a_running_lease_its_notice_and_closes_after_it() -> None:
    world = state()
    wanted = desired(phase=LeasePhase.SEEN)
    handle(world, wanted, NOW)
    world.gives_notice = True
    [notice] = _sent(handle(world, ChainSaid(fact(wanted.lease)), NOW))
    assert notice.kind is TxKind.NOTICE
    assert _sent(handle(world, ChainSaid(fact(wanted.lease, notice_ends_at=NOW + 120, head_time=NOW + 119)), NOW)) == []
    [close] = _sent(handle(world, ChainSaid(fact(wanted.lease, notice_ends_at=NOW + 120, head_time=NOW + 120)), NOW))
    assert close.kind is TxKind.CLOSE


def test_worker_that_only_drains_gives_no_notice() -> None:
    world = state()
    wanted = desired(phase=LeasePhase.SEEN)
    handle(world, wanted, NOW)
    assert _sent(handle(world, ChainSaid(fact(wanted.lease)), NOW)) == []


def test_ended_lease_is_to_be_collected_until_it_is_or_its_window_is_over() -> None:
    world = state()
    wanted = desired(phase=LeasePhase.SEEN)
    lease = wanted.lease
    handle(world, wanted, NOW)
    handle(world, voucher(lease, 5000), NOW)
    handle(world, ChainSaid(fact(lease, LeaseStatus.CLOSED, closed_at=NOW)), NOW)
    handle(world, HostClean(lease), NOW)
    assert world.leases[lease].is_to_collect(NOW + 5, 86_400)
    assert not world.leases[lease].is_to_collect(NOW + 86_400, 86_400)
    paid = world.leases[lease].with_(collected=5000)
    assert not paid.is_to_collect(NOW + 5, 86_400)


def _sent(commands: list[Any]) -> list[SendTx]:
    return [command for command in commands if isinstance(command, SendTx)]
