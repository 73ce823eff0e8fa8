"""The one codec of task arguments and results: a length, a JSON header, raw buffers. Nothing in it can run code.

    u32 little-endian      length of the header, such that 4 + length is a multiple of 16
    header                 UTF-8 JSON {"v": 1, "n": [bytes of each buffer], "x": value}, then spaces
    buffers                in order, each padded with zeros to a multiple of 16

In `x`, JSON null, booleans, strings, finite floats, integers up to 2**53 - 1 and objects stand for themselves; the rest are arrays with a tag:

    ["l", item...] list      ["t", item...] tuple     ["d", [key, value]...] dict with other keys than strings
    ["i", "-0x1f"] integer   ["f", "nan"] float       ["b", k] bytes in buffer k
    ["a", dtype, [shape], k] array, C order           ["s", dtype, "hex"] NumPy scalar

The module needs the standard library only, and Python 3.9: the runner carries this very file into containers. NumPy is used when it is there.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
from typing import Any, Callable, Dict, List, NamedTuple, NoReturn, Optional, Tuple, Union

from .errors import InputError

VERSION = 1
ALIGNMENT = 16
MAX_PLAIN_INT = 2**53 - 1
DTYPES = frozenset(("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"))
_ITEM_BYTES = {dtype: int(dtype[2:]) for dtype in DTYPES}
_LENGTH = struct.Struct("<I")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_JSON_LEVELS_PER_VALUE = 3  # a dict with other keys than strings: tag, pairs, pair
_JSON_LEVELS_AROUND = 4
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))

Piece = Union[bytes, memoryview]
Readable = Union[bytes, bytearray, memoryview]


class ValueCodecError(InputError):
    """A value that cannot be sent, or bytes that are no value. Fields differ by message."""

    remedy_text = (
        "Pass plain values: None, bool, int, float, str, bytes, list, tuple, dict, and NumPy arrays of numbers."
    )


class Budget(NamedTuple):
    """Bounds checked before memory is spent: bytes of the whole, levels of nesting, values of any kind."""

    max_bytes: int = 1 << 30
    max_depth: int = 64
    max_items: int = 1_000_000


DEFAULT_BUDGET = Budget()


def _fail(message: str, **fields: Any) -> NoReturn:
    raise ValueCodecError(message, **fields)


# ENCODING


class _Encoder:
    """Turns a value into its JSON tree and the list of its buffers."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.buffers: List[Piece] = []
        self.items = 0
        self.size = 0

    def tree(self, value: Any, depth: int) -> Any:
        self.items += 1
        if self.items > self.budget.max_items:
            _fail("the value has too many items", bound=self.budget.max_items)
        if depth > self.budget.max_depth:
            _fail("the value is nested too deeply, or contains itself", bound=self.budget.max_depth)
        write = _WRITERS.get(type(value))
        if write is not None:
            return write(self, value, depth)
        return self._numpy(value)

    def buffer(self, piece: Piece) -> int:
        self.size += len(piece)
        if self.size > self.budget.max_bytes:
            _fail("the value is too large", bound=self.budget.max_bytes)
        self.buffers.append(piece)
        return len(self.buffers) - 1

    def _numpy(self, value: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
            _fail(f"a value of type {type(value).__name__} cannot be sent", type=type(value).__name__)
        little = value.dtype.newbyteorder("<")
        if little.str not in DTYPES:
            _fail(f"an array of dtype {value.dtype} cannot be sent", dtype=str(value.dtype))
        if isinstance(value, numpy.generic):
            return ["s", little.str, value.astype(little).tobytes().hex()]
        if type(value) is not numpy.ndarray:
            _fail(f"a value of type {type(value).__name__} cannot be sent", type=type(value).__name__)
        array = value.astype(little, order="C", copy=False)
        return ["a", little.str, list(array.shape), self.buffer(array.reshape(-1).view(numpy.uint8).data)]


def _write_plain(_encoder: _Encoder, value: Any, _depth: int) -> Any:
    return value


def _write_int(_encoder: _Encoder, value: int, _depth: int) -> Any:
    return value if -MAX_PLAIN_INT <= value <= MAX_PLAIN_INT else ["i", hex(value)]


def _write_float(_encoder: _Encoder, value: float, _depth: int) -> Any:
    return value if math.isfinite(value) else ["f", repr(value)]


def _write_bytes(encoder: _Encoder, value: bytes, _depth: int) -> Any:
    return ["b", encoder.buffer(value)]


def _write_list(encoder: _Encoder, value: List[Any], depth: int) -> Any:
    return ["l", *[encoder.tree(item, depth + 1) for item in value]]


def _write_tuple(encoder: _Encoder, value: Tuple[Any, ...], depth: int) -> Any:
    return ["t", *[encoder.tree(item, depth + 1) for item in value]]


def _write_dict(encoder: _Encoder, value: Dict[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value):
        return {key: encoder.tree(item, depth + 1) for key, item in value.items()}
    return ["d", *[[encoder.tree(key, depth + 1), encoder.tree(item, depth + 1)] for key, item in value.items()]]


_WRITERS: Dict[type, Callable[[_Encoder, Any, int], Any]] = {
    type(None): _write_plain,
    bool: _write_plain,
    str: _write_plain,
    int: _write_int,
    float: _write_float,
    bytes: _write_bytes,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
}


def encode(value: Any, budget: Budget = DEFAULT_BUDGET) -> List[Piece]:
    """Pieces whose concatenation is the encoded value. Arrays in C order and little-endian are not copied.

    Raises `ValueCodecError` for a type that has no encoding, or a value over the budget.
    """
    encoder = _Encoder(budget)
    tree = encoder.tree(value, 1)
    header = {"v": VERSION, "n": [len(piece) for piece in encoder.buffers], "x": tree}
    try:
        text = _JSON.encode(header).encode()
    except UnicodeEncodeError as error:
        raise ValueCodecError("a string holds half a surrogate pair", reason=error.reason) from error
    text += b" " * _padding(_LENGTH.size + len(text))
    if len(text) > min(budget.max_bytes, 0xFFFFFFFF):
        _fail("the value is too large", bound=budget.max_bytes)
    pieces: List[Piece] = [_LENGTH.pack(len(text)) + text]
    for piece in encoder.buffers:
        pieces.append(piece)
        if _padding(len(piece)):
            pieces.append(bytes(_padding(len(piece))))
    return pieces


def encode_bytes(value: Any, budget: Budget = DEFAULT_BUDGET) -> bytes:
    """The encoded value as one `bytes` (one copy of each array)."""
    return b"".join(encode(value, budget))


def _padding(length: int) -> int:
    return -length % ALIGNMENT


# DECODING


class _Decoder:
    """Rebuilds a value from its JSON tree; every buffer must be used once, in order."""

    def __init__(self, buffers: List[memoryview], budget: Budget) -> None:
        self.buffers = buffers
        self.budget = budget
        self.items = 0
        self.used = 0

    def value(self, tree: Any, depth: int) -> Any:
        self.items += 1
        if self.items > self.budget.max_items:
            _fail("the value has too many items", bound=self.budget.max_items)
        if depth > self.budget.max_depth:
            _fail("the value is nested too deeply", bound=self.budget.max_depth)
        if type(tree) is dict:
            return {key: self.value(item, depth + 1) for key, item in tree.items()}
        if type(tree) is not list:
            return tree
        read = _READERS.get(tree[0]) if tree and type(tree[0]) is str else None
        if read is None:
            _fail("the header has an unknown tag")
        return read(self, tree, depth)

    def buffer(self, index: Any) -> memoryview:
        if type(index) is not int or index != self.used or index >= len(self.buffers):
            _fail("the header refers to a wrong buffer")
        self.used += 1
        return self.buffers[index]


def _read_list(decoder: _Decoder, tree: List[Any], depth: int) -> Any:
    return [decoder.value(item, depth + 1) for item in tree[1:]]


def _read_tuple(decoder: _Decoder, tree: List[Any], depth: int) -> Any:
    return tuple(_read_list(decoder, tree, depth))


def _read_dict(decoder: _Decoder, tree: List[Any], depth: int) -> Any:
    pairs = tree[1:]
    if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
        _fail("the header has a dict entry that is no pair")
    try:
        result = {decoder.value(key, depth + 1): decoder.value(item, depth + 1) for key, item in pairs}
    except TypeError as error:
        raise ValueCodecError("the header has a dict key that cannot be one") from error
    if len(result) != len(pairs):
        _fail("the header has the same dict key twice")
    return result


def _read_int(_decoder: _Decoder, tree: List[Any], _depth: int) -> Any:
    _shape(tree, str)
    try:
        number = int(tree[1], 16)
    except ValueError as error:
        raise ValueCodecError("the header has a malformed integer") from error
    if hex(number) != tree[1] or -MAX_PLAIN_INT <= number <= MAX_PLAIN_INT:
        _fail("the header has a malformed integer")
    return number


def _read_float(_decoder: _Decoder, tree: List[Any], _depth: int) -> Any:
    _shape(tree, str)
    if tree[1] not in _FLOATS:
        _fail("the header has a malformed float")
    return _FLOATS[tree[1]]


def _read_bytes(decoder: _Decoder, tree: List[Any], _depth: int) -> Any:
    _shape(tree, int)
    return bytes(decoder.buffer(tree[1]))


def _read_array(decoder: _Decoder, tree: List[Any], _depth: int) -> Any:
    _shape(tree, str, list, int)
    _, dtype, shape, index = tree
    if dtype not in DTYPES or len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        _fail("the header has a malformed array")
    raw = decoder.buffer(index)
    if math.prod(shape) * _ITEM_BYTES[dtype] != len(raw):
        _fail(
            "an array's shape does not fit its buffer", expected=math.prod(shape) * _ITEM_BYTES[dtype], actual=len(raw)
        )
    try:
        return _numpy().frombuffer(raw, dtype=dtype).reshape(shape)
    except ValueError as error:
        raise ValueCodecError("the header has a malformed array") from error


def _read_scalar(_decoder: _Decoder, tree: List[Any], _depth: int) -> Any:
    _shape(tree, str, str)
    _, dtype, text = tree
    if dtype not in DTYPES or len(text) != 2 * _ITEM_BYTES[dtype]:
        _fail("the header has a malformed scalar")
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise ValueCodecError("the header has a malformed scalar") from error
    if raw.hex() != text:
        _fail("the header has a malformed scalar")
    return _numpy().frombuffer(raw, dtype=dtype)[0]


_READERS: Dict[str, Callable[[_Decoder, List[Any], int], Any]] = {
    "l": _read_list,
    "t": _read_tuple,
    "d": _read_dict,
    "i": _read_int,
    "f": _read_float,
    "b": _read_bytes,
    "a": _read_array,
    "s": _read_scalar,
}


def _shape(tree: List[Any], *kinds: type) -> None:
    if len(tree) != len(kinds) + 1 or any(type(item) is not kind for item, kind in zip(tree[1:], kinds)):
        _fail("the header has a malformed entry", tag=tree[0])


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ValueCodecError(
            "the value holds NumPy arrays", remedy="Install numpy where the value is read."
        ) from error
    return np


def _plain_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_PLAIN_INT or text == "-0":
        _fail("the header has a malformed integer")
    return int(text)


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _fail("the header has a number that is no float")
    return number


def _no_constant(text: str) -> NoReturn:
    _fail("the header has a bare constant", constant=text)


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        _fail("the header has the same key twice")
    return result


_HEADER = json.JSONDecoder(
    parse_int=_plain_int, parse_float=_finite_float, parse_constant=_no_constant, object_pairs_hook=_unique
)


def _check_depth(text: bytes, most: int) -> None:
    """Refuses brackets nested beyond `most` before the parser, which recurses in C, meets them.

    Where a program has raised Python's recursion limit, that parser overflows the stack instead of raising `RecursionError`.
    """
    if text.count(b"[") + text.count(b"{") <= most:
        return
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            if depth > most:
                _fail("the header is nested too deeply", bound=most)
        elif first in b"]}":
            depth -= 1


def _parse_header(text: bytes, max_depth: int) -> Tuple[List[int], Any]:
    _check_depth(text, _JSON_LEVELS_PER_VALUE * max_depth + _JSON_LEVELS_AROUND)
    try:
        header = _HEADER.decode(text.decode())
        if b"\\u" in text:
            _JSON.encode(header).encode()
    except (ValueError, RecursionError) as error:
        raise ValueCodecError("the header is no JSON", reason=type(error).__name__) from error
    if (
        type(header) is not dict
        or list(header) != ["v", "n", "x"]
        or header["v"] != VERSION
        or type(header["n"]) is not list
    ):
        _fail("the header is no value header of this version", version=VERSION)
    if not all(type(length) is int and length >= 0 for length in header["n"]):
        _fail("the header has a malformed buffer length")
    return header["n"], header["x"]


def _split(view: memoryview, lengths: List[int]) -> List[memoryview]:
    buffers, position = [], 0
    if sum(length + _padding(length) for length in lengths) != len(view):
        _fail("the bytes are cut short or go on after the value")
    for length in lengths:
        buffers.append(view[position : position + length])
        position += length + _padding(length)
        if any(view[position - _padding(length) : position]):
            _fail("the padding is not zero")
    return buffers


def decode(buffer: Readable, budget: Optional[Budget] = None) -> Any:
    """The value that `buffer` holds. Arrays are views into `buffer`: writable when it is (pass a `bytearray`), else read-only.

    Raises `ValueCodecError` for anything but exactly one well-formed value inside the budget.
    """
    bounds = budget or DEFAULT_BUDGET
    view = memoryview(buffer).cast("B")
    if len(view) > bounds.max_bytes:
        _fail("the value is too large", bound=bounds.max_bytes, actual=len(view))
    if len(view) < _LENGTH.size:
        _fail("the bytes are cut short or go on after the value")
    (length,) = _LENGTH.unpack_from(view)
    start = _LENGTH.size + length
    if start % ALIGNMENT or start > len(view):
        _fail("the header's length is wrong", length=length)
    lengths, tree = _parse_header(bytes(view[_LENGTH.size : start]), bounds.max_depth)
    if len(lengths) > bounds.max_items:
        _fail("the value has too many items", bound=bounds.max_items)
    decoder = _Decoder(_split(view[start:], lengths), bounds)
    value = decoder.value(tree, 1)
    if decoder.used != len(lengths):
        _fail("a buffer is not used")
    return value
