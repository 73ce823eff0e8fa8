"""Asks the chain what a deployment's planner must know, and what its steps cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.chain.bindings import Tokens
from millpond.chain.deploy import gas, proxy
from millpond.chain.deploy.planner import Goal, Sight, Step, StepKind, ready
from millpond.chain.errors import RpcResponseError
from millpond.chain.eth import Eth
from millpond.chain.fees import FeePolicy
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import hex_bytes, quantity
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32

_USUAL_TIP = 10**9
"""Wei per gas, where the server suggests none."""


@dataclass(frozen=True, slots=True)
class Quote:
    """What one step takes: gas, and wei sent along. `is_measured` tells the chain's own estimate from a bound computed here."""

    name: str
    gas: int
    value: int
    is_measured: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of all that is left, in wei: `expected` at the present price, `at_most` is what the sender must hold.

    `gas_price` is what would be paid now and `max_fee` what is offered at most, wei per gas.
    """

    quotes: tuple[Quote, ...]
    gas_price: int
    max_fee: int
    gas: int
    expected: int
    at_most: int
    balance: int

    @property
    def missing(self) -> int:
        return max(0, self.at_most - self.balance)


async def genesis_of(eth: Eth) -> Bytes32:
    """Hash of the first block: tells chains of one id apart."""
    header = await eth.header(0)
    return header.hash if header else ZERO_BYTES32


async def look(eth: Eth, goal: Goal) -> Sight:
    """The chain as the planner sees it. Raises the errors of `Rpc`."""
    accounts = list(dict.fromkeys([proxy.CREATE2_DEPLOYER, *goal.addresses().values(), *goal.listed()]))
    answers = await eth.rpc.batch([("eth_getCode", (account, "latest")) for account in accounts])
    code = {account: hex_bytes(item, "eth_getCode") for account, item in zip(accounts, answers, strict=True)}
    code = {account: item for account, item in code.items() if item}
    has_proxy = proxy.CREATE2_DEPLOYER in code
    listed, owner = await _look_at_tokens(eth, goal, code)
    return Sight(
        chain_id=await eth.chain_id(),
        genesis=await genesis_of(eth),
        code=code,
        signer_nonce=0 if has_proxy else await eth.nonce(proxy.SIGNER),
        signer_balance=0 if has_proxy else await eth.balance(proxy.SIGNER),
        listed=listed,
        tokens_owner=owner,
    )


async def _look_at_tokens(
    eth: Eth, goal: Goal, code: dict[Address, bytes]
) -> tuple[frozenset[Address], Address | None]:
    where = goal.addresses()["Tokens"]
    if where not in code or not goal.listed():
        return frozenset(), None
    tokens = Tokens(eth, where)
    listed = [token for token in goal.listed() if await tokens.is_listed(token)]
    return frozenset(listed), await tokens.owner()


async def estimate(eth: Eth, steps: Sequence[Step], sender: Address, fees: FeePolicy) -> Estimate:
    """What the steps that are not done cost `sender`. Raises `FeeCapError` and the errors of `Rpc`."""
    now = {step.name for step in ready(steps)}
    quotes = [await _quote(eth, step, sender, step.name in now) for step in steps if not step.is_done]
    base_fee, tip = await _price(eth)
    offer = fees.offer(base_fee, tip)
    total, value = sum(item.gas for item in quotes), sum(item.value for item in quotes)
    limit = sum(fees.gas_limit(item.gas) for item in quotes)
    price = min(base_fee + offer.tip, offer.max_fee)
    return Estimate(
        quotes=tuple(quotes),
        gas_price=price,
        max_fee=offer.max_fee,
        gas=total,
        expected=total * price + value,
        at_most=limit * offer.max_fee + value,
        balance=await eth.balance(sender),
    )


async def _quote(eth: Eth, step: Step, sender: Address, is_ready: bool) -> Quote:
    value = step.call.value if step.call else 0
    if is_ready and step.call is not None and step.kind is not StepKind.FUND:
        try:
            measured = await eth.estimate_gas(sender, step.call.to, step.call.data, value, step.call.label)
            return Quote(step.name, measured, value, True)
        except (ContractRevertError, RpcResponseError):
            pass  # the same is waiting for a block already, or the server estimates nothing for a sender without funds
    return Quote(step.name, gas.bound(step), value, False)


async def _price(eth: Eth) -> tuple[int, int]:
    """Base fee and tip, wei per gas."""
    header = await eth.header()
    if header is None:
        raise RpcResponseError("the RPC knows no latest block", method="eth_getBlockByNumber")
    [tip] = await eth.rpc.batch_settled([("eth_maxPriorityFeePerGas", ())])
    has_tip = not isinstance(tip, RpcResponseError)
    return header.base_fee, quantity(tip, "eth_maxPriorityFeePerGas") if has_tip else _USUAL_TIP


async def first_block_with_code(eth: Eth, account: Address) -> int:
    """The block that brought the code of `account`; 0 where the server has forgotten old states."""
    low, high = -1, await eth.block_number()
    try:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if await eth.code(account, middle) else (middle, high)
    except RpcResponseError:
        return 0
    return high
