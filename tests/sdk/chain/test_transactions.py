"""Signed transactions equal eth-account's, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.chain.keys import development_wallet
from millpond.chain.transactions import Transaction, create2_address, transaction_hash
from millpond.protocol.ids import Address

WALLET = development_wallet(0, 31337)


@settings(max_examples=60, deadline=None)
@given(
    nonce=st.integers(0, 2**63),
    tip=st.integers(0, 2**64),
    extra=st.integers(0, 2**64),
    gas=st.integers(21_000, 2**40),
    value=st.integers(0, 2**96),
    data=st.binary(max_size=600),
    key=st.integers(1, 2**200).map(lambda number: number.to_bytes(32, "big")),
)
def test_sign_equals_eth_account(
    nonce: int, tip: int, extra: int, gas: int, value: int, data: bytes, key: bytes
) -> None:
    from eth_account import Account

    raw = Transaction(31337, nonce, tip, tip + extra, gas, WALLET.address, value, data).sign(key)
    fields = {
        "type": 2,
        "chainId": 31337,
        "nonce": nonce,
        "maxPriorityFeePerGas": tip,
        "maxFeePerGas": tip + extra,
        "gas": gas,
        "to": WALLET.address,
        "value": value,
        "data": data,
    }
    theirs = Account.sign_transaction(fields, key)
    assert raw == bytes(theirs.raw_transaction)
    assert transaction_hash(raw) == "0x" + bytes(theirs.hash).hex()


@pytest.mark.parametrize(
    ("deployer", "salt", "code", "expected"),
    [
        ("0x0000000000000000000000000000000000000000", "00" * 32, "00", "0x4D1A2e2bB4F88F0250f26Ffff098B0b30B26BF38"),
        (
            "0xdeadbeef00000000000000000000000000000000",
            "00" * 32,
            "00",
            "0xB928f69Bb1D91Cd65274e3c79d8986362984fDA3",
        ),
        (
            "0x00000000000000000000000000000000deadbeef",
            "00" * 28 + "cafebabe",
            "deadbeef",
            "0x60f3f640a8508fC6a86d45DF051962668E1e8AC7",
        ),
        ("0x0000000000000000000000000000000000000000", "00" * 32, "", "0xE33C0C7F7df4809055C3ebA6c09CFe4BaF1BD9e0"),
    ],
)
def test_create2_address_equals_the_examples_of_eip_1014(deployer: str, salt: str, code: str, expected: str) -> None:
    assert create2_address(Address(deployer), bytes.fromhex(salt), bytes.fromhex(code)) == expected
