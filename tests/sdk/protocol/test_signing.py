"""The hand-written EIP-712 encoders against eth-account's generic ones, and every field flipped."""

import dataclasses
import json
from importlib.resources import files
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given
from hypothesis import strategies as st

from millpond.protocol import signed
from millpond.protocol.hashing import FieldRangeError
from millpond.protocol.ids import Bytes32, address, bytes32
from millpond.protocol.signing import Domain, SignatureError, address_of, digest, recover, sign, verify
from millpond.protocol.typed import TypedStruct

SCHEMA = json.loads((files("millpond.protocol") / "eip712.json").read_text())
TYPES: list[type[TypedStruct]] = [getattr(signed, name) for name in SCHEMA["types"]]
KEY = bytes(range(1, 33))
DOMAIN = Domain(31337, address("0x" + "22" * 20))
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def value_of(kind: str) -> st.SearchStrategy[Any]:
    if kind == "address":
        return st.binary(min_size=20, max_size=20).map(lambda raw: address("0x" + raw.hex()))
    if kind == "bytes32":
        return st.binary(min_size=32, max_size=32).map(bytes32)
    if kind == "string":
        return st.text(max_size=80)
    return st.integers(0, 2 ** int(kind[4:]) - 1)


def instances(kind: type[TypedStruct]) -> st.SearchStrategy[TypedStruct]:
    return st.builds(kind, **{name: value_of(word) for word, name in kind.FIELDS})


any_message = st.sampled_from(TYPES).flatmap(instances)


def as_eth_account_signs(message: TypedStruct, domain: Domain) -> bytes:
    name = type(message).__name__
    fields = [{"type": kind, "name": field} for kind, field, _ in SCHEMA["types"][name]["fields"]]
    encoded = encode_typed_data(
        domain_data={
            "name": "Millpond",
            "version": "1",
            "chainId": domain.chain_id,
            "verifyingContract": domain.contract,
        },
        message_types={name: fields},
        message_data={field: value for (_, field), value in zip(message.FIELDS, message.as_tuple(), strict=True)},
    )
    return bytes(Account.sign_message(encoded, KEY).signature)


@given(any_message)
def test_C28_sign_of_any_message_equals_eth_account(message: Any) -> None:
    assert sign(message, DOMAIN, KEY) == as_eth_account_signs(message, DOMAIN)


@given(any_message, st.data())
def test_C28_digest_with_any_field_changed_differs(message: Any, data: st.DataObject) -> None:
    kind, field = data.draw(st.sampled_from(message.FIELDS))
    other = data.draw(value_of(kind).filter(lambda value: value != getattr(message, field)))

    assert digest(dataclasses.replace(message, **{field: other}), DOMAIN) != digest(message, DOMAIN)


@given(any_message)
def test_C27_recover_for_another_chain_or_contract_finds_another_signer(message: Any) -> None:
    signature = sign(message, DOMAIN, KEY)

    for other in (Domain(1, DOMAIN.contract), Domain(31337, address("0x" + "23" * 20))):
        with pytest.raises(SignatureError):
            verify(message, other, signature, address_of(KEY))


@given(any_message)
def test_recover_of_a_signed_message_is_the_signer(message: Any) -> None:
    assert recover(message, DOMAIN, sign(message, DOMAIN, KEY)) == address_of(KEY)


def test_C30_recover_of_a_malleated_signature_refuses() -> None:
    voucher = signed.Voucher(bytes32(b"\x01" * 32), 5)
    signature = sign(voucher, DOMAIN, KEY)
    high_s = ORDER - int.from_bytes(signature[32:64], "big")
    forged = signature[:32] + high_s.to_bytes(32, "big") + bytes([55 - signature[64]])

    with pytest.raises(SignatureError, match="upper half"):
        recover(voucher, DOMAIN, forged)


@pytest.mark.parametrize(
    "signature", [b"", b"\x00" * 65, b"\x01" * 64, b"\x01" * 64 + b"\x00", b"\x01" * 66, b"\x00" * 64 + b"\x1b"]
)
def test_C30_recover_of_a_malformed_signature_refuses(signature: bytes) -> None:
    with pytest.raises(SignatureError):
        recover(signed.Voucher(bytes32(b"\x01" * 32), 5), DOMAIN, signature)


def test_struct_hash_of_a_value_outside_its_type_names_the_field() -> None:
    with pytest.raises(FieldRangeError) as caught:
        signed.Voucher(Bytes32("0x" + "01" * 32), 2**128).struct_hash()

    assert caught.value.fields == {"field": "cumulative", "value": 2**128, "bits": 128}


@given(any_message)
def test_from_json_of_to_json_is_the_message(message: Any) -> None:
    assert type(message).from_json(json.loads(json.dumps(message.to_json()))) == message
