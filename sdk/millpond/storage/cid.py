"""Content identifiers: CIDv1, sha2-256, base32, codecs `raw` and `dag-pb`.

A `Cid` is the canonical text, so it is hashable, ordered and JSON as it stands. Only `parse_cid`, `cid_of` and
`cid_from_bytes` make one. Layout of the bytes: version 1, codec, multihash code 0x12, digest length 0x20, 32 bytes
(https://github.com/multiformats/cid). CIDv0 (`Qm...`) is accepted on input and turned into its CIDv1 equal.
"""

from __future__ import annotations

import hashlib
from base64 import b32decode
from binascii import Error as BinasciiError
from enum import IntEnum
from typing import NewType

from millpond.storage.errors import CidError

Cid = NewType("Cid", str)

_HEAD = b"\x01%c\x12\x20"
_BYTES = 36
_TEXT = 59
_V0_BYTES = 34
_V0_TEXT = 46
_B58 = {c: i for i, c in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_B32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _B32 for second in _B32]
_SHIFTS = range(280, -1, -10)


class Codec(IntEnum):
    """What the bytes of a block are (multicodec numbers)."""

    RAW = 0x55
    DAG_PB = 0x70


_HEADS = {codec: _HEAD % codec for codec in Codec}


def cid_of(block: bytes | bytearray | memoryview, codec: Codec = Codec.RAW) -> Cid:
    """The CID of one block."""
    return _format(_HEADS[codec] + hashlib.sha256(block).digest())


def parse_cid(text: str) -> Cid:
    """Check `text` and return its canonical form. Raises `CidError` on anything but a sha2-256 CID."""
    if not isinstance(text, str):
        raise CidError("a CID is text", got=type(text).__name__)
    if len(text) == _V0_TEXT and text.startswith("Qm"):
        return cid_from_bytes(_b58decode(text))
    cid = _format(_checked(_b32decode(text)))
    if cid != text:
        raise CidError("this CID is not in canonical base32", cid=text)
    return cid


def cid_from_bytes(data: bytes) -> Cid:
    """The CID in binary form, as links carry it. Raises `CidError`."""
    if len(data) == _V0_BYTES and data[:2] == b"\x12\x20":
        return _format(_HEADS[Codec.DAG_PB] + data[2:])
    return _format(_checked(data))


def cid_to_bytes(cid: Cid) -> bytes:
    """The 36 bytes of the binary form."""
    return _b32decode(cid)


def codec_of(cid: Cid) -> Codec:
    """Whether the block is raw bytes or a dag-pb node."""
    return Codec(_b32decode(cid)[1])


def _format(data: bytes) -> Cid:
    """36 bytes are 57.6 digits of base32: two digits at a time, since a task makes several CIDs and the library's way takes longer."""
    number = int.from_bytes(data, "big") << 2
    return Cid("b" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS]))


def _b32decode(text: str) -> bytes:
    if len(text) != _TEXT or text[0] != "b" or not text.isascii():
        raise CidError("this is not a CIDv1 in base32 with sha2-256", cid=text[:80], length=len(text))
    try:
        return b32decode(text[1:].upper() + "======")
    except BinasciiError:
        raise CidError("this CID has characters outside base32", cid=text) from None


def _checked(data: bytes) -> bytes:
    if len(data) != _BYTES or data[0] != 1 or data[2:4] != b"\x12\x20":
        raise CidError("only CIDv1 with sha2-256 is used", head=bytes(data[:4]).hex(), length=len(data))
    if data[1] not in (Codec.RAW, Codec.DAG_PB):
        raise CidError("only the codecs raw and dag-pb are used", codec=hex(data[1]))
    return data


def _b58decode(text: str) -> bytes:
    value = 0
    for char in text:
        if char not in _B58:
            raise CidError("this CIDv0 has characters outside base58", cid=text)
        value = value * 58 + _B58[char]
    if value.bit_length() > _V0_BYTES * 8:
        raise CidError("this CIDv0 is too long", cid=text)
    return value.to_bytes(_V0_BYTES, "big")
