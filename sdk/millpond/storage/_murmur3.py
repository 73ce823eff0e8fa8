"""MurmurHash3 x64 128, first 64 bits, seed 0: what UnixFS shards directories by.

Source: Austin Appleby's public-domain description (https://github.com/aappleby/smhasher/wiki/MurmurHash3).
"""

from __future__ import annotations

from struct import iter_unpack

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur3_64(data: bytes) -> int:
    """The first half of the 128-bit hash."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for k1, k2 in iter_unpack("<QQ", data[:whole]):
        h1 = (_rotate(h1 ^ _mix(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:].ljust(16, b"\0")
    h1 ^= _mix(int.from_bytes(tail[:8], "little"), _C1, 31, _C2) ^ len(data)
    h2 ^= _mix(int.from_bytes(tail[8:], "little"), _C2, 33, _C1) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _final(h1) + _final(h2) & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mix(k: int, first: int, bits: int, second: int) -> int:
    return _rotate(k * first & _MASK, bits) * second & _MASK


def _final(k: int) -> int:
    k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & _MASK
    k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33
