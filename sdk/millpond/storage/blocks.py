"""A block: bytes with the CID they hash to. Whoever holds a `Block` need not hash again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from millpond.storage.cid import Cid, Codec, cid_of, cid_to_bytes
from millpond.storage.errors import BlockTamperedError, BlockTooLargeError

MAX_BLOCK_BYTES = 2 * 1024 * 1024
"""No party sends or accepts a larger block (the limit IPFS nodes use between each other)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Made by `make_block` (hashes) or `check_block` (verifies) only; stores trust the pair."""

    cid: Cid
    data: bytes = field(repr=False)


def make_block(data: bytes, codec: Codec = Codec.RAW) -> Block:
    """Name `data`. Raises `BlockTooLargeError`."""
    check_block_size(len(data))
    return Block(cid_of(data, codec), data)


def check_block(cid: Cid, data: bytes) -> Block:
    """Take `data` for the block `cid`, or raise `BlockTamperedError`."""
    check_block_size(len(data), cid)
    if hashlib.sha256(data).digest() != cid_to_bytes(cid)[4:]:
        raise BlockTamperedError(f"the bytes given for {cid} do not hash to it", cid=cid, size_bytes=len(data))
    return Block(cid, data)


def check_block_size(size: int, cid: Cid | None = None) -> None:
    """Raise `BlockTooLargeError` above `MAX_BLOCK_BYTES`."""
    if size > MAX_BLOCK_BYTES:
        raise BlockTooLargeError(
            f"a block of {size} bytes is over the limit of {MAX_BLOCK_BYTES}",
            cid=cid,
            size_bytes=size,
            limit_bytes=MAX_BLOCK_BYTES,
        )
