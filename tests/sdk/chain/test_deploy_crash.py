"""A deployment killed at every point where something becomes durable or leaves the process, on a simulated chain."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from deploy_chain import CHAIN_ID, DEPLOYER, GOAL, Killed, Knife, KnifedJournal, KnifedOutbox, SimChain, SimRpc

from millpond.chain import transactor as transactor_module
from millpond.chain.address_book import AddressBook
from millpond.chain.deploy import proxy
from millpond.chain.deploy.execute import ApplyOptions, Deployer
from millpond.chain.deploy.journal import MemoryDeployJournal, progress
from millpond.chain.deploy.look import genesis_of
from millpond.chain.eth import Eth
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.transactor import Transactor, TransactorConfig

FAST = TransactorConfig(finality=2, poll_s=0.0005, idle_poll_s=0.001, resend_after_s=0.001)
SEEDS = 20


@pytest.fixture(autouse=True)
def notice_death_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactor_module, "_LOOK_AGAIN_S", 0.01)


class Machine:
    """What survives a kill: the disk, and the chain."""

    def __init__(self, folder: Path, has_proxy: bool = False) -> None:
        self.chain = SimChain(has_proxy)
        self.journal = MemoryDeployJournal()
        self.outbox = MemoryOutbox()
        self.book = folder / "addresses.json"
        self.book.unlink(missing_ok=True)

    async def apply(self, knife: Knife) -> AddressBook:
        journal, outbox = KnifedJournal(self.journal, knife), KnifedOutbox(self.outbox, knife)
        known = AddressBook.load(self.book, CHAIN_ID) if self.book.exists() else None
        async with Transactor(Eth(SimRpc(self.chain, knife)), DEPLOYER, outbox, FAST) as transactor:
            deployer = Deployer(transactor, journal, ApplyOptions(5, is_final_awaited=True))
            return await deployer.apply(GOAL, known, self.book)

    async def killed_at(self, point: int, *, forgets_pool: bool = False) -> None:
        with contextlib.suppress(Killed):
            await self.apply(Knife(point))
        if forgets_pool:
            self.chain.pool.clear()

    async def check(self) -> None:
        """Every contract once, at its address; nothing paid twice, nothing reverted."""
        chain, addresses = self.chain, GOAL.addresses()
        paid = {} if chain.has_proxy else {f"pay {proxy.SIGNER}": 1}
        assert chain.effects == {**paid, **{f"deploy {where}": 1 for where in addresses.values()}}
        assert chain.reverted == []
        assert chain.presigned == (not chain.has_proxy)
        assert chain.listed == {addresses["MockToken"]: 1}
        assert AddressBook.load(self.book, CHAIN_ID).contracts == addresses
        assert progress(self.journal.records(), await genesis_of(Eth(SimRpc(chain)))).is_finished


async def points_of(folder: Path) -> int:
    knife, machine = Knife(), Machine(folder)
    await machine.apply(knife)
    await machine.check()
    return knife.count


@pytest.mark.parametrize("forgets_pool", [False, True])
async def test_O10_deployment_killed_at_every_point_and_resumed_is_one_deployment(
    tmp_path: Path, forgets_pool: bool
) -> None:
    points = await points_of(tmp_path)
    assert points > 100
    for point in range(1, points + 1, 3 if forgets_pool else 1):
        machine = Machine(tmp_path)
        await machine.killed_at(point, forgets_pool=forgets_pool)
        await machine.apply(Knife())
        await machine.check()


async def test_O10_deployment_killed_again_and_again_is_one_deployment(tmp_path: Path) -> None:
    points = await points_of(tmp_path)
    for seed in range(SEEDS):
        chance, machine = random.Random(seed), Machine(tmp_path)
        for _ in range(chance.randint(2, 5)):
            await machine.killed_at(chance.randint(1, points), forgets_pool=chance.random() < 0.5)
        await machine.apply(Knife())
        await machine.check()


async def test_deployment_with_a_lost_disk_takes_over_what_the_chain_has(tmp_path: Path) -> None:
    points = await points_of(tmp_path)
    for point in range(1, points, 7):
        machine = Machine(tmp_path)
        await machine.killed_at(point)
        machine.chain.mine()
        machine.journal, machine.outbox = MemoryDeployJournal(), MemoryOutbox()
        machine.book.unlink(missing_ok=True)
        await machine.apply(Knife())
        await machine.check()


async def test_repeated_deployment_sends_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, has_proxy=True)
    first = await machine.apply(Knife())
    sent = machine.chain.nonces[DEPLOYER.address]
    assert await machine.apply(Knife()) == first
    assert machine.chain.nonces[DEPLOYER.address] == sent
    await machine.check()
