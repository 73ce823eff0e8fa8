"""Deploys the core contracts through the deterministic deployer: same release, same settings, same addresses on every chain.

Each step is done when there is code at its predicted address, so a deployment can be repeated, and resumed after any crash.
"""

from __future__ import annotations

from dataclasses import dataclass

from millpond.chain import artefacts
from millpond.chain.address_book import CORE, CREATE2_DEPLOYER, AddressBook, DeploymentSettings, verify_book
from millpond.chain.bindings import Attestations, Controller, Devices, Escrow, PoolFactory, Staking, Tokens
from millpond.chain.bindings.structs import PoolParams
from millpond.chain.calls import Call
from millpond.chain.errors import CodeMismatchError, DeployerMissingError, DevelopmentKeyError
from millpond.chain.eth import Eth
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.transactions import create2_address
from millpond.chain.transactor import Transactor, TxHandle
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32

DAY_S = 86_400
DEVELOPMENT_TOKEN = ("Millpond Test Dollar", "tUSD", 6)


@dataclass(frozen=True, slots=True)
class Step:
    """One contract to deploy. `key` is its intent key; `is_done` when its code is there already."""

    name: str
    address: Address
    call: Call
    is_done: bool

    @property
    def key(self) -> str:
        return f"deploy:{self.name}:{self.address}"


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
    if not await eth.code(CREATE2_DEPLOYER):
        raise DeployerMissingError(
            f"the chain has no deterministic deployer at {CREATE2_DEPLOYER}", address=CREATE2_DEPLOYER
        )
    return [await _step(eth, name, settings.salt, settings.init_code(name)) for name in CORE]


async def apply(transactor: Transactor, settings: DeploymentSettings, known: AddressBook | None = None) -> AddressBook:
    """Does what the plan has left, and returns the verified address book. `known` is an earlier book of the same chain, if any.

    Raises what `plan`, `Transactor.send` and `verify_book` raise; called again, it goes on where it stopped.
    """
    eth = transactor.eth
    steps = await plan(eth, settings)
    blocks = await _deploy(transactor, steps)
    genesis = await eth.header(0)
    book = AddressBook(
        chain_id=await eth.chain_id(),
        genesis=genesis.hash if genesis else ZERO_BYTES32,
        block=min(blocks) if blocks else known.block if known else 0,
        settings=settings,
        contracts={step.name: step.address for step in steps},
        code_hashes={step.name: artefacts.load(step.name).code_hash for step in steps},
    )
    await verify_book(eth, book)
    return book


async def apply_development(transactor: Transactor, book: AddressBook) -> AddressBook:
    """Adds a token that anyone may mint, listed, to a development chain's deployment; the sender must own `Tokens`.

    Raises `DevelopmentKeyError` on any other chain.
    """
    if book.chain_id != DEVELOPMENT_CHAIN_ID:
        raise DevelopmentKeyError(
            f"a token that anyone may mint has no place on chain {book.chain_id}",
            remedy="Use a real token and list it with `Tokens.list`.",
            chain_id=book.chain_id,
        )
    eth = transactor.eth
    step = await _step(eth, "MockToken", book.settings.salt, artefacts.load("MockToken").init_code(*DEVELOPMENT_TOKEN))
    await _deploy(transactor, [step])
    tokens = Tokens(eth, book.address("Tokens"))
    if not await tokens.is_listed(step.address):
        handle = await transactor.send_call(f"list:{tokens.address}:{step.address}", tokens.list_(step.address))
        await handle.mined()
    return book.with_contract("MockToken", step.address)


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


async def _step(eth: Eth, name: str, salt: Bytes32, init_code: bytes) -> Step:
    raw_salt = bytes.fromhex(salt[2:])
    where = create2_address(CREATE2_DEPLOYER, raw_salt, init_code)
    code = await eth.code(where)
    if code:
        artefacts.load(name).check(code, where)
    return Step(name, where, Call(CREATE2_DEPLOYER, raw_salt + init_code, f"deploy {name}"), bool(code))


async def _deploy(transactor: Transactor, steps: list[Step]) -> list[int]:
    """Blocks of the deployments made now. All are sent before the first is waited for: addresses do not depend on order."""
    waiting: list[tuple[Step, TxHandle]] = [
        (step, await transactor.send_call(step.key, step.call)) for step in steps if not step.is_done
    ]
    blocks = []
    for step, handle in waiting:
        receipt = await handle.mined()
        if not await transactor.eth.code(step.address):
            raise CodeMismatchError(f"{step.name} was deployed, but {step.address} has no code", address=step.address)
        blocks.append(receipt.block_number)
    return blocks
