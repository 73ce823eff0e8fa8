"""Puts contracts, a token, a pool and money on a development chain. Repeating it changes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from millpond.chain.address_book import AddressBook, DeploymentSettings
from millpond.chain.bindings import MockToken
from millpond.chain.deploy.execute import ApplyOptions, Deployer
from millpond.chain.deploy.journal import FileDeployJournal
from millpond.chain.deploy.planner import Goal
from millpond.chain.deployment import create_pool, default_pool_params
from millpond.chain.eth import Eth
from millpond.chain.outbox import SqliteOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.dev.accounts import Account, provider_accounts, wallet
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address, bytes32
from millpond.settings import DEV_CHAIN_ID

POOL_LABEL = bytes32(keccak256(b"dev pool"))
TOKENS_EACH = 1_000_000
ADDRESS_BOOK = "addresses.json"
JOURNAL = "deploy-journal.jsonl"


@dataclass(frozen=True, slots=True)
class Pool:
    """What the daemons need to know of the pool. `book` is the address book's file."""

    controller: Address
    token: Address
    book: Path


async def bootstrap(rpc_url: str, home: Path, workers: int) -> Pool:
    """Deploys what is missing, as account 0; mints to renter and providers what they do not hold yet."""
    async with Rpc(rpc_url, chain_id=DEV_CHAIN_ID) as rpc:
        outbox = SqliteOutbox(home / "operator-outbox.db")
        try:
            async with Transactor(Eth(rpc), wallet(Account.OPERATOR), outbox) as transactor:
                return await _bootstrap(transactor, home, workers)
        finally:
            outbox.close()


async def _bootstrap(transactor: Transactor, home: Path, workers: int) -> Pool:
    book = await _deploy(transactor, home)
    token = book.address("MockToken")
    params = default_pool_params(token, wallet(Account.SLASHER).address, wallet(Account.TREASURY).address)
    controller = await create_pool(transactor, book, POOL_LABEL, wallet(Account.NODE).address, params)
    holders = [Account.RENTER, *(provider_accounts(number)[0] for number in range(workers))]
    await _mint(transactor, book, [wallet(index).address for index in holders])
    return Pool(controller, token, home / ADDRESS_BOOK)


async def _deploy(transactor: Transactor, home: Path) -> AddressBook:
    """As `millpond deploy apply --test-token --replace` does: a chain that kept its state may hold an earlier release's contracts."""
    goal = Goal(DeploymentSettings(owner=transactor.address), has_test_token=True)
    with FileDeployJournal(home / JOURNAL) as journal:
        deployer = Deployer(transactor, journal, ApplyOptions(is_replacing=True))
        return await deployer.apply(goal, path=home / ADDRESS_BOOK)


async def _mint(transactor: Transactor, book: AddressBook, holders: list[Address]) -> None:
    """Whoever holds none gets some: a chain that kept its state has done this before."""
    token = MockToken(transactor.eth, book.address("MockToken"))
    amount = TOKENS_EACH * 10 ** await token.decimals()
    poor = [holder for holder in holders if not await token.balance_of(holder)]
    handles = [
        await transactor.send_call(f"mint:{holder}:{time.time_ns()}", token.mint(holder, amount)) for holder in poor
    ]
    for handle in handles:
        await handle.mined()
