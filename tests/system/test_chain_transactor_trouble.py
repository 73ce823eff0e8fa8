"""The transactor on a real Anvil in trouble: another sender with its key, gas spikes, deletion of old rows (O06, O07, O09)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain import artefacts
from millpond.chain.abi import ContractAbi
from millpond.chain.calls import Call
from millpond.chain.cursor import Cursor
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import ChainRollbackError, FeeCapError, IntentConflictError
from millpond.chain.eth import Eth
from millpond.chain.fees import GWEI, FeePolicy
from millpond.chain.follower import Follower, FollowerConfig
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox, OutboxStore, SqliteOutbox, TxState
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactions import Transaction, create2_address
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

pytestmark = pytest.mark.anvil

ALICE = development_wallet(0, 31337)
BOB = Address("0x1111111111111111111111111111111111111111")
DEPLOYER = Address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.05, resend_after_s=0.1)
Open = Callable[..., Awaitable[Transactor]]


@pytest.fixture
async def open_transactor(eth: Eth) -> AsyncIterator[Open]:
    opened: list[Transactor] = []

    async def make(store: OutboxStore | None = None, config: TransactorConfig = FAST) -> Transactor:
        made = Transactor(eth, ALICE, store or MemoryOutbox(), config)
        opened.append(made)
        await made.start()
        return made

    yield make
    for transactor in opened:
        await transactor.stop()


async def mine(eth: Eth, blocks: int = 1) -> None:
    await eth.rpc.call("anvil_mine", hex(blocks))


async def until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


async def set_base_fee(eth: Eth, gwei: int) -> None:
    await eth.rpc.call("anvil_setNextBlockBaseFeePerGas", hex(gwei * GWEI))
    await mine(eth)


async def test_O06_pending_transaction_of_another_program_with_the_key_is_stepped_over(
    eth: Eth, open_transactor: Open
) -> None:
    transactor = await open_transactor()
    await eth.rpc.call("evm_setAutomine", False)
    await eth.send_raw(Transaction(31337, 0, GWEI, 10 * GWEI, 21_000, BOB, 1000, b"").sign(ALICE.key))
    handle = await transactor.send("pay", BOB, b"", 7)
    assert handle.row.nonce == 1
    await eth.rpc.call("evm_setAutomine", True)
    await mine(eth)
    await handle.mined(5)
    assert await eth.balance(BOB) == 1007


async def test_O06_O07_nonce_fought_over_by_another_program_pays_both_once(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor(config=TransactorConfig(poll_s=0.02, resend_after_s=0.1, bump_after_s=30.0))
    await eth.rpc.call("evm_setAutomine", False)
    handle = await transactor.send("pay", BOB, b"", 7)
    await eth.send_raw(Transaction(31337, 0, 90 * GWEI, 400 * GWEI, 21_000, BOB, 1000, b"").sign(ALICE.key))
    await until(lambda: "pay" in transactor.alarms or len(handle.row.hashes) > 1)
    await eth.rpc.call("evm_setAutomine", True)
    await mine(eth, 4)
    async with asyncio.timeout(8):
        while handle.row.state is not TxState.FINAL:
            await mine(eth)
            await asyncio.sleep(0.1)
    assert await eth.balance(BOB) in {7, 1007}
    assert await eth.balance(BOB) == 7 + 1000 * (await eth.nonce(ALICE.address) - 1)


async def test_queued_call_that_reverts_until_an_earlier_transaction_is_mined_is_sent_then(
    eth: Eth, open_transactor: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactor = await open_transactor()
    real, failures = eth.estimate_gas, [ContractRevertError("not yet")] * 3

    async def estimate_gas(sender: Address, to: Address, data: bytes, value: int = 0, context: str = "") -> int:
        if to == BOB and failures:
            raise failures.pop()
        return await real(sender, to, data, value, context)

    await eth.rpc.call("evm_setAutomine", False)
    await transactor.send("approve", DEPLOYER, bytes(32) + b"\0", gas=200_000)
    monkeypatch.setattr(eth, "estimate_gas", estimate_gas)
    queued = await transactor.enqueue("deposit", Call(BOB, b"", "deposit", 5))
    await until(lambda: queued.row.state is TxState.BROADCAST)
    await eth.rpc.call("evm_setAutomine", True)
    await mine(eth)
    await queued.mined(5)
    assert await eth.balance(BOB) == 5


async def test_O07_gas_spike_holds_what_can_wait_and_lets_a_deadline_pass(eth: Eth, open_transactor: Open) -> None:
    config = TransactorConfig(poll_s=0.02, resend_after_s=0.1, fees=FeePolicy(cap=10 * GWEI, urgent_cap=500 * GWEI))
    transactor = await open_transactor(config=config)
    await set_base_fee(eth, 100)
    header = await eth.header()
    assert header is not None
    queued = await transactor.enqueue("can wait", Call(BOB, b"", "post", 1))
    collect = await transactor.enqueue("collect", Call(BOB, b"", "collect", 2), urgent_from=header.timestamp + 1000)
    await until(lambda: len(transactor.alarms) == 2)
    assert isinstance(transactor.alarms["collect"], FeeCapError)
    await eth.rpc.call("evm_increaseTime", 1000)
    await set_base_fee(eth, 100)
    await collect.mined(5)
    assert queued.row.state is TxState.INTENT
    assert "cap" in str(transactor.alarms["can wait"])
    await set_base_fee(eth, 1)
    await queued.mined(5)
    assert transactor.alarms == {}


async def test_O09_rows_final_for_long_are_deleted_and_their_keys_send_nothing_again(
    eth: Eth, open_transactor: Open, tmp_path: Path
) -> None:
    config = TransactorConfig(poll_s=0.02, idle_poll_s=0.05, purge_after_blocks=20)
    store = SqliteOutbox(tmp_path / "outbox.db")
    transactor = await open_transactor(store, config)
    first = await (await transactor.send("old", BOB, b"", 7)).mined()
    await (await transactor.send("new", BOB, b"", 1)).mined()
    await mine(eth, 25)
    await until(lambda: [row.key for row in transactor.rows()] == ["new"])
    assert (transactor.count, transactor.handle("old")) == (2, None)
    await transactor.stop()
    again = await open_transactor(store, config)
    assert await (await again.send("old", BOB, b"", 7)).final(5) == first
    with pytest.raises(IntentConflictError):
        await again.enqueue("old", Call(BOB, b"", "", 8))
    assert await eth.balance(BOB) == 8
    await again.stop()
    store.close()


@pytest.mark.parametrize(("depth", "halts"), [(3, False), (6, True)])
async def test_O05_live_chain_replaced_deeper_than_finality_halts(
    start_chain: Callable[[DevnetConfig], Awaitable[Devnet]], depth: int, halts: bool
) -> None:
    live = await start_chain(DevnetConfig(port=0, block_time_s=0, chain_id=5))
    async with Rpc(live.url, chain_id=5) as rpc:
        eth = Eth(rpc)
        await mine(eth, 10)
        contracts: dict[Address, ContractAbi] = {
            create2_address(DEPLOYER, bytes(32), b""): artefacts.load("Controller").abi
        }
        follower = Follower(eth, contracts, Cursor(0), FollowerConfig(finality=4))
        await follower.poll()
        await rpc.call("anvil_reorg", depth, [])
        await mine(eth, 2)
        if halts:
            with pytest.raises(ChainRollbackError):
                await follower.poll()
        else:
            await follower.poll()
            assert follower.cursor.blocks[-1].number == 12
