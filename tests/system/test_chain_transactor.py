"""The transactor against a real Anvil that drops, reorganises, crashes and runs out of money (O05-O10)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain.calls import Call
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import (
    DevelopmentKeyError,
    FeeCapError,
    IntentConflictError,
    OutOfFundsError,
    RpcUnreachableError,
    TransactionTimeoutError,
)
from millpond.chain.eth import Eth
from millpond.chain.fees import GWEI, FeePolicy
from millpond.chain.keys import Wallet, development_wallet, new_wallet
from millpond.chain.outbox import MemoryOutbox, OutboxRow, OutboxStore, SqliteOutbox, TxState
from millpond.chain.reverts import ContractRevertError
from millpond.chain.transactions import Transaction
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

pytestmark = pytest.mark.anvil

ALICE = development_wallet(0, 31337)
RICH = development_wallet(9, 31337)
BOB = Address("0x1111111111111111111111111111111111111111")
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.1, resend_after_s=0.1)
Open = Callable[..., Awaitable[Transactor]]


@pytest.fixture
async def open_transactor(eth: Eth) -> AsyncIterator[Open]:
    opened: list[Transactor] = []

    async def make(
        wallet: Wallet = ALICE, store: OutboxStore | None = None, config: TransactorConfig = FAST, on: Eth = eth
    ) -> Transactor:
        made = Transactor(on, wallet, store or MemoryOutbox(), config)
        opened.append(made)
        await made.start()
        return made

    yield make
    for transactor in opened:
        await transactor.stop()


async def mine(eth: Eth, blocks: int = 1) -> None:
    await eth.rpc.call("anvil_mine", hex(blocks))


async def hold_mining(eth: Eth) -> None:
    await eth.rpc.call("evm_setAutomine", False)


async def resume_mining(eth: Eth) -> None:
    await eth.rpc.call("evm_setAutomine", True)
    await mine(eth)


async def until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


async def test_send_mined_final_tells_block_and_gas(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor()
    handle = await transactor.send("pay", BOB, b"", 7)
    receipt = await handle.mined()
    assert (receipt.is_ok, receipt.gas_used, receipt.block_number) == (True, 21_000, 1)
    assert handle.row.state is TxState.MINED
    await mine(eth, 2)
    assert await handle.final(5) == receipt
    assert await eth.balance(BOB) == 7


async def test_O09_same_key_twice_is_one_transaction(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor()
    handles = await asyncio.gather(*(transactor.send("pay", BOB, b"", 7) for _ in range(5)))
    await asyncio.gather(*(handle.mined() for handle in handles))
    await mine(eth, 3)
    assert len({handle.hash for handle in handles}) == 1
    assert await eth.balance(BOB) == 7


async def test_O09_same_key_after_a_restart_is_still_one_transaction(
    eth: Eth, open_transactor: Open, tmp_path: Path
) -> None:
    first = await open_transactor(store=SqliteOutbox(tmp_path / "a.db"))
    sent = await first.send("pay", BOB, b"", 7)
    await sent.mined()
    await first.stop()
    second = await open_transactor(store=SqliteOutbox(tmp_path / "a.db"))
    again = await second.send("pay", BOB, b"", 7)
    await again.mined()
    assert again.hash == sent.hash
    assert await eth.balance(BOB) == 7


async def test_O09_same_key_for_another_transaction_raises(open_transactor: Open) -> None:
    transactor = await open_transactor()
    await transactor.send("pay", BOB, b"", 7)
    with pytest.raises(IntentConflictError):
        await transactor.send("pay", BOB, b"", 8)


async def test_many_sends_get_consecutive_nonces(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor()
    handles = await asyncio.gather(*(transactor.send(f"pay {i}", BOB, b"", 1) for i in range(20)))
    await asyncio.gather(*(handle.mined() for handle in handles))
    assert sorted(handle.row.nonce or 0 for handle in handles) == list(range(20))
    assert await eth.balance(BOB) == 20


async def test_send_that_would_revert_raises_and_stores_nothing(open_transactor: Open) -> None:
    transactor = await open_transactor()
    deployer = Address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
    with pytest.raises(ContractRevertError):
        await transactor.send("bad", deployer, bytes(32) + b"\xfe")
    assert transactor.rows() == []


async def test_transaction_that_reverts_on_chain_raises_from_mined(open_transactor: Open) -> None:
    transactor = await open_transactor()
    deployer = Address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
    handle = await transactor.send("bad", deployer, bytes(32) + b"\xfe", gas=100_000)
    with pytest.raises(ContractRevertError) as caught:
        await handle.mined()
    assert caught.value.fields["tx_hash"] == handle.hash


async def test_O06_dropped_transaction_is_sent_again(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor()
    await hold_mining(eth)
    handle = await transactor.send("pay", BOB, b"", 7)
    assert await eth.rpc.call("anvil_dropTransaction", handle.hash) == handle.hash
    await until(lambda: transactor._sent_at["pay"])
    await asyncio.sleep(0.3)
    await resume_mining(eth)
    await handle.mined(5)
    assert await eth.balance(BOB) == 7


class CrashingOutbox(MemoryOutbox):
    """Raises once, right after the signed row is stored: the process ends between sign and broadcast."""

    crashes = True

    async def put(self, row: OutboxRow) -> None:
        await super().put(row)
        if self.crashes and row.state is TxState.SIGNED:
            self.crashes = False
            raise KeyboardInterrupt


async def test_O06_restart_between_sign_and_broadcast_sends_it(eth: Eth, open_transactor: Open) -> None:
    store = CrashingOutbox()
    first = await open_transactor(store=store)
    with contextlib.suppress(KeyboardInterrupt):
        await first.send("pay", BOB, b"", 7)
    await first.stop()
    assert await eth.nonce(ALICE.address) == 0
    second = await open_transactor(store=store)
    handle = second.handle("pay")
    assert handle is not None
    await handle.mined(5)
    assert await eth.balance(BOB) == 7


async def test_O10_restart_after_it_was_mined_finds_it(eth: Eth, open_transactor: Open) -> None:
    store = CrashingOutbox()
    first = await open_transactor(store=store)
    with contextlib.suppress(KeyboardInterrupt):
        await first.send("pay", BOB, b"", 7)
    await first.stop()
    [row] = await store.rows(first._lane)
    await eth.send_raw(row.raw)
    second = await open_transactor(store=store)
    assert second.row("pay").state is TxState.MINED
    assert await eth.nonce(ALICE.address) == 1


async def test_O06_nonce_gap_after_a_restart_is_filled(eth: Eth, open_transactor: Open) -> None:
    store = MemoryOutbox()
    first = await open_transactor(store=store)
    await hold_mining(eth)
    lost = await first.send("lost", BOB, b"", 1)
    kept = await first.send("kept", BOB, b"", 2)
    await first.stop()
    await eth.rpc.call("anvil_dropTransaction", lost.hash)
    await eth.rpc.call("anvil_dropTransaction", kept.hash)
    await store.remove(first._lane, "lost")
    second = await open_transactor(store=store)
    await resume_mining(eth)
    handle = second.handle("kept")
    assert handle is not None
    await handle.mined(5)
    assert await eth.nonce(ALICE.address) == 2
    assert await eth.balance(BOB) == 2


async def test_O06_nonce_taken_by_another_program_gets_a_new_one(eth: Eth, open_transactor: Open) -> None:
    store = CrashingOutbox()
    first = await open_transactor(store=store)
    with contextlib.suppress(KeyboardInterrupt):
        await first.send("pay", BOB, b"", 7)
    await first.stop()
    foreign = Transaction(31337, 0, GWEI, 10 * GWEI, 21_000, BOB, 1000, b"").sign(ALICE.key)
    await eth.send_raw(foreign)
    second = await open_transactor(store=store)
    await mine(eth, 3)
    handle = second.handle("pay")
    assert handle is not None
    await handle.mined(5)
    assert handle.row.nonce == 1
    assert await eth.balance(BOB) == 1007


async def test_O07_stuck_transaction_is_replaced_by_a_higher_offer(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor(config=TransactorConfig(poll_s=0.02, resend_after_s=0.1, bump_after_s=0.2))
    await hold_mining(eth)
    handle = await transactor.send("pay", BOB, b"", 7)
    before = handle.row.fees
    assert before is not None
    await until(lambda: len(handle.row.hashes) >= 3)
    after = handle.row.fees
    assert after is not None
    assert after.max_fee * 64 >= before.max_fee * 81
    await resume_mining(eth)
    await handle.mined(5)
    assert await eth.balance(BOB) == 7
    assert await eth.nonce(ALICE.address) == 1


async def test_O07_base_fee_above_the_cap_refuses_send_and_holds_the_queue(eth: Eth, open_transactor: Open) -> None:
    config = TransactorConfig(poll_s=0.02, resend_after_s=0.1, fees=FeePolicy(cap=10 * GWEI))
    transactor = await open_transactor(config=config)
    await eth.rpc.call("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
    await mine(eth)
    with pytest.raises(FeeCapError):
        await transactor.send("pay", BOB, b"", 7)
    queued = await transactor.enqueue("later", Call(BOB, b"", "pay", 5))
    await until(lambda: isinstance(transactor.alarms.get("later"), FeeCapError))
    await eth.rpc.call("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    await mine(eth)
    await queued.mined(5)
    assert transactor.alarms == {}


async def test_O08_without_funds_send_raises_and_queue_resumes_alone_after_a_top_up(
    eth: Eth, open_transactor: Open
) -> None:
    poor = new_wallet()
    transactor = await open_transactor(wallet=poor)
    with pytest.raises(OutOfFundsError) as caught:
        await transactor.send("pay", BOB, b"", 0)
    assert caught.value.fields["balance"] == 0
    queued = await transactor.enqueue("later", Call(BOB, b"", "ping"))
    await until(lambda: "later" in transactor.alarms)
    assert isinstance(transactor.alarms["later"], OutOfFundsError)
    rich = await open_transactor(wallet=RICH)
    await rich.send("top up", poor.address, b"", 10**18)
    await queued.mined(5)
    assert transactor.alarms == {}


async def test_enqueued_call_that_reverts_is_refused_with_its_error(open_transactor: Open) -> None:
    transactor = await open_transactor()
    deployer = Address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
    handle = await transactor.enqueue("bad", Call(deployer, bytes(32) + b"\xfe", "deploy"))
    with pytest.raises(ContractRevertError, match="deploy"):
        await handle.mined(5)
    assert handle.row.state is TxState.REFUSED


async def test_mined_in_vain_times_out_and_keeps_the_transaction(eth: Eth, open_transactor: Open) -> None:
    transactor = await open_transactor()
    await hold_mining(eth)
    handle = await transactor.send("pay", BOB, b"", 7)
    with pytest.raises(TransactionTimeoutError) as caught:
        await handle.mined(0.2)
    assert caught.value.fields["hashes"] == [handle.hash]
    await resume_mining(eth)
    await handle.mined(5)


@pytest.mark.parametrize(("blocks_after", "depth", "kept"), [(0, 1, 2), (0, 3, 0), (17, 19, 1), (61, 64, 0)])
async def test_O05_transactions_undone_by_a_reorganisation_are_sent_again(
    eth: Eth, open_transactor: Open, blocks_after: int, depth: int, kept: int
) -> None:
    transactor = await open_transactor()
    handles = []
    for i in range(3):
        handles.append(await transactor.send(f"pay {i}", BOB, b"", 1))
        await handles[-1].mined()
    if blocks_after:
        await mine(eth, blocks_after)
        await handles[-1].final(5)
    await hold_mining(eth)
    await eth.rpc.call("anvil_reorg", depth, [])
    assert await eth.nonce(ALICE.address) == kept
    await until(lambda: sum(handle.row.state is TxState.BROADCAST for handle in handles) == 3 - kept)
    await resume_mining(eth)
    for handle in handles:
        await handle.mined(8)
    assert await eth.nonce(ALICE.address) == 3
    assert await eth.balance(BOB) == 3


async def test_O05_chain_killed_and_restarted_without_its_last_blocks_gets_them_again(
    start_chain: Callable[[DevnetConfig], Awaitable[Devnet]], open_eth: Callable[[Devnet], Eth], tmp_path: Path
) -> None:
    config = DevnetConfig(port=0, block_time_s=1, state=tmp_path / "state.json")
    first = await start_chain(config)
    eth = open_eth(first)
    config = DevnetConfig(port=first.port, block_time_s=1, state=tmp_path / "state.json")
    transactor = Transactor(eth, ALICE, SqliteOutbox(tmp_path / "outbox.db"), FAST)
    await transactor.start()
    await (await transactor.send("first", BOB, b"", 1)).mined()
    await asyncio.sleep(1.5)
    await (await transactor.send("second", BOB, b"", 2)).mined()
    await first.kill()
    second = await start_chain(config)
    try:
        for key in ("first", "second"):
            handle = transactor.handle(key)
            assert handle is not None
            await handle.final(15)
        assert await open_eth(second).balance(BOB) == 3
    finally:
        await transactor.stop()


async def test_O04_rpc_gone_raises_from_send_and_holds_the_queue(chain: Devnet, open_transactor: Open) -> None:
    transactor = await open_transactor()
    await chain.kill()
    with pytest.raises(RpcUnreachableError):
        await transactor.send("pay", BOB, b"", 7)
    assert transactor.rows() == []
    handle = await transactor.enqueue("later", Call(BOB, b"", "ping"))
    with pytest.raises(TransactionTimeoutError, match="cannot be reached"):
        await handle.mined(0.5)
    assert handle.row.state is TxState.INTENT


async def test_development_key_on_another_chain_is_refused(
    start_chain: Callable[[DevnetConfig], Awaitable[Devnet]],
) -> None:
    from millpond.chain.rpc import Rpc

    other = await start_chain(DevnetConfig(port=0, block_time_s=0, chain_id=5))
    async with Rpc(other.url) as rpc:
        with pytest.raises(DevelopmentKeyError):
            await Transactor(Eth(rpc), ALICE, MemoryOutbox()).start()


PAYER = """
import asyncio, sys
from pathlib import Path
from millpond.chain import *
from millpond.chain.transactor import TransactorConfig

async def main():
    async with Rpc(sys.argv[1], chain_id=31337) as rpc:
        store = SqliteOutbox(Path(sys.argv[2]))
        config = TransactorConfig(poll_s=0.02, resend_after_s=0.2)
        async with Transactor(Eth(rpc), development_wallet(0, 31337), store, config) as transactor:
            for number in range(25):
                await transactor.send(f"pay {number}", "0x1111111111111111111111111111111111111111", b"", 1, gas=21_000)
                print(number, flush=True)
            for row in transactor.rows():
                await transactor.handle(row.key).mined(20)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_O06_O09_process_killed_at_random_pays_everything_once(chain: Devnet, eth: Eth, tmp_path: Path) -> None:
    chance = random.Random(7)
    kills = 0
    for attempt in range(10):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PAYER, chain.url, str(tmp_path / "outbox.db"), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()
        if attempt < 3:
            await asyncio.sleep(chance.random() * 0.25)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.stdout.read()
        if await process.wait() == 0:
            break
        kills += 1
    assert process.returncode == 0
    assert kills >= 2
    assert await eth.balance(BOB) == 25
    assert await eth.nonce(ALICE.address) == 25
