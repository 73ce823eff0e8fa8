"""Contract interfaces: selectors, topics, and conversion between Python values and ABI words. Pure.

Python sees addresses as checksummed `Address`, `bytes32` as `Bytes32` text, other bytes as `bytes`, structs as dicts keyed by
the names of the interface. Structs may be given as dicts, as dataclasses with those field names, or as tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eth_abi.abi import decode as eth_decode
from eth_abi.abi import encode as eth_encode
from eth_abi.exceptions import DecodingError, EncodingError

from millpond.chain.errors import AbiError
from millpond.protocol.hashing import keccak256, to_checksum_address


@dataclass(frozen=True, slots=True)
class Param:
    """One input or output. `type` is canonical: structs are spelt as tuples."""

    name: str
    type: str
    components: tuple[Param, ...] = ()
    is_indexed: bool = False
    struct: str = ""

    @property
    def is_array(self) -> bool:
        return self.type.endswith("]")


def _param(entry: Mapping[str, Any]) -> Param:
    components = tuple(_param(part) for part in entry.get("components", ()))
    kind: str = entry["type"]
    if kind.startswith("tuple"):
        kind = "(" + ",".join(part.type for part in components) + ")" + kind.removeprefix("tuple")
    struct = entry.get("internalType", "").removeprefix("struct ").split("[")[0].split(".")[-1] if components else ""
    return Param(entry.get("name", ""), kind, components, bool(entry.get("indexed")), struct)


@dataclass(frozen=True)
class Signature:
    """A function, event or error: its name and parameters."""

    name: str
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...] = ()
    mutability: str = "nonpayable"

    @property
    def text(self) -> str:
        return f"{self.name}({','.join(param.type for param in self.inputs)})"

    @cached_property
    def topic(self) -> bytes:
        return keccak256(self.text.encode())

    @property
    def selector(self) -> bytes:
        return self.topic[:4]

    @property
    def is_view(self) -> bool:
        return self.mutability in ("view", "pure")


def _signature(entry: Mapping[str, Any]) -> Signature:
    return Signature(
        entry.get("name", ""),
        tuple(_param(item) for item in entry.get("inputs", ())),
        tuple(_param(item) for item in entry.get("outputs", ())),
        entry.get("stateMutability", "nonpayable"),
    )


class ContractAbi:
    """One contract's interface, parsed from the JSON that solc writes."""

    def __init__(self, name: str, entries: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.entries = tuple(entries)
        self.functions = {item.name: item for item in self._of("function")}
        self.events = {item.topic: item for item in self._of("event")}
        self.errors = {item.selector: item for item in self._of("error")}
        self.constructor = next(iter(self._of("constructor")), Signature("", ()))

    def _of(self, kind: str) -> list[Signature]:
        return [_signature(entry) for entry in self.entries if entry["type"] == kind]

    def function(self, name: str) -> Signature:
        """Raises `AbiError` for a name the contract does not have."""
        if name not in self.functions:
            raise AbiError(f"{self.name} has no function {name}", contract=self.name, function=name)
        return self.functions[name]

    def event(self, name: str) -> Signature:
        """Raises `AbiError` for a name the contract does not have."""
        for signature in self.events.values():
            if signature.name == name:
                return signature
        raise AbiError(f"{self.name} has no event {name}", contract=self.name, event=name)

    def encode_call(self, name: str, *args: Any) -> bytes:
        """Selector and arguments; raises `AbiError`."""
        signature = self.function(name)
        return signature.selector + encode(signature.inputs, args)

    def encode_constructor(self, *args: Any) -> bytes:
        return encode(self.constructor.inputs, args)

    def decode_result(self, name: str, data: bytes) -> Any:
        """The only output, a tuple of several, or None."""
        values = decode(self.function(name).outputs, data)
        return values[0] if len(values) == 1 else tuple(values) or None


def encode(params: Sequence[Param], values: Sequence[Any]) -> bytes:
    """ABI words of `values`; raises `AbiError`."""
    if len(params) != len(values):
        raise AbiError(
            f"{len(values)} arguments where {len(params)} are needed", expected=len(params), actual=len(values)
        )
    try:
        plain = [_lower(param, value) for param, value in zip(params, values, strict=True)]
        return eth_encode([param.type for param in params], plain)
    except (EncodingError, TypeError, ValueError, AttributeError, KeyError) as error:
        raise AbiError(f"the arguments do not fit ({', '.join(p.type for p in params)}): {error}") from error


def decode(params: Sequence[Param], data: bytes) -> list[Any]:
    """Values of ABI words; raises `AbiError` when they are cut short or malformed."""
    if not params:
        return []
    try:
        values = eth_decode([param.type for param in params], data)
    except (DecodingError, ValueError, OverflowError) as error:
        raise AbiError(f"the data are no ({', '.join(p.type for p in params)}): {error}") from error
    return [_raise(param, value) for param, value in zip(params, values, strict=True)]


def named(params: Sequence[Param], values: Sequence[Any]) -> dict[str, Any]:
    return {param.name: value for param, value in zip(params, values, strict=True)}


def decode_event(signature: Signature, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
    """Arguments of a log by name. Indexed strings, bytes and structs stay the hash the log holds."""
    indexed = [param for param in signature.inputs if param.is_indexed]
    if len(topics) != len(indexed) + 1:
        raise AbiError(f"{signature.name} with {len(topics)} topics, expected {len(indexed) + 1}", event=signature.name)
    values: dict[str, Any] = {}
    for param, topic in zip(indexed, topics[1:], strict=True):
        is_hash = bool(param.components) or param.is_array or param.type in ("string", "bytes")
        values[param.name] = decode([Param(param.name, "bytes32") if is_hash else param], topic)[0]
    plain = [param for param in signature.inputs if not param.is_indexed]
    values.update(named(plain, decode(plain, data)))
    return {param.name: values[param.name] for param in signature.inputs}


def _element(param: Param) -> Param:
    return Param(param.name, param.type[: param.type.rindex("[")], param.components, struct=param.struct)


def _lower(param: Param, value: Any) -> Any:
    if param.is_array:
        return [_lower(_element(param), item) for item in value]
    if param.components:
        return tuple(_lower(part, item) for part, item in zip(param.components, as_tuple(param, value), strict=True))
    if param.type.startswith("bytes") and isinstance(value, str):
        return bytes.fromhex(value.removeprefix("0x"))
    return value


def as_tuple(param: Param, value: Any) -> tuple[Any, ...]:
    """A struct's values in the interface's order, from a dict, a dataclass or a tuple."""
    if isinstance(value, tuple | list):
        return tuple(value)
    if isinstance(value, Mapping):
        return tuple(value[part.name] for part in param.components)
    return tuple(getattr(value, part.name) for part in param.components)


def _raise(param: Param, value: Any) -> Any:
    if param.is_array:
        return [_raise(_element(param), item) for item in value]
    if param.components:
        return {part.name: _raise(part, item) for part, item in zip(param.components, value, strict=True)}
    if param.type == "address":
        return to_checksum_address(value)
    if param.type == "bytes32":
        return "0x" + value.hex()
    return value
