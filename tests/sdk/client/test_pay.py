import asyncio
from dataclasses import dataclass, field

import pytest

from millpond._pay import Payer
from millpond._sessions import Session
from millpond.errors import NodeUnreachableError
from millpond.protocol.ids import Bytes32, address, bytes32
from millpond.protocol.messages import VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, address_of, recover
from millpond.protocol.vouchers import Meter

LEASE = bytes32(b"\x01" * 32)
ESCROW = Domain(31337, address("0x" + "55" * 20))
SESSION = Session(bytes32(b"\x02" * 32), b"\x03" * 32)


@dataclass
class View:
    ready_at: int
    worker_seen_at: int


@dataclass
class PayNode:
    """Keeps vouchers; `away` counts the calls that fail first."""

    ready_at: int = 1000
    seen_at: int = 2000
    away: int = 0
    vouchers: list[VoucherNote] = field(default_factory=list)

    async def post_voucher(self, voucher: VoucherNote) -> None:
        if self.away:
            self.away -= 1
            raise NodeUnreachableError("away")
        self.vouchers.append(voucher)

    async def lease(self, lease: Bytes32) -> View:
        return View(self.ready_at, self.seen_at)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    clock = [1000]
    monkeypatch.setattr("millpond._pay.time.time", lambda: clock[0])
    return clock


def payer(node: PayNode, tick: float = 0.01) -> Payer:
    return Payer(node, LEASE, SESSION, ESCROW, Meter(1000, 2000, 3), tick)  # type: ignore[arg-type]


async def run(made: Payer, seconds: float = 0.1) -> None:
    made.start()
    await asyncio.sleep(seconds)


async def test_start_pays_what_was_earned_with_the_sessions_signature(now: list[int]) -> None:
    node = PayNode()
    made = payer(node)
    now[0] = 1010
    await run(made)
    await made.stop()

    [voucher] = node.vouchers
    assert voucher.cumulative == 30
    assert recover(Voucher(LEASE, 30), ESCROW, voucher.signature) == address_of(SESSION.key)


async def test_stop_of_a_lease_that_served_nothing_signs_one_unit(now: list[int]) -> None:
    node = PayNode()

    assert await payer(node).stop() == 1
    assert [voucher.cumulative for voucher in node.vouchers] == [1]


async def test_pay_over_a_node_that_was_away_catches_up(now: list[int]) -> None:
    node = PayNode(away=2)
    made = payer(node)
    now[0] = 1020
    await run(made, 0.3)
    await made.stop()

    assert [voucher.cumulative for voucher in node.vouchers] == [60]


async def test_pay_after_a_later_ready_leaves_the_pause_out(now: list[int]) -> None:
    node = PayNode()
    made = payer(node)
    now[0] = 1010
    await run(made)
    node.ready_at, now[0] = 1500, 1515
    await asyncio.sleep(0.1)
    await made.stop()

    assert [voucher.cumulative for voucher in node.vouchers] == [30, 45]


async def test_pay_never_signs_less_than_before(now: list[int]) -> None:
    node = PayNode()
    made = payer(node)
    now[0] = 1100
    await run(made)
    now[0] = 1050
    await asyncio.sleep(0.05)

    assert await made.stop() == 300
    assert [voucher.cumulative for voucher in node.vouchers] == [300]


async def test_pay_of_a_silent_worker_ends_one_tick_after_its_last_sign_of_life(now: list[int]) -> None:
    node = PayNode(seen_at=1010)
    made = Payer(node, LEASE, SESSION, ESCROW, Meter(1000, 2000, 3), 10)  # type: ignore[arg-type]
    now[0] = 1500

    assert await made.stop() == 60
    assert [voucher.cumulative for voucher in node.vouchers] == [60]


async def test_pay_of_a_worker_that_came_back_leaves_its_silence_out(now: list[int]) -> None:
    node = PayNode(seen_at=1010)
    made = payer(node)
    now[0] = 1500
    await run(made)
    node.seen_at, node.ready_at = 1600, 1490  # READY moved by what was not served
    now[0] = 1600
    await asyncio.sleep(0.1)

    assert await made.stop() == 330
    assert [voucher.cumulative for voucher in node.vouchers] == [30, 330]
