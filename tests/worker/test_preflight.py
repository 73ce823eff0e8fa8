"""`init` finds everything that is missing before it sends anything, and says what, measured, needed, remedy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from worker_world import DEVICE, INFO, OPERATOR, OWNER, RENTER, place

from millpond.protocol.ids import ZERO_ADDRESS
from millpond_worker.errors import SetupError
from millpond_worker.plan import GAS_GRANT_WEI, Plan, missing_steps
from millpond_worker.preflight import GAS_PER_STEP, check_all
from millpond_worker.standing import Standing

POOL, UNIT, GWEI = place(1), 10**6, 10**9
PLAN = Plan(OWNER.address, OPERATOR.address, None, {DEVICE: INFO}, 100 * UNIT)
FOUND: Any = SimpleNamespace(controller=SimpleNamespace(address=POOL), decimals=6, symbol="MOCK")
NEW = Standing(
    provider=None,
    registered={},
    idle=0,
    active=0,
    unreserved=0,
    is_retired=False,
    wallet=100 * UNIT,
    allowance=0,
    owner_gas=10**18,
    operator_gas=0,
)
KNOWN: Any = SimpleNamespace(memoryMiB=INFO.memory_mib, kind=0, pool=POOL)
PROVIDER: Any = SimpleNamespace(operator=OPERATOR.address, payout=OWNER.address)
READY = replace(
    NEW, provider=PROVIDER, registered={DEVICE: KNOWN}, active=100 * UNIT, wallet=0, owner_gas=0, operator_gas=10**18
)


def refusal(standing: Standing, plan: Plan = PLAN) -> SetupError:
    with pytest.raises(SetupError) as caught:
        check_all(FOUND, standing, plan, GWEI)
    return caught.value


def test_newcomer_with_stake_and_gas_passes() -> None:
    check_all(FOUND, NEW, PLAN, GWEI)


def test_provider_that_is_done_needs_neither_stake_nor_gas() -> None:
    check_all(FOUND, READY, PLAN, GWEI)


def test_missing_stake_and_gas_are_told_together_with_remedies() -> None:
    error = refusal(replace(NEW, wallet=40 * UNIT, owner_gas=0))
    assert [item["id"] for item in error.fields["findings"]] == ["stake", "gas"]
    assert error.message.startswith("nothing was sent: stake: ")
    assert "holds 40 MOCK" in error.message
    assert f"Send 60 MOCK to {OWNER.address}" in error.remedy
    assert "of the chain's coin" in error.remedy


def test_gas_is_asked_for_every_step_and_the_grant() -> None:
    missing = missing_steps(NEW, PLAN)
    assert (missing.count, missing.grant_wei) == (7, GAS_GRANT_WEI)
    enough = 7 * GAS_PER_STEP * GWEI + GAS_GRANT_WEI
    check_all(FOUND, replace(NEW, owner_gas=enough), PLAN, GWEI)
    refusal(replace(NEW, owner_gas=enough - 1))


def test_changed_payout_is_one_step_more() -> None:
    assert missing_steps(READY, replace(PLAN, payout=RENTER.address)).count == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memoryMiB": 1}, "the chain has 1 MiB of kind 0"),
        ({"kind": 1}, "of kind 1"),
        ({"pool": place(9)}, f"is in the pool {place(9)}"),
    ],
)
def test_device_that_stands_otherwise_on_chain_is_told_before_anything_is_sent(
    changes: dict[str, Any], said: str
) -> None:
    other = SimpleNamespace(**{**vars(KNOWN), **changes})
    assert said in refusal(replace(READY, registered={DEVICE: other})).message


def test_device_in_no_pool_passes() -> None:
    alone = SimpleNamespace(**{**vars(KNOWN), "pool": ZERO_ADDRESS})
    check_all(FOUND, replace(READY, registered={DEVICE: alone}, owner_gas=10**18), PLAN, GWEI)
