"""What the generated EIP-712 types share, and how ids and amounts look in JSON. Pydantic is imported only when an edge reads or writes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from millpond.protocol.errors import InputError
from millpond.protocol.hashing import to_checksum_address, word_uint

SMALL_BITS = 32
MAX_TEXT = 4096


class FormError(InputError):
    remedy_text = "Send exactly the fields of the type: no more, no less, integers beyond 32 bits as decimal strings."


class IdError(InputError):
    remedy_text = "Copy the identifier again from where it was shown; it is hexadecimal and starts with 0x."


class Address(str):
    """A checksummed 20-byte address."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _text_schema(address)


class Bytes32(str):
    """32 bytes as lower-case hex with 0x."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _text_schema(bytes32)


class AmountForm:
    """Marks an integer of token base units: a decimal string in JSON."""

    __slots__ = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def read(value: object) -> int:
            return value if type(value) is int else decimal(256, value, "amount")

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    def __get_pydantic_json_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        return json_form("uint256")


def _text_schema(parse: Any) -> Any:
    from pydantic_core import core_schema

    return core_schema.no_info_after_validator_function(parse, core_schema.str_schema(max_length=66, strict=True))


def address(value: str) -> Address:
    """Returns `value` with its EIP-55 checksum; raises `IdError` unless it is a 20-byte address with a right checksum."""
    try:
        return Address(to_checksum_address(value))
    except ValueError as error:
        raise IdError(f"not an address: {value!r} ({error})", value=value) from None


def bytes32(value: str | bytes) -> Bytes32:
    """Returns `value` as canonical hex; raises `IdError` unless it is 32 bytes."""
    try:
        raw = value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("0x"))
    except (ValueError, AttributeError):
        raise IdError(f"not 32 bytes of hexadecimal: {value!r}", value=repr(value)) from None
    if len(raw) != 32:
        raise IdError(f"{len(raw)} bytes where 32 are needed: {value!r}", value=repr(value))
    return Bytes32("0x" + raw.hex())


class TypedStruct:
    """Base of the signed types. `FIELDS` lists `(EIP-712 type, name)` in order."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[tuple[str, str], ...]]

    def struct_hash(self) -> Bytes32:
        """EIP-712 struct hash; raises `FieldRangeError`."""
        raise TypeError(f"{type(self).__name__} has no struct hash")

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields in order, bytes32 as bytes, as the ABI encoder takes a struct."""
        return tuple(_abi(kind, getattr(self, name)) for kind, name in self.FIELDS)

    def to_json(self) -> dict[str, Any]:
        """The fields in order; integers beyond 32 bits are decimal strings, since not every client has big integers."""
        return {name: _out(kind, getattr(self, name)) for kind, name in self.FIELDS}

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Reads what `to_json` writes; raises `FormError`, `IdError` or `FieldRangeError`, and nothing else."""
        if not isinstance(data, dict):
            raise FormError(f"{cls.__name__} must be an object, not {type(data).__name__}")
        names = {name for _, name in cls.FIELDS}
        if set(data) != names:
            missing, extra = sorted(names - set(data)), sorted(str(key) for key in set(data) - names)
            raise FormError(f"{cls.__name__}: missing {missing}, unknown {extra}", missing=missing, unknown=extra)
        return cls(**{name: _in(kind, data[name], name) for kind, name in cls.FIELDS})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def read(value: object) -> TypedStruct:
            return value if isinstance(value, cls) else cls.from_json(value)

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.plain_serializer_function_ser_schema(cls.to_json)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        names = [name for _, name in cls.FIELDS]
        properties = {name: json_form(kind) for kind, name in cls.FIELDS}
        return {
            "title": cls.__name__, "type": "object", "properties": properties, "required": names, "additionalProperties": False,
        }  # fmt: skip


def json_form(kind: str) -> dict[str, Any]:
    """JSON schema of a field of EIP-712 type `kind`, as `to_json` writes it."""
    if kind.startswith("uint"):
        bits = int(kind[4:])
        if bits <= SMALL_BITS:
            return {"type": "integer", "minimum": 0, "maximum": (1 << bits) - 1}
        return {"type": "string", "pattern": "^[0-9]{1,78}$"}
    if kind == "string":
        return {"type": "string", "maxLength": MAX_TEXT}
    return {"type": "string", "pattern": f"^0x[0-9a-fA-F]{{{40 if kind == 'address' else 64}}}$"}


def decimal(bits: int, value: object, name: str) -> int:
    """Reads a decimal string; raises `FormError` or `FieldRangeError`."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 78:
        raise FormError(f"{name} must be a decimal string", field=name)
    number = int(value)
    word_uint(number, bits, name)
    return number


def _abi(kind: str, value: Any) -> Any:
    return bytes.fromhex(value[2:]) if kind == "bytes32" else value


def _out(kind: str, value: Any) -> Any:
    return str(value) if kind.startswith("uint") and int(kind[4:]) > SMALL_BITS else value


def _in(kind: str, value: object, name: str) -> Any:
    if kind.startswith("uint"):
        return _integer(int(kind[4:]), value, name)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise FormError(f"{name} must be a string of at most {MAX_TEXT} characters", field=name)
    if kind == "address":
        return address(value)
    return bytes32(value) if kind == "bytes32" else value


def _integer(bits: int, value: object, name: str) -> int:
    if bits > SMALL_BITS:
        return decimal(bits, value, name)
    if type(value) is not int:
        raise FormError(f"{name} must be an integer", field=name)
    word_uint(value, bits, name)
    return value
