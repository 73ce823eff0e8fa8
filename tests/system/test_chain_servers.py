"""Transactor, follower and money reads over three RPC servers of one Anvil, of which some lie, lag, drop or die (O04, O05, O06, O10)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from rpc_proxy import Faults, RpcProxy

from millpond.chain.agreement import agreed, agreed_call, agreed_header
from millpond.chain.calls import Call
from millpond.chain.cursor import Cursor
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import RpcDisagreementError, RpcQuorumError, RpcUnreachableError, WrongChainError
from millpond.chain.eth import Eth
from millpond.chain.follower import Follower
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox, TxState
from millpond.chain.rpc import Rpc
from millpond.chain.rpc_rules import RpcPolicy
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

pytestmark = pytest.mark.anvil

ALICE = development_wallet(0, 31337)
BOB = Address("0x1111111111111111111111111111111111111111")
FAST = TransactorConfig(poll_s=0.05, idle_poll_s=0.1, resend_after_s=0.2)
POLICY = RpcPolicy(rest_s=0.1, longest_rest_s=0.3, probe_s=0.2, probe_timeout_s=0.5, catch_up_s=0.5)


@pytest.fixture
async def proxies(chain: Devnet) -> AsyncIterator[list[RpcProxy]]:
    made = [await RpcProxy(chain.url).start() for _ in range(3)]
    yield made
    for proxy in made:
        await proxy.close()


@pytest.fixture
async def three(proxies: list[RpcProxy]) -> AsyncIterator[Eth]:
    rpc = Rpc([proxy.url for proxy in proxies], 2.0, chain_id=31337, policy=POLICY)
    yield Eth(rpc)
    await rpc.close()


async def mine(eth: Eth, blocks: int = 1) -> None:
    await eth.rpc.call("anvil_mine", hex(blocks))


async def test_O04_reads_go_on_when_the_server_in_use_dies(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    await mine(eth, 5)
    assert await three.block_number() == 5
    in_use = three.rpc._current
    await proxies[in_use].die()
    assert await three.block_number() == 5
    assert three.rpc._current != in_use


async def test_O04_no_server_left_raises_unreachable(three: Eth, proxies: list[RpcProxy]) -> None:
    for proxy in proxies:
        await proxy.die()
    with pytest.raises(RpcUnreachableError):
        await three.block_number()


async def test_O04_reads_never_go_back_to_a_server_that_lags(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    await mine(eth, 20)
    proxies[1].faults = proxies[2].faults = Faults(head=10)
    assert await three.block_number() == 20
    await proxies[0].die()
    proxies[2].faults = Faults()
    for _ in range(5):
        assert await three.block_number() == 20


async def test_O04_server_of_another_chain_is_left_out(
    start_chain: Callable[[DevnetConfig], Awaitable[Devnet]], proxies: list[RpcProxy], three: Eth
) -> None:
    other = await start_chain(DevnetConfig(port=0, block_time_s=0, chain_id=5))
    proxies[0].target = other.url
    assert await three.block_number() == 0
    assert "chain 5" in three.rpc.healths[0].reason
    rpc = Rpc([other.url, proxies[0].url], chain_id=31337)
    with pytest.raises(WrongChainError):
        await rpc.call("eth_blockNumber")
    await rpc.close()


async def test_O04_majority_outvotes_a_liar_and_rests_it(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    await mine(eth, 3)
    proxies[0].faults = Faults(lies=True)
    found = await agreed(three, lambda at: [("eth_getTransactionCount", (ALICE.address, hex(at.number)))])
    assert found.header == await eth.header(3)
    assert found.answers == ["0x0"]
    assert three.rpc.healths[0].failures > 0


async def test_O04_two_servers_that_disagree_raise_with_a_remedy(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    await mine(eth, 9)
    proxies[0].faults = Faults(lies=True)
    await proxies[1].die()
    with pytest.raises(RpcDisagreementError) as caught:
        await agreed_header(three)
    assert set(caught.value.fields["answers"]) == {proxies[0].url, proxies[2].url}
    assert "Nothing is signed" in caught.value.remedy


async def test_O04_false_result_of_the_same_block_raises(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    await mine(eth)
    header = await agreed_header(three)
    proxies[0].faults = Faults(lies=True)
    await proxies[1].die()
    with pytest.raises((RpcDisagreementError, RpcQuorumError)):
        await agreed_call(three, header, [("eth_call", ({"to": BOB, "data": "0x"}, hex(header.number)))])


async def test_O04_one_answer_of_three_is_no_majority(three: Eth, proxies: list[RpcProxy]) -> None:
    await proxies[0].die()
    await proxies[1].die()
    with pytest.raises(RpcQuorumError) as caught:
        await agreed_header(three)
    assert (caught.value.fields["answered"], caught.value.fields["needed"]) == (1, 2)


async def test_O06_transaction_that_two_servers_drop_reaches_the_chain(
    eth: Eth, three: Eth, proxies: list[RpcProxy]
) -> None:
    proxies[0].faults = proxies[1].faults = Faults(drops_sends=True)
    async with Transactor(three, ALICE, MemoryOutbox(), FAST) as transactor:
        await (await transactor.send("pay", BOB, b"", 7)).mined(5)
    assert await eth.balance(BOB) == 7


async def test_O04_server_that_never_answers_does_not_hold_a_send_up(
    eth: Eth, three: Eth, proxies: list[RpcProxy]
) -> None:
    await three.block_number()
    proxies[1].faults = Faults(delay_s=30)
    async with Transactor(three, ALICE, MemoryOutbox(), FAST) as transactor:
        async with asyncio.timeout(15):
            await transactor.send("pay", BOB, b"", 7, gas=21_000)
    assert await eth.balance(BOB) == 7


async def test_O10_receipts_hidden_by_one_server_of_three_are_found(three: Eth, proxies: list[RpcProxy]) -> None:
    proxies[0].faults = Faults(hides=True)
    async with Transactor(three, ALICE, MemoryOutbox(), FAST) as transactor:
        handle = await transactor.send("pay", BOB, b"", 7)
        assert (await handle.mined(5)).is_ok


async def test_O06_nonce_told_by_a_liar_is_not_used(eth: Eth, three: Eth, proxies: list[RpcProxy]) -> None:
    proxies[0].faults = Faults(lies=True)
    async with Transactor(three, ALICE, MemoryOutbox(), FAST) as transactor:
        handle = await transactor.send("pay", BOB, b"", 7, gas=21_000)
        assert handle.row.nonce == 0
        await handle.mined(5)


async def test_O04_O05_O06_one_lies_and_one_dies_and_everything_is_right_in_the_end(
    eth: Eth, three: Eth, proxies: list[RpcProxy]
) -> None:
    chance = random.Random(3)
    proxies[2].faults = Faults(error_rate=0.1, delay_s=0.005, chance=chance)
    proxies[1].faults = Faults(lies=True)
    follower = Follower(three, {}, Cursor(0))
    async with Transactor(three, ALICE, MemoryOutbox(), FAST) as transactor:
        for number in range(3):
            await (await transactor.send(f"before {number}", BOB, b"", 1, gas=21_000)).mined(10)
        await mine(eth, 9)
        await proxies[0].die()
        with pytest.raises((RpcDisagreementError, RpcUnreachableError)):
            await follower.poll()
        assert follower.cursor.blocks == ()
        held = await transactor.enqueue("held", _call())
        async with asyncio.timeout(15):
            while "" not in transactor.alarms:
                await asyncio.sleep(0.1)
        assert held.row.state is not TxState.FINAL
        assert isinstance(transactor.alarms[""], RpcDisagreementError | RpcUnreachableError)
        await proxies[0].start()
        await held.mined(15)
        await eth.rpc.call("anvil_reorg", 3, [])
        await mine(eth, 4)
        for row in transactor.rows():
            handle = transactor.handle(row.key)
            assert handle is not None
            await handle.mined(15)
        assert transactor.alarms == {}
    assert await eth.balance(BOB) == 4
    assert await eth.nonce(ALICE.address) == 4
    await _same_as_replay(follower, eth)


def _call() -> Call:
    return Call(BOB, b"", "ping", 1)


async def _same_as_replay(follower: Follower, eth: Eth) -> None:
    async with asyncio.timeout(10):
        while not follower.cursor.blocks or follower.cursor.blocks[-1].number < await eth.block_number():
            try:
                await follower.poll()
            except (RpcDisagreementError, RpcUnreachableError):
                await asyncio.sleep(0.1)
    for ref in follower.cursor.blocks[-4:]:
        header = await eth.header(ref.number)
        assert header is not None
        assert header.hash == ref.hash
