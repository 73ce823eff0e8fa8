"""Deploys the core contracts and makes pools, in one call each: what programs and tests use. Commands keep a journal beside it.

Same release, same settings, same addresses on every chain; each call can be repeated, and resumed after any crash.
"""

from __future__ import annotations

from millpond.chain.address_book import AddressBook, DeploymentSettings
from millpond.chain.bindings import Attestations, Controller, Devices, Escrow, PoolFactory, Staking, Tokens
from millpond.chain.bindings.structs import PoolParams
from millpond.chain.deploy import planner
from millpond.chain.deploy.execute import ApplyOptions, Deployer
from millpond.chain.deploy.look import look
from millpond.chain.deploy.planner import TEST_TOKEN, Goal, Step
from millpond.chain.errors import DevelopmentKeyError
from millpond.chain.eth import Eth
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.transactor import Transactor
from millpond.protocol.ids import Address, Bytes32

DAY_S = 86_400
_AFRESH = ApplyOptions(is_replacing=True)


class CoreContracts:
    """Typed bindings of one deployment."""

    def __init__(self, eth: Eth, book: AddressBook) -> None:
        self.eth = eth
        self.book = book
        self.tokens = Tokens(eth, book.address("Tokens"))
        self.escrow = Escrow(eth, book.address("Escrow"))
        self.staking = Staking(eth, book.address("Staking"))
        self.devices = Devices(eth, book.address("Devices"))
        self.attestations = Attestations(eth, book.address("Attestations"))
        self.factory = PoolFactory(eth, book.address("PoolFactory"))

    def pool(self, address: Address) -> Controller:
        return Controller(self.eth, address)


async def plan(eth: Eth, settings: DeploymentSettings) -> list[Step]:
    """The core contracts' steps, with which are done. Raises `DeployerMissingError`, `CodeMismatchError`."""
    goal = Goal(settings)
    return planner.plan(goal, await look(eth, goal), settings.owner)


async def apply(transactor: Transactor, settings: DeploymentSettings, known: AddressBook | None = None) -> AddressBook:
    """Does what the plan has left, and returns the verified address book. `known` is an earlier book of the same chain, if any."""
    return await Deployer(transactor, options=_AFRESH).apply(Goal(settings), known)


async def apply_development(transactor: Transactor, book: AddressBook) -> AddressBook:
    """Adds a token that anyone may mint, listed, to a development chain's deployment; the sender must own `Tokens`.

    Raises `DevelopmentKeyError` on any other chain.
    """
    if book.chain_id != DEVELOPMENT_CHAIN_ID:
        raise DevelopmentKeyError(
            f"a token that anyone may mint has no place on chain {book.chain_id}",
            remedy="Use a real token and list it with `millpond deploy apply --list`.",
            chain_id=book.chain_id,
        )
    goal = Goal(book.settings, has_test_token=True)
    return await Deployer(transactor, options=_AFRESH).apply(goal, book)


async def deploy_test_token(transactor: Transactor, settings: DeploymentSettings) -> Address:
    """The test token alone, at the address it has in every deployment with this salt; returns it. For chains of tests."""
    goal = Goal(settings, has_test_token=True)
    steps = planner.plan(goal, await look(transactor.eth, goal), settings.owner)
    [step] = [step for step in steps if step.name == TEST_TOKEN]
    if not step.is_done and step.call is not None:
        await (await transactor.send_call(step.key, step.call)).mined()
    return step.address


async def create_pool(
    transactor: Transactor, book: AddressBook, label: Bytes32, node: Address, params: PoolParams
) -> Address:
    """Makes the sender's pool, unless it is there, and returns its address. Raises `ContractRevertError` kinds."""
    factory = PoolFactory(transactor.eth, book.address("PoolFactory"))
    pool = await factory.predict(transactor.address, label, params)
    if not await factory.is_pool(pool):
        handle = await transactor.send_call(f"pool:{pool}", factory.create_pool(label, node, params))
        await handle.mined()
    return pool


def default_pool_params(token: Address, slasher: Address, treasury: Address) -> PoolParams:
    """A pool for short leases: 2.5 % fee, 0.5 % burnt, stake for all a lease can cost, one-day windows, 15 days of thaw."""
    return PoolParams(
        token=token,
        slasher=slasher,
        treasury=treasury,
        feePpm=25_000,
        burnPpm=5_000,
        exposurePpm=1_000_000,
        slashCapPpm=500_000,
        claimWindow=DAY_S,
        disputeWindow=2 * DAY_S,
        maxDuration=DAY_S,
        thawPeriod=15 * DAY_S,
        depositSeconds=60,
        grace=120,
        minProvision=0,
    )
