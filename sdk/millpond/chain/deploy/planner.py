"""What a deployment has left to do. Pure: what is wanted and what the chain holds in, steps out.

    fund -> proxy -> every contract -> list every token

Contracts need only the proxy, because their addresses are known before any of them is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from millpond.chain import artefacts
from millpond.chain.address_book import CORE, DeploymentSettings
from millpond.chain.calls import Call
from millpond.chain.deploy import proxy
from millpond.chain.deploy.errors import MintableTokenError, NotTokensOwnerError
from millpond.chain.errors import CodeMismatchError, DeployerMissingError
from millpond.chain.transactions import create2_address
from millpond.protocol.ids import Address, Bytes32, raw32

TEST_TOKEN = "MockToken"
TEST_TOKEN_ARGUMENTS = ("Millpond Test Dollar", "tUSD", 6)
MAIN_NETWORKS = {
    1: "Ethereum",
    10: "OP Mainnet",
    56: "BNB Smart Chain",
    100: "Gnosis",
    137: "Polygon",
    324: "ZKsync Era",
    8453: "Base",
    42161: "Arbitrum One",
    42220: "Celo",
    43114: "Avalanche",
    59144: "Linea",
    534352: "Scroll",
}


class StepKind(StrEnum):
    FUND = "fund"
    PROXY = "proxy"
    CONTRACT = "contract"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Goal:
    """What shall be there in the end. `tokens` are to be on the allow-list; the test token is one that anyone may mint."""

    settings: DeploymentSettings
    tokens: tuple[Address, ...] = ()
    has_test_token: bool = False

    def init_codes(self) -> Mapping[str, bytes]:
        """Bytecode and constructor arguments of each contract, by name."""
        return _init_codes(self.settings, self.has_test_token)

    def addresses(self) -> Mapping[str, Address]:
        """Where each contract lies, on every chain alike (EIP-1014)."""
        return _addresses(self.settings, self.has_test_token)

    def listed(self) -> tuple[Address, ...]:
        """All tokens of the allow-list that the goal names, the test token first, none twice."""
        own = [self.addresses()[TEST_TOKEN]] if self.has_test_token else []
        return tuple(dict.fromkeys([*own, *self.tokens]))


@dataclass(frozen=True, slots=True)
class Sight:
    """What the chain holds. `code` by address; `tokens_owner` None while there is no `Tokens`. Balance in wei."""

    chain_id: int
    genesis: Bytes32
    code: Mapping[Address, bytes]
    signer_nonce: int = 0
    signer_balance: int = 0
    listed: frozenset[Address] = frozenset()
    tokens_owner: Address | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `address` is where its effect is seen; `after` names steps that come first; the proxy's has no call of ours."""

    name: str
    kind: StepKind
    address: Address
    call: Call | None
    after: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def key(self) -> str:
        """Its intent key in the sender's outbox."""
        return f"deploy:{self.name}:{self.address}"


@lru_cache(maxsize=8)
def _init_codes(settings: DeploymentSettings, has_test_token: bool) -> Mapping[str, bytes]:
    codes = {name: settings.init_code(name) for name in CORE}
    if has_test_token:
        codes[TEST_TOKEN] = artefacts.load(TEST_TOKEN).init_code(*TEST_TOKEN_ARGUMENTS)
    return codes


@lru_cache(maxsize=8)
def _addresses(settings: DeploymentSettings, has_test_token: bool) -> Mapping[str, Address]:
    codes, salt = _init_codes(settings, has_test_token), raw32(settings.salt)
    return {name: create2_address(proxy.CREATE2_DEPLOYER, salt, code) for name, code in codes.items()}


def plan(goal: Goal, sight: Sight, sender: Address) -> list[Step]:
    """All steps, those done too, each after what it needs.

    Raises `CodeMismatchError` (other code lies at a predicted address), `DeployerMissingError` (the proxy can never come),
    `NotTokensOwnerError`, `MintableTokenError`.
    """
    _check_network(goal, sight)
    steps = _proxy_steps(sight)
    steps += _contract_steps(goal, sight, tuple(step.name for step in steps))
    return steps + _list_steps(goal, sight, sender)


def ready(steps: Iterable[Step]) -> list[Step]:
    """What can be sent now: not done, and all it needs is."""
    steps = list(steps)
    waiting = {step.name for step in steps if not step.is_done}
    return [step for step in steps if not step.is_done and waiting.isdisjoint(step.after)]


def _check_network(goal: Goal, sight: Sight) -> None:
    if goal.has_test_token and sight.chain_id in MAIN_NETWORKS:
        name = MAIN_NETWORKS[sight.chain_id]
        raise MintableTokenError(f"a token that anyone may mint has no place on {name}", chain_id=sight.chain_id)


def _proxy_steps(sight: Sight) -> list[Step]:
    code = sight.code.get(proxy.CREATE2_DEPLOYER, b"")
    if code == proxy.CODE:
        return []
    if code:
        raise DeployerMissingError(
            f"{proxy.CREATE2_DEPLOYER} holds other code than the deterministic deployer's",
            address=proxy.CREATE2_DEPLOYER,
        )
    if sight.signer_nonce:
        raise DeployerMissingError(
            f"the chain has no deterministic deployer at {proxy.CREATE2_DEPLOYER}, and its published transaction is used up",
            address=proxy.CREATE2_DEPLOYER,
        )
    fund = Call(proxy.SIGNER, b"", "fund the deterministic deployer", proxy.COST)
    return [
        Step("funds", StepKind.FUND, proxy.SIGNER, fund, (), sight.signer_balance >= proxy.COST),
        Step("deployer", StepKind.PROXY, proxy.CREATE2_DEPLOYER, None, ("funds",)),
    ]


def _contract_steps(goal: Goal, sight: Sight, after: tuple[str, ...]) -> list[Step]:
    addresses, salt = goal.addresses(), raw32(goal.settings.salt)
    return [
        Step(
            name,
            StepKind.CONTRACT,
            addresses[name],
            Call(proxy.CREATE2_DEPLOYER, salt + code, f"deploy {name}"),
            after,
            _is_there(name, addresses[name], sight),
        )
        for name, code in goal.init_codes().items()
    ]


def _is_there(name: str, where: Address, sight: Sight) -> bool:
    code = sight.code.get(where, b"")
    if code:
        artefacts.load(name).check(code, where)
    return bool(code)


def _list_steps(goal: Goal, sight: Sight, sender: Address) -> list[Step]:
    addresses, abi = goal.addresses(), artefacts.load("Tokens").abi
    after = ("Tokens", TEST_TOKEN) if goal.has_test_token else ("Tokens",)
    owner = sight.tokens_owner or goal.settings.owner
    steps = []
    for token in goal.listed():
        is_done = token in sight.listed
        if not is_done and owner != sender:
            raise NotTokensOwnerError(
                f"{token} is not listed, and only {owner} lists tokens; the sender is {sender}",
                owner=owner,
                token=token,
            )
        if not is_done and token not in sight.code and token not in addresses.values():
            raise CodeMismatchError(f"{token} is no token: it has no code", address=token)
        call = Call(addresses["Tokens"], abi.encode_call("list", token), "Tokens.list")
        steps.append(Step(f"list {token}", StepKind.LIST, token, call, after, is_done))
    return steps
