"""Makes a pool as a file describes it, and reads what pools there are. Repeating it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from millpond.chain.address_book import verify_book
from millpond.chain.bindings.structs import PoolParams
from millpond.chain.calls import Call
from millpond.chain.deploy.errors import PoolFileError, PoolOwnerError
from millpond.chain.deploy.keys import intent_key
from millpond.chain.deployment import CoreContracts
from millpond.chain.transactor import DEFAULT_WAIT_S, Transactor
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32

PAGE = 100
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PoolGoal:
    """What a pool shall be. `digest` of the description is None where the file has none."""

    owner: Address
    label: Bytes32
    node: Address
    params: PoolParams
    digest: Bytes32 | None = None
    uri: str = ""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool on chain. `paused_until` in Unix seconds, 0 for running; `heir` was offered the ownership."""

    address: Address
    label: Bytes32
    owner: Address
    founder: Address
    heir: Address
    node: Address
    token: Address
    paused_until: int
    metadata_digest: Bytes32


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Where the pool lies, and what is left to do, in order; empty when all is done."""

    address: Address
    is_there: bool
    steps: tuple[tuple[str, Call], ...]


def check_owner(goal: PoolGoal, sender: Address) -> None:
    """Raises `PoolOwnerError` unless `sender` is to own the pool: it becomes its founder."""
    if sender != goal.owner:
        raise PoolOwnerError(
            f"the file's owner is {goal.owner}, the wallet's address is {sender}", owner=goal.owner, wallet=sender
        )


async def plan_pool(core: CoreContracts, goal: PoolGoal) -> PoolPlan:
    """What is left to do. Raises `CodeMismatchError` and the others of `verify_book` unless the deployment is this release's,
    `PoolFileError` for a token that is not listed, `PoolOwnerError` when the pool has passed to another owner."""
    await verify_book(core.eth, core.book)
    if not await core.tokens.is_listed(goal.params.token):
        raise PoolFileError(
            f"the token {goal.params.token} is not on the allow-list of chain {core.book.chain_id}",
            remedy="List it as the owner of Tokens: millpond deploy apply --list TOKEN.",
            field="token",
        )
    address = await core.factory.predict(goal.owner, goal.label, goal.params)
    is_there = await core.factory.is_pool(address)
    steps = [] if is_there else [("create", core.factory.create_pool(goal.label, goal.node, goal.params))]
    pool = core.pool(address)
    if is_there and (await pool.owner()) != goal.owner:
        raise PoolOwnerError(f"the pool {address} belongs to {await pool.owner()} now", pool=address)
    if is_there and (await pool.node()) != goal.node:
        steps.append(("node", pool.set_node(goal.node)))
    if goal.digest is not None and goal.digest != (await pool.metadata_digest() if is_there else ZERO_BYTES32):
        steps.append(("metadata", pool.set_metadata(goal.digest, goal.uri)))
    return PoolPlan(address, is_there, tuple(steps))


async def apply_pool(
    transactor: Transactor,
    core: CoreContracts,
    goal: PoolGoal,
    wait_s: float = DEFAULT_WAIT_S,
    say: Say = lambda line: None,
) -> PoolPlan:
    """Does what is left and returns what that was. Raises what `plan_pool`, `Transactor.send` and `TxHandle.mined` raise."""
    check_owner(goal, transactor.address)
    plan = await plan_pool(core, goal)
    for name, call in plan.steps:
        handle = await transactor.send_call(_key(transactor, plan.address, name, call), call)
        receipt = await handle.mined(wait_s)
        say(f"{name:<9} {plan.address}  block {receipt.block_number}  {receipt.gas_used:,} gas")
    return replace(plan, is_there=True)


def _key(transactor: Transactor, pool: Address, name: str, call: Call) -> str:
    """A pool is made once; its node and description may change back and forth."""
    base = f"pool:{pool}" if name == "create" else f"{name}:{pool}"
    return intent_key(transactor, base, call, is_repeatable=name != "create")


async def list_pools(core: CoreContracts) -> list[PoolView]:
    """Every pool of the factory, in order of creation."""
    count = await core.factory.pool_count()
    found: list[Address] = []
    for first in range(0, count, PAGE):
        found += await core.factory.pools(first, PAGE)
    return [await view_pool(core, address) for address in found]


async def view_pool(core: CoreContracts, address: Address) -> PoolView:
    pool = core.pool(address)
    return PoolView(
        address=address,
        label=await pool.label(),
        owner=await pool.owner(),
        founder=await pool.founder(),
        heir=await pool.heir(),
        node=await pool.node(),
        token=(await pool.params()).token,
        paused_until=await pool.paused_until(),
        metadata_digest=await pool.metadata_digest(),
    )
