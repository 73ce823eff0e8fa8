"""The follower on a real Anvil: reorganisations of any depth and crashes equal a replay from scratch (O05)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain import artefacts, deployment
from millpond.chain.address_book import DeploymentSettings
from millpond.chain.bindings import MockToken
from millpond.chain.cursor import Cursor
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.eth import Eth
from millpond.chain.follower import EventBatch, Final, Follower, FollowerConfig, Seen, Undone
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

pytestmark = pytest.mark.anvil

ALICE = development_wallet(0, 31337)
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.1, resend_after_s=0.1)


class Ledger:
    """Balances rebuilt from Transfer events alone, undone as told."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.live: list[str] = []
        self.final: set[str] = set()

    def apply(self, batch: EventBatch) -> None:
        for notice in batch.notices:
            event = notice.event
            if isinstance(notice, Final):
                self.final.add(event.id)
                continue
            sign = 1 if isinstance(notice, Seen) else -1
            if isinstance(notice, Undone):
                assert self.live.pop() == event.id
                self.final.discard(event.id)
            else:
                self.live.append(event.id)
            if event.name == "Transfer":
                args = event.args
                self.balances[args["to"]] = self.balances.get(args["to"], 0) + sign * args["value"]


async def deploy_token(transactor: Transactor) -> Address:
    return await deployment.deploy_test_token(transactor, DeploymentSettings(transactor.address))


async def catch_up(follower: Follower, ledger: Ledger) -> None:
    idle = 0
    while idle < 2:
        batch = await follower.poll()
        idle = 0 if batch is not None else idle + 1
        if batch is not None:
            ledger.apply(batch)


async def replay(eth: Eth, token: Address) -> Ledger:
    ledger = Ledger()
    await catch_up(Follower(eth, {token: artefacts.load("MockToken").abi}, Cursor(0)), ledger)
    return ledger


async def check_against_replay_and_getters(eth: Eth, token: Address, ledger: Ledger) -> None:
    fresh = await replay(eth, token)
    assert ledger.live == fresh.live
    assert ledger.final >= fresh.final
    for owner, balance in ledger.balances.items():
        assert await MockToken(eth, token).balance_of(Address(owner)) == balance


@pytest.mark.parametrize("seed", [1, 2])
async def test_O05_C44_random_reorganisations_of_depth_1_to_64_equal_a_replay(eth: Eth, seed: int) -> None:
    chance = random.Random(seed)
    async with Transactor(eth, ALICE, MemoryOutbox(), FAST) as transactor:
        token = await deploy_token(transactor)
        await eth.rpc.call("anvil_mine", hex(70))
        binding, ledger = MockToken(eth, token), Ledger()
        follower = Follower(eth, {token: artefacts.load("MockToken").abi}, Cursor(0), FollowerConfig(range_blocks=40))
        for turn in range(12):
            for i in range(chance.randrange(4)):
                owner = Address(f"0x{chance.randrange(1, 9):040x}")
                handle = await transactor.send_call(f"mint {turn} {i}", binding.mint(owner, chance.randrange(1, 99)))
                await handle.mined(10)
            await eth.rpc.call("anvil_mine", hex(chance.randrange(1, 9)))
            await catch_up(follower, ledger)
            await eth.rpc.call("anvil_reorg", chance.choice([1, 2, 5, 17, 40, 64]), [])
            if chance.random() < 0.5:
                await catch_up(follower, ledger)
        for row in transactor.rows():
            handle = transactor.handle(row.key)  # type: ignore[assignment]
            await handle.mined(10)
        await eth.rpc.call("anvil_mine", "0x3")
        await catch_up(follower, ledger)
        assert ledger.live
        await check_against_replay_and_getters(eth, token, ledger)


async def test_O05_anvil_killed_and_restarted_equals_a_replay(
    start_chain: Callable[[DevnetConfig], Awaitable[Devnet]], open_eth: Callable[[Devnet], Eth], tmp_path: Path
) -> None:
    first = await start_chain(DevnetConfig(port=0, block_time_s=1, state=tmp_path / "state.json"))
    eth = open_eth(first)
    async with Transactor(eth, ALICE, MemoryOutbox(), FAST) as transactor:
        token = await deploy_token(transactor)
        ledger = Ledger()
        follower = Follower(eth, {token: artefacts.load("MockToken").abi}, Cursor(0))
        for i in range(3):
            handle = await transactor.send_call(f"mint {i}", MockToken(eth, token).mint(ALICE.address, 5))
            await handle.mined(10)
            await catch_up(follower, ledger)
        await first.kill()
        await start_chain(DevnetConfig(port=first.port, block_time_s=1, state=tmp_path / "state.json"))
        await transactor.handle("mint 2").final(20)  # type: ignore[union-attr]
        await catch_up(follower, ledger)
        assert ledger.balances[ALICE.address] == 15
        await check_against_replay_and_getters(eth, token, ledger)


async def test_run_yields_batches_as_blocks_come(eth: Eth) -> None:
    async with Transactor(eth, ALICE, MemoryOutbox(), FAST) as transactor:
        token = await deploy_token(transactor)
        follower = Follower(eth, {token: artefacts.load("MockToken").abi}, Cursor(0), FollowerConfig(poll_s=0.02))
        mint = asyncio.create_task(transactor.send_call("mint", MockToken(eth, token).mint(ALICE.address, 5)))
        async with asyncio.timeout(5):
            async for batch in follower.run():
                if any(notice.event.name == "Transfer" for notice in batch.notices):
                    break
        await mint
    assert batch.head >= 2
    assert batch.time > 1_600_000_000
