"""Compares a deployment with the chain: code, addresses, roles, allow-list, pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millpond.chain import artefacts
from millpond.chain.address_book import CORE, AddressBook
from millpond.chain.bindings import MockToken
from millpond.chain.deploy.look import genesis_of
from millpond.chain.deploy.pools import PoolView, list_pools
from millpond.chain.deployment import CoreContracts
from millpond.chain.errors import WrongChainError
from millpond.chain.eth import Eth
from millpond.protocol.errors import ChainError
from millpond.protocol.ids import ZERO_ADDRESS, Address

FINE = "as released"
_MOST_TOKENS = 200


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """`state` is "as released", "missing", "other code" or "other address"; `roles` who may do what."""

    name: str
    address: Address
    state: str
    size: int
    roles: dict[str, Address]


@dataclass(frozen=True, slots=True)
class TokenStatus:
    """A token that was ever listed. Symbol and decimals as it tells them, None where it does not."""

    id: int
    address: Address
    is_listed: bool
    symbol: str | None
    decimals: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """`problems` is empty when all is as this release deploys it; `notes` are changes that an owner may make."""

    chain_id: int
    block: int
    contracts: tuple[ContractStatus, ...]
    tokens: tuple[TokenStatus, ...]
    pools: tuple[PoolView, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return not self.problems


async def status(eth: Eth, book: AddressBook) -> Status:
    """Reads all of it. Raises `WrongChainError` and the errors of `Rpc`; what differs is in the answer, not raised."""
    actual = await eth.chain_id()
    if actual != book.chain_id:
        raise WrongChainError(book.chain_id, actual, eth.rpc.url)
    contracts = [await _contract(eth, book, name, where) for name, where in book.contracts.items()]
    problems = _problems(contracts)
    if await genesis_of(eth) != book.genesis:
        problems.insert(
            0, f"chain {book.chain_id} is another chain than the one that was deployed to: its first block differs"
        )
    is_readable = not problems
    core = CoreContracts(eth, book)
    roles = await _roles(core) if is_readable else {}
    return Status(
        chain_id=book.chain_id,
        block=await eth.block_number(),
        contracts=tuple(_with_roles(item, roles) for item in contracts),
        tokens=tuple(await _tokens(core)) if is_readable else (),
        pools=tuple(await list_pools(core)) if is_readable else (),
        problems=tuple(problems),
        notes=tuple(_notes(book, roles)),
    )


async def _contract(eth: Eth, book: AddressBook, name: str, where: Address) -> ContractStatus:
    code = await eth.code(where)
    state = FINE
    if not code:
        state = "missing"
    elif not artefacts.load(name).matches(code):
        state = "other code"
    elif name in CORE and where != book.settings.address_of(name):
        state = "other address"
    return ContractStatus(name, where, state, len(code), {})


def _problems(contracts: Iterable[ContractStatus]) -> list[str]:
    return [f"{item.name} at {item.address}: {item.state}" for item in contracts if item.state != FINE]


async def _roles(core: CoreContracts) -> dict[str, Address]:
    """Who holds the only role of the core contracts, and who was offered it."""
    owner, pending = await core.tokens.owner(), await core.tokens.pending_owner()
    return {"owner": owner} | ({"pending owner": pending} if pending != ZERO_ADDRESS else {})


def _with_roles(item: ContractStatus, roles: dict[str, Address]) -> ContractStatus:
    if item.name != "Tokens":
        return item
    return ContractStatus(item.name, item.address, item.state, item.size, roles)


def _notes(book: AddressBook, roles: dict[str, Address]) -> list[str]:
    notes = []
    owner = roles.get("owner", book.settings.owner)
    if owner == ZERO_ADDRESS:
        notes.append("Tokens has no owner any more: the allow-list is fixed")
    elif owner != book.settings.owner:
        notes.append(f"Tokens belongs to {owner}; it was deployed for {book.settings.owner}")
    if "pending owner" in roles:
        notes.append(f"Tokens is offered to {roles['pending owner']}")
    return notes


async def _tokens(core: CoreContracts) -> list[TokenStatus]:
    found = []
    for number in range(1, _MOST_TOKENS + 1):
        token = await core.tokens.token_of(number)
        if token == ZERO_ADDRESS:
            break
        symbol, decimals = await describe_token(core.eth, token)
        found.append(TokenStatus(number, token, await core.tokens.is_listed(token), symbol, decimals))
    return found


async def describe_token(eth: Eth, token: Address) -> tuple[str | None, int | None]:
    """Symbol and decimals; None for what the token does not tell."""
    bound = MockToken(eth, token)
    try:
        symbol: str | None = await bound.symbol()
    except ChainError:
        symbol = None
    try:
        return symbol, await bound.decimals()
    except ChainError:
        return symbol, None
