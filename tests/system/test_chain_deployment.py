"""Deployment, address book, pools, and one whole lease through the bindings, on a real Anvil."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain import artefacts, deployment
from millpond.chain.address_book import CORE, CREATE2_DEPLOYER, AddressBook, DeploymentSettings, verify_book
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import (
    AddressBookError,
    CodeMismatchError,
    DeployerMissingError,
    DevelopmentKeyError,
    WrongChainError,
)
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Bytes32, bytes32

pytestmark = pytest.mark.anvil

ALICE = development_wallet(0, 31337)
SETTINGS = DeploymentSettings(ALICE.address)
FAST = TransactorConfig(poll_s=0.02, idle_poll_s=0.1, resend_after_s=0.1)
LABEL = bytes32(keccak256(b"first pool"))


@pytest.fixture
async def transactor(eth: Eth) -> AsyncIterator[Transactor]:
    async with Transactor(eth, ALICE, MemoryOutbox(), FAST) as made:
        yield made


@pytest.fixture
async def book(transactor: Transactor) -> AddressBook:
    return await deployment.apply(transactor, SETTINGS)


async def test_apply_puts_every_contract_at_its_predicted_address(book: AddressBook, eth: Eth) -> None:
    assert book.contracts == {name: SETTINGS.address_of(name) for name in CORE}
    assert book.block == 1
    await verify_book(eth, book)


async def test_apply_twice_sends_nothing_and_keeps_the_book(book: AddressBook, transactor: Transactor) -> None:
    sent = len(transactor.rows())
    assert [step.is_done for step in await deployment.plan(transactor.eth, SETTINGS)] == [True] * len(CORE)
    assert await deployment.apply(transactor, SETTINGS, known=book) == book
    assert len(transactor.rows()) == sent


async def test_apply_after_half_a_deployment_does_the_rest(transactor: Transactor) -> None:
    for step in (await deployment.plan(transactor.eth, SETTINGS))[:3]:
        assert step.call is not None
        await (await transactor.send_call(step.key, step.call)).mined()
    sent = len(transactor.rows())
    book = await deployment.apply(transactor, SETTINGS)
    assert len(transactor.rows()) - sent == len(CORE) - 3
    await verify_book(transactor.eth, book)


async def test_apply_by_another_sender_finds_the_same_contracts(book: AddressBook, eth: Eth) -> None:
    async with Transactor(eth, development_wallet(1, 31337), MemoryOutbox(), FAST) as other:
        assert (await deployment.apply(other, SETTINGS)).contracts == book.contracts
        assert other.rows() == []


@pytest.mark.parametrize("depth", [1, 64])
async def test_C34_reorganisation_changes_no_address_and_a_repeat_deploys_again(
    book: AddressBook, transactor: Transactor, eth: Eth, depth: int
) -> None:
    params = deployment.default_pool_params(ALICE.address, ALICE.address, ALICE.address)
    full = await deployment.apply_development(transactor, book)
    params = dataclasses.replace(params, token=full.address("MockToken"))
    pool = await deployment.create_pool(transactor, full, LABEL, ALICE.address, params)
    if depth > 20:
        await eth.rpc.call("anvil_mine", hex(depth - 10))
    await eth.rpc.call("anvil_reorg", depth, [])
    again = await deployment.apply_development(transactor, await deployment.apply(transactor, SETTINGS))
    assert again.contracts == full.contracts
    assert await deployment.create_pool(transactor, again, LABEL, ALICE.address, params) == pool
    await transactor.handle(f"pool:{pool}").mined(10)  # type: ignore[union-attr]
    await verify_book(eth, again)
    assert await deployment.CoreContracts(eth, again).factory.is_pool(pool)


async def test_apply_development_lists_a_token_anyone_may_mint_once(book: AddressBook, transactor: Transactor) -> None:
    full = await deployment.apply_development(transactor, book)
    core = deployment.CoreContracts(transactor.eth, full)
    assert await core.tokens.is_listed(full.address("MockToken"))
    sent = len(transactor.rows())
    assert await deployment.apply_development(transactor, book) == full
    assert len(transactor.rows()) == sent


async def test_apply_development_on_another_chain_is_refused(book: AddressBook, transactor: Transactor) -> None:
    with pytest.raises(DevelopmentKeyError):
        await deployment.apply_development(transactor, dataclasses.replace(book, chain_id=1))


async def test_create_pool_twice_is_one_pool_with_its_parameters(book: AddressBook, transactor: Transactor) -> None:
    full = await deployment.apply_development(transactor, book)
    params = deployment.default_pool_params(full.address("MockToken"), ALICE.address, ALICE.address)
    first = await deployment.create_pool(transactor, full, LABEL, ALICE.address, params)
    assert await deployment.create_pool(transactor, full, LABEL, ALICE.address, params) == first
    core = deployment.CoreContracts(transactor.eth, full)
    assert await core.factory.pool_count() == 1
    assert await core.pool(first).params() == params
    assert await core.pool(first).owner() == ALICE.address


async def test_create_pool_with_a_bad_parameter_raises_its_error(book: AddressBook, transactor: Transactor) -> None:
    from millpond.chain.reverts import PoolFactoryParamOutsideError

    full = await deployment.apply_development(transactor, book)
    params = deployment.default_pool_params(full.address("MockToken"), ALICE.address, ALICE.address)
    with pytest.raises(PoolFactoryParamOutsideError) as caught:
        await deployment.create_pool(
            transactor, full, LABEL, ALICE.address, dataclasses.replace(params, feePpm=900_000)
        )
    assert caught.value.fields["value"] == 900_000
    assert bytes.fromhex(caught.value.fields["param"][2:]).rstrip(b"\0") == b"feePpm"


async def test_book_survives_its_file(book: AddressBook, tmp_path: Path) -> None:
    book.save(tmp_path / "deep" / "31337.json")
    assert AddressBook.load(tmp_path / "deep" / "31337.json") == book


async def test_verify_other_code_at_an_address_raises(book: AddressBook, eth: Eth) -> None:
    await eth.rpc.call("anvil_setCode", book.address("Escrow"), "0x60006000")
    with pytest.raises(CodeMismatchError) as caught:
        await verify_book(eth, book)
    assert caught.value.fields["contract"] == "Escrow"


async def test_verify_book_with_a_swapped_address_raises(book: AddressBook, eth: Eth) -> None:
    swapped = {**book.contracts, "Escrow": book.address("Staking")}
    with pytest.raises(CodeMismatchError):
        await verify_book(eth, dataclasses.replace(book, contracts=swapped))


async def test_verify_book_on_another_chain_raises(
    book: AddressBook, start_chain: Callable[[DevnetConfig], Awaitable[Devnet]]
) -> None:
    other = await start_chain(DevnetConfig(port=0, block_time_s=0, chain_id=5))
    async with Rpc(other.url) as rpc:
        with pytest.raises(WrongChainError):
            await verify_book(Eth(rpc), book)


async def test_verify_book_of_an_earlier_chain_of_the_same_id_raises(book: AddressBook, eth: Eth) -> None:
    with pytest.raises(AddressBookError, match="another chain"):
        await verify_book(eth, dataclasses.replace(book, genesis=Bytes32("0x" + "11" * 32)))


async def test_plan_where_other_code_lies_at_the_deterministic_deployer_raises(eth: Eth) -> None:
    await eth.rpc.call("anvil_setCode", CREATE2_DEPLOYER, "0x60")
    with pytest.raises(DeployerMissingError):
        await deployment.plan(eth, SETTINGS)


async def test_deployed_code_is_the_packaged_code_but_for_its_immutables(book: AddressBook, eth: Eth) -> None:
    for name in CORE:
        code = await eth.code(book.address(name))
        artefact = artefacts.load(name)
        assert artefact.matches(code)
        assert (code == artefact.deployed_bytecode) is (not artefact.immutables)


async def test_web3_reads_and_decodes_the_same(book: AddressBook, chain: Devnet) -> None:
    from web3.exceptions import ContractLogicError

    from millpond.chain import web3_adapter
    from millpond.chain.reverts import EscrowNothingOwedError

    web3 = web3_adapter.connect(chain.url)
    try:
        escrow = web3_adapter.contract(web3, "Escrow", book.address("Escrow"))
        assert await escrow.functions.free(ALICE.address, ALICE.address).call() == 0
        with pytest.raises(ContractLogicError) as caught:
            await escrow.functions.withdrawOwed(ALICE.address, ALICE.address).call()
        error = web3_adapter.typed_revert(caught.value)
        assert isinstance(error, EscrowNothingOwedError)
        assert error.fields == {"account": ALICE.address}
    finally:
        await web3.provider.disconnect()


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": "x"},
        {"contracts": {"Escrow": "0x12"}},
        {"settings": {}},
        {"genesis": 5},
        {"contracts": []},
    ],
)
async def test_malformed_book_raises(book: AddressBook, tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "book.json"
    path.write_text(json.dumps({**dataclasses.asdict(book), **change}))
    with pytest.raises(AddressBookError):
        AddressBook.load(path)


def test_missing_book_raises(tmp_path: Path) -> None:
    with pytest.raises(AddressBookError):
        AddressBook.load(tmp_path / "none.json")
