"""The planner of deployments: what the chain holds in, steps out; and the proxy's published transaction."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import rlp
from coincurve import PublicKey

from millpond.chain import artefacts
from millpond.chain.address_book import CORE, CREATE2_DEPLOYER, DeploymentSettings
from millpond.chain.deploy import gas, planner, proxy
from millpond.chain.deploy.errors import MintableTokenError, NotTokensOwnerError
from millpond.chain.deploy.planner import Goal, Sight, StepKind
from millpond.chain.errors import CodeMismatchError, DeployerMissingError
from millpond.chain.keys import development_wallet
from millpond.protocol.hashing import keccak256, to_checksum_address
from millpond.protocol.ids import ZERO_BYTES32, Address

OWNER = development_wallet(0, 31337).address
STRANGER = development_wallet(1, 31337).address
TOKEN = Address("0x1111111111111111111111111111111111111111")
GOAL = Goal(DeploymentSettings(OWNER))
WITH_TOKEN = Goal(DeploymentSettings(OWNER), (TOKEN,))
PROXY = {CREATE2_DEPLOYER: proxy.CODE}


def sight(code: dict[Any, bytes], **changes: Any) -> Sight:
    return dataclasses.replace(Sight(424242, ZERO_BYTES32, code), **changes)


def there(goal: Goal = GOAL) -> dict[Any, bytes]:
    return {where: artefacts.load(name).deployed_bytecode for name, where in goal.addresses().items()}


def test_published_transaction_is_of_the_signer_and_makes_the_proxy_at_its_address() -> None:
    fields = rlp.decode(proxy.TRANSACTION)
    signature = fields[7].rjust(32, b"\0") + fields[8].rjust(32, b"\0") + bytes([fields[6][0] - 27])
    digest = keccak256(rlp.encode(fields[:6]))
    public = PublicKey.from_signature_and_message(signature, digest, hasher=None).format(compressed=False)
    signer = keccak256(public[1:])[12:]

    assert to_checksum_address("0x" + signer.hex()) == proxy.SIGNER
    assert to_checksum_address("0x" + keccak256(rlp.encode([signer, b""]))[12:].hex()) == proxy.CREATE2_DEPLOYER
    assert int.from_bytes(fields[1], "big") * int.from_bytes(fields[2], "big") == proxy.COST
    assert fields[5].endswith(proxy.CODE)


def test_plan_of_an_empty_chain_funds_and_sends_the_proxy_before_all_else() -> None:
    steps = planner.plan(WITH_TOKEN, sight({TOKEN: b"code"}), OWNER)

    assert [step.kind for step in steps] == [
        *(StepKind.FUND, StepKind.PROXY, *[StepKind.CONTRACT] * len(CORE), StepKind.LIST)
    ]
    assert [step.name for step in planner.ready(steps)] == ["funds"]


def test_plan_with_a_funded_signer_sends_the_proxy() -> None:
    steps = planner.plan(GOAL, sight({}, signer_balance=proxy.COST), OWNER)
    assert [step.name for step in planner.ready(steps)] == ["deployer"]


def test_plan_with_the_proxy_makes_every_contract_at_once() -> None:
    steps = planner.plan(WITH_TOKEN, sight({**PROXY, TOKEN: b"code"}), OWNER)
    assert [step.name for step in planner.ready(steps)] == list(CORE)


def test_plan_with_all_contracts_lists_the_token_then_nothing() -> None:
    code = {**PROXY, **there(), TOKEN: b"code"}
    assert [step.kind for step in planner.ready(planner.plan(WITH_TOKEN, sight(code), OWNER))] == [StepKind.LIST]
    steps = planner.plan(WITH_TOKEN, sight(code, listed=frozenset({TOKEN}), tokens_owner=OWNER), OWNER)
    assert planner.ready(steps) == []


@pytest.mark.parametrize("name", CORE)
def test_plan_with_other_code_at_a_predicted_address_raises(name: str) -> None:
    code = {**PROXY, **there(), GOAL.addresses()[name]: b"\x60\x00"}
    with pytest.raises(CodeMismatchError):
        planner.plan(GOAL, sight(code), OWNER)


def test_plan_compares_code_with_immutables_masked() -> None:
    escrow = artefacts.load("Escrow")
    start, length = escrow.immutables[0]
    filled = bytearray(escrow.deployed_bytecode)
    filled[start : start + length] = b"\x11" * length
    code = {**PROXY, **there(), GOAL.addresses()["Escrow"]: bytes(filled)}
    assert planner.ready(planner.plan(GOAL, sight(code), OWNER)) == []


@pytest.mark.parametrize("seen", [sight({CREATE2_DEPLOYER: b"\x60"}), sight({}, signer_nonce=1)])
def test_plan_of_a_chain_that_can_never_have_the_proxy_raises(seen: Sight) -> None:
    with pytest.raises(DeployerMissingError):
        planner.plan(GOAL, seen, OWNER)


def test_plan_to_list_a_token_by_a_stranger_raises() -> None:
    with pytest.raises(NotTokensOwnerError):
        planner.plan(WITH_TOKEN, sight({**PROXY, TOKEN: b"code"}), STRANGER)


def test_plan_to_list_what_is_no_contract_raises() -> None:
    with pytest.raises(CodeMismatchError):
        planner.plan(WITH_TOKEN, sight(PROXY), OWNER)


@pytest.mark.parametrize("chain_id", planner.MAIN_NETWORKS)
def test_plan_of_a_test_token_on_a_main_network_raises(chain_id: int) -> None:
    with pytest.raises(MintableTokenError):
        planner.plan(Goal(DeploymentSettings(OWNER), has_test_token=True), sight(PROXY, chain_id=chain_id), OWNER)


@pytest.mark.parametrize(
    "change",
    [{"owner": STRANGER}, {"burn_sink": STRANGER}, {"challenge_window": 86_400}, {"salt": "0x" + "11" * 32}],
)
def test_addresses_differ_with_every_setting(change: dict[str, Any]) -> None:
    other = Goal(dataclasses.replace(GOAL.settings, **change)).addresses()
    assert other["Controller" if "challenge_window" not in change else "Attestations"] not in GOAL.addresses().values()


def test_every_constructor_argument_of_the_core_is_known() -> None:
    assert set(GOAL.init_codes()) == set(CORE)


def test_gas_bound_covers_creation_and_code() -> None:
    steps = planner.plan(GOAL, sight(PROXY), OWNER)
    for step in steps:
        size = len(artefacts.load(step.name).deployed_bytecode)
        assert gas.bound(step) > 53_000 + 200 * size
    assert gas.bound(planner.plan(GOAL, sight({}), OWNER)[1]) == 0
