"""Every contract error becomes a typed error with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from millpond.chain import artefacts, reverts
from millpond.chain.abi import Param, Signature, encode
from millpond.chain.errors import RpcResponseError
from millpond.chain.remedies import REMEDIES
from millpond.chain.reverts import (
    ContractRevertError,
    EmptyRevertError,
    PanicRevertError,
    RevertReasonError,
    UnknownRevertError,
    decode_revert,
    from_rpc,
)
from millpond.protocol.errors import ChainError

ALL = sorted(reverts.signatures().values(), key=lambda item: item.name)


def sample(param: Param) -> Any:
    if param.type == "string":
        return "x"
    return "0x" + "00" * 20 if param.type == "address" else bytes(32) if param.type == "bytes32" else 7


def test_every_contract_error_has_a_remedy() -> None:
    assert [item.name for item in ALL if not REMEDIES.get(item.name)] == []


def test_contract_error_names_are_unique() -> None:
    assert len({item.name for item in ALL}) == len(ALL) > 100


@pytest.mark.parametrize("signature", ALL, ids=lambda item: item.name)
def test_decode_contract_error_gives_its_class_and_fields(signature: Signature) -> None:
    data = signature.selector + encode(signature.inputs, [sample(param) for param in signature.inputs])
    error = decode_revert(data, "Some.call")
    assert type(error).__name__ == f"{signature.name}Error"
    assert isinstance(error, ChainError)
    assert list(error.fields) == [param.name for param in signature.inputs]
    assert error.remedy
    assert error.message.startswith("Some.call: ")


def test_error_class_is_importable_by_name_and_is_one_class() -> None:
    from millpond.chain.reverts import EscrowInsufficientFreeError

    data = artefacts.load("Escrow").abi.errors
    selector = next(key for key, item in data.items() if item.name == "EscrowInsufficientFree")
    error = decode_revert(selector + encode([Param("a", "uint256"), Param("b", "uint256")], [5, 9]))
    assert type(error) is EscrowInsufficientFreeError
    assert error.fields == {"free": 5, "needed": 9}
    assert str(error) == "Escrow insufficient free (free 5, needed 9)"


def test_unknown_class_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = reverts.NoSuchThingError


def test_decode_reason_string() -> None:
    error = decode_revert(bytes.fromhex("08c379a0") + encode([Param("r", "string")], ["too late"]))
    assert isinstance(error, RevertReasonError)
    assert error.fields == {"reason": "too late"}


def test_decode_panic_tells_what_happened() -> None:
    error = decode_revert(bytes.fromhex("4e487b71") + encode([Param("c", "uint256")], [0x11]))
    assert isinstance(error, PanicRevertError)
    assert error.fields == {"panic": 17, "reason": "arithmetic overflow or underflow"}


def test_decode_empty_data_says_so() -> None:
    assert isinstance(decode_revert(b""), EmptyRevertError)


@pytest.mark.parametrize(
    "data", [b"\x01", b"\x01\x02\x03\x04", b"\x08\xc3\x79\xa0", b"\x08\xc3\x79\xa0" + b"\xff" * 64]
)
def test_decode_unknown_or_cut_data_keeps_the_bytes(data: bytes) -> None:
    error = decode_revert(data)
    assert isinstance(error, UnknownRevertError)
    assert error.fields["data"] == "0x" + data.hex()


def test_decode_known_error_cut_short_is_unknown() -> None:
    selector = next(item.selector for item in ALL if item.name == "EscrowInsufficientFree")
    assert isinstance(decode_revert(selector + bytes(10)), UnknownRevertError)


@pytest.mark.parametrize("data", ["0x", {"data": "0x"}, {"result": "0x"}])
def test_from_rpc_finds_data_where_servers_put_it(data: Any) -> None:
    assert isinstance(from_rpc(RpcResponseError("eth_call: no", code=3, data=data)), EmptyRevertError)


def test_from_rpc_other_error_is_no_revert() -> None:
    assert from_rpc(RpcResponseError("eth_call: rate limited", code=-32005, data=None)) is None


def test_from_rpc_revert_without_data_is_empty_revert() -> None:
    assert isinstance(from_rpc(RpcResponseError("eth_call: execution reverted", code=-32000)), ContractRevertError)
