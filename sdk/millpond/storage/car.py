"""CARv1: a DAG as one stream of blocks (https://ipld.io/specs/transport/car/carv1/).

The header is the CBOR map {"roots": [cid...], "version": 1}; then, for each block, its length, CID and bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import BinaryIO

from anyio import to_thread

from millpond.storage._protobuf import varint
from millpond.storage.blocks import MAX_BLOCK_BYTES, Block, check_block
from millpond.storage.budget import Budget, Meter
from millpond.storage.cid import Cid, cid_from_bytes, cid_to_bytes
from millpond.storage.disk import typed_os_errors
from millpond.storage.errors import BudgetExceededError, CidError, DagError
from millpond.storage.port import BlockSink, BlockSource
from millpond.storage.reach import links_of
from millpond.storage.walk import Walk
from millpond.storage.writer import BlockWriter, write_blocks

_HEAD, _TAIL = b"\xa2eroots", b"gversion\x01"
_TAGGED_CID = b"\xd8\x2a\x58\x25\x00"
_TAGGED_BYTES = 41
_CIDV1_BYTES = 36
_CIDV0_BYTES = 34
_MAX_ROOTS = 23
_MAX_HEADER_BYTES = 2048
_MAX_LENGTH_BYTES = 5


async def iter_car(source: BlockSource, root: Cid, *, budget: Budget | None = None) -> AsyncIterator[bytes]:
    """The CAR of all that `root` reaches, each block once, parents first, in pieces."""
    walk = Walk(source, Meter(budget or Budget()))
    header = encode_header([root])
    yield varint(len(header)) + header
    seen: set[Cid] = {root}
    stack = [(root, 0)]
    while stack:
        cid, depth = stack.pop()
        walk.meter.visit(depth)
        data = await walk.fetch(cid)
        walk.meter.take(len(data))
        yield varint(_CIDV1_BYTES + len(data)) + cid_to_bytes(cid) + data
        fresh = [link for link in dict.fromkeys(links_of(cid, data)) if link not in seen]
        seen.update(fresh)
        stack.extend((link, depth + 1) for link in reversed(fresh))


async def export_car(source: BlockSource, root: Cid, target: BinaryIO, *, budget: Budget | None = None) -> None:
    """Write the CAR of `root` to an open binary file."""
    async for piece in iter_car(source, root, budget=budget):
        with typed_os_errors(getattr(target, "name", "car")):
            await to_thread.run_sync(target.write, piece)


async def import_car(store: BlockSink, source: BinaryIO, *, budget: Budget | None = None) -> list[Cid]:
    """Verify and store every block of a CAR; returns its roots.

    Raises `BlockTamperedError` on a block that is not what its CID says, `DagError` on a malformed or cut stream.
    Blocks before the fault may have been stored; nothing pins them.
    """
    meter = Meter(budget or Budget())
    return await write_blocks(store, lambda writer: _import(writer, source, meter))


async def _import(writer: BlockWriter, source: BinaryIO, meter: Meter) -> list[Cid]:
    header = await to_thread.run_sync(_read_section, source, _MAX_HEADER_BYTES)
    roots = decode_header(header or b"")
    while (block := await to_thread.run_sync(_read_block, source)) is not None:
        meter.visit(0)
        meter.take(len(block.data))
        await writer.add(block)
    return roots


def encode_header(roots: list[Cid]) -> bytes:
    """CBOR of the header, at most 23 roots."""
    return _HEAD + bytes([0x80 + len(roots)]) + b"".join(_TAGGED_CID + cid_to_bytes(root) for root in roots) + _TAIL


def decode_header(data: bytes) -> list[Cid]:
    """The roots. Only the one canonical form is taken. Raises `DagError`."""
    count = data[len(_HEAD)] - 0x80 if len(data) > len(_HEAD) else -1
    if not 0 <= count <= _MAX_ROOTS:
        raise DagError("this is not a CARv1 stream", head=data[:16].hex())
    body = data[len(_HEAD) + 1 : -len(_TAIL)]
    try:
        roots = [
            cid_from_bytes(body[at + 5 : at + _TAGGED_BYTES]) for at in range(0, count * _TAGGED_BYTES, _TAGGED_BYTES)
        ]
    except CidError as error:
        raise DagError(f"a root of the CAR is not usable: {error.message}") from error
    if encode_header(roots) != data:
        raise DagError("the header of the CAR is not in canonical form", head=data[:16].hex())
    return roots


def _read_block(source: BinaryIO) -> Block | None:
    section = _read_section(source, MAX_BLOCK_BYTES + _CIDV1_BYTES)
    if section is None:
        return None
    length = _CIDV0_BYTES if section[:2] == b"\x12\x20" else _CIDV1_BYTES
    try:
        cid = cid_from_bytes(section[:length])
    except CidError as error:
        raise DagError(f"a block of the CAR has no usable CID: {error.message}") from error
    return check_block(cid, section[length:])


def _read_section(source: BinaryIO, limit: int) -> bytes | None:
    """One length-prefixed section; None at the clean end of the stream."""
    with typed_os_errors(getattr(source, "name", "car")):
        size = _read_length(source)
        if size is None:
            return None
        if size > limit:
            raise BudgetExceededError(
                f"a section of the CAR has {size} bytes, over {limit}", what="bytes", used=size, limit=limit
            )
        data = source.read(size)
    if len(data) != size:
        raise DagError("the CAR is cut short", wanted=size, got=len(data))
    return data


def _read_length(source: BinaryIO) -> int | None:
    value = 0
    for position in range(_MAX_LENGTH_BYTES):
        byte = source.read(1)
        if not byte:
            if position == 0:
                return None
            raise DagError("the CAR is cut short")
        value |= (byte[0] & 127) << 7 * position
        if byte[0] < 128:
            return value
    raise DagError("a section length of the CAR is malformed")
