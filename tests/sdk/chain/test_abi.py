"""Encoding and decoding against web3's own codec and against malformed data."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from millpond.chain import artefacts
from millpond.chain.abi import ContractAbi, Param, decode, decode_event, encode
from millpond.chain.errors import AbiError
from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32
from millpond.protocol.signed import Offer

ALICE = Address("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
ONE = Bytes32("0x" + "11" * 32)
OFFER = Offer(
    controller=ALICE,
    device=ONE,
    epoch=1,
    mode=1,
    isolation=2,
    share=500,
    memoryMiB=4096,
    cpuMilli=2000,
    ramMiB=8192,
    diskMiB=100,
    bandwidthMbit=10,
    pricePerSecond=2**79,
    tick=10,
    notice=60,
    determinism=ONE,
    maxDuration=3600,
    capPerRenter=2,
    deadline=2**63,
)


def test_encode_struct_from_dataclass_dict_and_tuple_gives_same_words() -> None:
    abi = artefacts.load("Controller").abi
    fields = {field.name: getattr(OFFER, field.name) for field in dataclasses.fields(OFFER)}
    forms: list[Any] = [OFFER, fields, tuple(fields.values())]
    assert len({abi.encode_call("offerDigest", form) for form in forms}) == 1


def test_encode_call_equals_web3_for_every_kind_of_argument() -> None:
    from web3 import Web3

    abi = artefacts.load("Controller").abi
    theirs = Web3().eth.contract(abi=list(abi.entries))
    fields = tuple(
        bytes.fromhex(value[2:]) if isinstance(value, str) and len(value) == 66 else value
        for value in dataclasses.astuple(OFFER)
    )
    assert "0x" + abi.encode_call("offerDigest", OFFER).hex() == theirs.encode_abi("offerDigest", [fields])
    args = (ONE, "https://node.example/ü", ONE, 3600)
    plain = [bytes.fromhex(ONE[2:]), args[1], bytes.fromhex(ONE[2:]), 3600]
    assert "0x" + abi.encode_call("announce", *args).hex() == theirs.encode_abi("announce", plain)


def test_selectors_and_topics_equal_web3_for_every_packaged_contract() -> None:
    from eth_utils.abi import event_abi_to_log_topic, function_abi_to_4byte_selector

    for name in artefacts.names():
        abi = artefacts.load(name).abi
        for entry in abi.entries:
            if entry["type"] == "function":
                assert abi.function(entry["name"]).selector == function_abi_to_4byte_selector(entry)  # type: ignore[arg-type]
            if entry["type"] == "event":
                assert event_abi_to_log_topic(entry) in abi.events  # type: ignore[arg-type]


def test_decode_returns_checksummed_addresses_and_hexadecimal_words() -> None:
    params = [Param("who", "address"), Param("what", "bytes32"), Param("raw", "bytes"), Param("many", "uint256[]")]
    values = [ALICE, ONE, b"\x00\xff", [1, 2**255]]
    assert decode(params, encode(params, values)) == values


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 63])
def test_decode_cut_short_raises(cut: int) -> None:
    params = [Param("who", "address"), Param("what", "bytes32")]
    with pytest.raises(AbiError):
        decode(params, encode(params, [ALICE, ONE])[:cut])


@pytest.mark.parametrize(
    "values",
    [(ALICE,), (ALICE, 2**256), (ALICE, -1), ("0x12", 1), (None, 1), (ALICE, "1")],
    ids=["too few", "too large", "negative", "no address", "none", "text for a number"],
)
def test_encode_wrong_arguments_raises(values: tuple[Any, ...]) -> None:
    with pytest.raises(AbiError):
        encode([Param("who", "address"), Param("amount", "uint256")], values)


def test_encode_unknown_function_raises_with_its_name() -> None:
    with pytest.raises(AbiError) as caught:
        artefacts.load("Escrow").abi.encode_call("stealAll")
    assert caught.value.fields == {"contract": "Escrow", "function": "stealAll"}


def test_decode_event_splits_indexed_and_plain_arguments() -> None:
    signature = artefacts.load("Escrow").abi.event("Deposited")
    word = bytes(12) + bytes.fromhex(ALICE[2:])
    args = decode_event(signature, [signature.topic, word, word, word], (7).to_bytes(32, "big"))
    assert args == {"token": ALICE, "account": ALICE, "funder": ALICE, "amount": 7}


def test_decode_event_with_missing_topic_raises() -> None:
    signature = artefacts.load("Escrow").abi.event("Deposited")
    with pytest.raises(AbiError):
        decode_event(signature, [signature.topic], (7).to_bytes(32, "big"))


def test_decode_result_of_several_outputs_is_a_tuple() -> None:
    abi = artefacts.load("Escrow").abi
    assert abi.decode_result("noticed", (5).to_bytes(32, "big") + (6).to_bytes(32, "big")) == (5, 6)


def test_constructor_without_arguments_encodes_to_nothing() -> None:
    assert ContractAbi("None", []).encode_constructor() == b""
    assert decode([Param("a", "address")], bytes(32)) == [ZERO_ADDRESS]
