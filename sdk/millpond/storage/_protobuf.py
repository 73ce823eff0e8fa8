"""The three protobuf wire types that dag-pb and UnixFS use, read strictly."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.storage.errors import DagError

VARINT, BYTES = 0, 2
_MAX_VARINT = 10
_SMALL = [bytes([i]) for i in range(128)]


def varint(value: int) -> bytes:
    """LEB128 of an unsigned number."""
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, next position). Refuses values over 64 bits and padded forms."""
    value = shift = 0
    for i in range(at, min(len(data), at + _MAX_VARINT)):
        byte = data[i]
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= 1 << 64 or (byte == 0 and i > at):
                break
            return value, i + 1
        shift += 7
    raise DagError("a number in the block is malformed", position=at)


def bytes_field(number: int, data: bytes) -> bytes:
    return _SMALL[number << 3 | BYTES] + varint(len(data)) + data


def varint_field(number: int, value: int) -> bytes:
    return _SMALL[number << 3 | VARINT] + varint(value)


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) in order of appearance. Raises `DagError` on other wire types or truncation."""
    at, end = 0, len(data)
    while at < end:
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == VARINT:
            yield key >> 3, value
            continue
        if key & 7 != BYTES or value > end - at:
            raise DagError("a field of the block is malformed or cut short", wire_type=key & 7, position=at)
        yield key >> 3, data[at : at + value]
        at += value
