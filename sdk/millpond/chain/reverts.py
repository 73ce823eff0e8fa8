"""Revert data become typed Python errors, one class per error of the packaged contracts.

`EscrowInsufficientFree(uint256 free, uint256 needed)` is raised as `EscrowInsufficientFreeError`, with `fields` {"free", "needed"};
import it from here by that name, or catch `ContractRevertError` for any.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, ClassVar

from millpond.chain import artefacts
from millpond.chain.abi import Param, Signature, decode, named
from millpond.chain.errors import AbiError, RpcResponseError
from millpond.chain.remedies import PANICS, REMEDIES
from millpond.protocol.errors import ChainError
from millpond.protocol.hashing import keccak256

_REVERT = keccak256(b"Error(string)")[:4]
_PANIC = keccak256(b"Panic(uint256)")[:4]


class ContractRevertError(ChainError):
    """A contract refused a call. `signature` is the Solidity error; `fields` its arguments by name."""

    signature: ClassVar[Signature | None] = None
    remedy_text = "Read the message; the contract's interface says when it refuses."


class RevertReasonError(ContractRevertError):
    """A contract reverted with a text. Fields: reason."""


class PanicRevertError(ContractRevertError):
    """Solidity's own check failed. Fields: panic (code), reason."""

    remedy_text = "This is a defect of the contract or of the values it was given; report it with the transaction."


class EmptyRevertError(ContractRevertError):
    remedy_text = "Check the address: most often there is no such contract, or it is of another release."


class UnknownRevertError(ContractRevertError):
    """The error belongs to no packaged contract. Fields: data."""

    remedy_text = "Check that the address book and this release belong together."


@cache
def signatures() -> dict[bytes, Signature]:
    """Every error of the packaged contracts, by selector."""
    return {selector: item for name in artefacts.names() for selector, item in artefacts.load(name).abi.errors.items()}


@cache
def error_class(name: str) -> type[ContractRevertError]:
    """The Python class of the contract error `name`; raises `KeyError` for an unknown one."""
    signature = {item.name: item for item in signatures().values()}[name]
    body = {
        "signature": signature,
        "remedy_text": REMEDIES.get(name, ContractRevertError.remedy_text),
        "__doc__": f"Contract error `{signature.text}`.",
        "__module__": __name__,
    }
    return type(f"{name}Error", (ContractRevertError,), body)


def __getattr__(name: str) -> type[ContractRevertError]:
    if name.endswith("Error") and not name.startswith("_"):
        try:
            return error_class(name.removesuffix("Error"))
        except KeyError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def decode_revert(data: bytes, context: str = "") -> ContractRevertError:
    """The error that revert `data` stand for; `context` says which call reverted."""
    prefix = f"{context}: " if context else ""
    if not data:
        return EmptyRevertError(f"{prefix}reverted without a reason", context=context)
    try:
        return _decode(data, prefix)
    except AbiError:
        return _unknown(data, prefix)


def _decode(data: bytes, prefix: str) -> ContractRevertError:
    selector, body = data[:4], data[4:]
    if selector == _REVERT:
        reason = decode([Param("reason", "string")], body)[0]
        return RevertReasonError(f"{prefix}{reason}", reason=reason)
    if selector == _PANIC:
        code = decode([Param("code", "uint256")], body)[0]
        reason = PANICS.get(code, "unknown panic")
        return PanicRevertError(f"{prefix}{reason} (panic 0x{code:02x})", panic=code, reason=reason)
    signature = signatures().get(selector)
    if signature is None:
        return _unknown(data, prefix)
    fields = named(signature.inputs, decode(signature.inputs, body))
    return error_class(signature.name)(f"{prefix}{_sentence(signature, fields)}", **fields)


def _unknown(data: bytes, prefix: str) -> ContractRevertError:
    return UnknownRevertError(f"{prefix}reverted with the unknown error 0x{data[:4].hex()}", data="0x" + data.hex())


def _sentence(signature: Signature, fields: dict[str, Any]) -> str:
    """`EscrowInsufficientFree` with its fields, as words: "escrow insufficient free (free 5, needed 9)"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", signature.name)
    values = ", ".join(f"{name} {value}" for name, value in fields.items())
    return f"{words[0]}{words[1:].lower()}" + (f" ({values})" if values else "")


def from_rpc(error: RpcResponseError, context: str = "") -> ContractRevertError | None:
    """The revert behind an RPC error of `eth_call` or `eth_estimateGas`; None when it is no revert."""
    data = error.fields.get("data")
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    if isinstance(data, str) and data.startswith("0x") and len(data) % 2 == 0:
        return decode_revert(bytes.fromhex(data[2:]), context)
    is_revert = error.fields.get("code") == 3 or "revert" in error.message.lower()
    return decode_revert(b"", context) if is_revert else None
