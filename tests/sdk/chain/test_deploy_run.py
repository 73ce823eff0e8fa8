"""One run of a deployment on the simulated chain: funds, others who deploy the same, stuck blocks, refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from deploy_chain import COIN, DEPLOYER, GOAL, SimChain, SimRpc

from millpond.chain.address_book import AddressBook
from millpond.chain.deploy import proxy
from millpond.chain.deploy.errors import DeploymentConflictError
from millpond.chain.deploy.execute import ApplyOptions, Deployer, fee_policy
from millpond.chain.deploy.gas import bound
from millpond.chain.deploy.journal import MemoryDeployJournal
from millpond.chain.deploy.look import estimate, look
from millpond.chain.deploy.planner import plan
from millpond.chain.errors import (
    DeployerMissingError,
    OutOfFundsError,
    RpcResponseError,
    TransactionTimeoutError,
)
from millpond.chain.eth import Eth
from millpond.chain.fees import FeePolicy
from millpond.chain.keys import new_wallet
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.reverts import ContractRevertError
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Bytes32

FAST = TransactorConfig(finality=2, poll_s=0.001, idle_poll_s=0.01, resend_after_s=0.01)
ADDRESSES = GOAL.addresses()


class Run:
    """A sender with its disk, on one chain."""

    def __init__(self, chain: SimChain) -> None:
        self.rpc = SimRpc(chain)
        self.journal = MemoryDeployJournal()
        self.outbox = MemoryOutbox()

    async def apply(self, wait_s: float = 5, known: AddressBook | None = None) -> Any:
        async with Transactor(Eth(self.rpc), DEPLOYER, self.outbox, FAST) as transactor:
            return await Deployer(transactor, self.journal, ApplyOptions(wait_s, is_final_awaited=True)).apply(
                GOAL, known
            )


@pytest.fixture
def chain() -> SimChain:
    return SimChain(has_proxy=True)


@pytest.fixture
def run(chain: SimChain) -> Run:
    return Run(chain)


def when_asked(run: Run, method: str, act: Callable[[], None], number: int = 1) -> None:
    """Does `act` right before the chain answers `method` for the `number`th time."""
    answer, asked = run.rpc.answer, [0]

    def wrapped(name: str, params: list[Any]) -> Any:
        asked[0] += name == method
        if name == method and asked[0] == number:
            act()
        return answer(name, params)

    run.rpc.answer = wrapped  # type: ignore[method-assign]


async def test_unfunded_deployer_is_told_how_much_is_missing_and_nothing_is_sent(chain: SimChain, run: Run) -> None:
    chain.balances[DEPLOYER.address] = COIN // 1000
    with pytest.raises(OutOfFundsError) as caught:
        await run.apply()
    fields = caught.value.fields
    assert fields["missing"] == fields["needed"] - COIN // 1000
    assert not chain.nonces
    assert not [record for record in run.journal.records() if record["kind"] == "begin"]
    chain.balances[DEPLOYER.address] += fields["missing"]
    assert (await run.apply()).contracts == ADDRESSES


async def test_contract_that_somebody_else_deployed_before_ours_was_sent_is_taken_over(
    chain: SimChain, run: Run
) -> None:
    other = SimChain(has_proxy=True)
    await Run(other).apply()
    when_asked(
        run, "eth_sendRawTransaction", lambda: chain.code.update({ADDRESSES["Escrow"]: other.code[ADDRESSES["Escrow"]]})
    )
    assert (await run.apply()).contracts == ADDRESSES
    assert chain.effects[f"deploy {ADDRESSES['Escrow']}"] == 0
    assert chain.reverted == []


async def test_contract_that_somebody_else_deployed_before_our_block_is_taken_over(chain: SimChain, run: Run) -> None:
    other = SimChain(has_proxy=True)
    await Run(other).apply()
    when_asked(
        run, "eth_sendRawTransaction", lambda: chain.code.update({ADDRESSES["Tokens"]: other.code[ADDRESSES["Tokens"]]})
    )
    assert (await run.apply()).contracts == ADDRESSES
    assert len(chain.reverted) == 1
    assert await run.apply()
    assert len(chain.reverted) == 1


async def test_address_book_of_another_chain_with_the_same_id_is_refused_and_nothing_is_sent(
    chain: SimChain, run: Run
) -> None:
    book = await Run(SimChain(has_proxy=True)).apply()
    with pytest.raises(DeploymentConflictError, match="first block differs"):
        await run.apply(known=dataclasses.replace(book, genesis=Bytes32("0x" + "11" * 32)))
    assert not chain.nonces


async def test_step_that_keeps_reverting_raises(chain: SimChain, run: Run) -> None:
    when_asked(run, "eth_estimateGas", lambda: setattr(chain, "would_succeed", lambda *_: False), 12)
    with pytest.raises(ContractRevertError):
        await run.apply()


async def test_stuck_chain_times_out_and_the_repeat_finishes_with_the_same_transactions(
    chain: SimChain, run: Run
) -> None:
    chain.is_mining = False
    with pytest.raises(TransactionTimeoutError):
        await run.apply(wait_s=0.05)
    waiting = {tx.hash for tx in chain.pool}
    chain.is_mining = True
    assert (await run.apply()).contracts == ADDRESSES
    assert waiting < set(chain.receipts)
    assert set(chain.effects.values()) == {1}


async def test_rpc_that_refuses_the_published_transaction_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = SimChain()

    def refuse(raw: bytes, accept: Callable[[bytes], None] = chain.accept) -> None:
        if raw == proxy.TRANSACTION:
            raise RpcResponseError("only replay-protected (EIP-155) transactions allowed over RPC")
        accept(raw)

    monkeypatch.setattr(chain, "accept", refuse)
    with pytest.raises(DeployerMissingError, match="only replay-protected"):
        await Run(chain).apply()


async def test_estimate_without_the_chain_s_help_takes_bounds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(message: Any) -> str:
        raise RpcResponseError("insufficient funds for gas * price + value")

    monkeypatch.setattr(run.rpc, "estimate", refuse)
    eth, poor = Eth(run.rpc), new_wallet().address
    steps = plan(GOAL, await look(eth, GOAL), DEPLOYER.address)
    cost = await estimate(eth, steps, poor, FeePolicy())
    assert cost.gas == sum(bound(step) for step in steps)
    assert not any(quote.is_measured for quote in cost.quotes)
    assert cost.missing == cost.at_most > cost.expected > 0


async def test_fees_of_a_run_that_brings_the_proxy_are_capped_at_the_start_also_when_resumed() -> None:
    run = Run(SimChain())
    first = await fee_policy(Eth(run.rpc), GOAL, run.journal, DEPLOYER.address)
    run.rpc.chain.code[proxy.CREATE2_DEPLOYER] = proxy.CODE
    assert await fee_policy(Eth(run.rpc), GOAL, run.journal, DEPLOYER.address) == first
    assert first.cap < FeePolicy().cap


async def test_fees_of_a_run_that_finds_the_proxy_are_the_usual(run: Run) -> None:
    assert await fee_policy(Eth(run.rpc), GOAL, run.journal, DEPLOYER.address) == FeePolicy()
