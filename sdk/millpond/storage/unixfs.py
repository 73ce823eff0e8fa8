"""UnixFS: what a dag-pb node says about files and directories (https://specs.ipfs.tech/unixfs/).

Profile `unixfs-v1-2025`: chunks of 1 MiB, at most 1,024 links per file node, balanced, raw leaves, directories
sharded (HAMT, fan-out 256) when their block would exceed 256 KiB; no mode, no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from millpond.storage._protobuf import bytes_field, read_fields, varint_field
from millpond.storage.blocks import Block, make_block
from millpond.storage.cid import Codec
from millpond.storage.dagpb import Link, Node, decode_node, encode_node
from millpond.storage.errors import DagError

_TYPE, _DATA, _FILE_SIZE, _BLOCK_SIZES, _HASH_TYPE, _FANOUT = 1, 2, 3, 4, 5, 6
_MODE, _MTIME = 7, 8
_DIRECTORY_DATA = b"\x08\x01"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file is cut and a directory sharded. The default is the profile; others exist to test the tree."""

    chunk_bytes: int = 1024 * 1024
    width: int = 1024
    shard_over_bytes: int = 256 * 1024


PROFILE = Layout()


class Kind(IntEnum):
    RAW = 0
    DIRECTORY = 1
    FILE = 2
    METADATA = 3
    SYMLINK = 4
    HAMT_SHARD = 5


@dataclass(frozen=True, slots=True)
class UnixFs:
    """The data part of a node. Sizes in bytes."""

    kind: Kind
    data: bytes = b""
    file_bytes: int = 0
    block_bytes: tuple[int, ...] = ()
    hash_type: int = 0
    fanout: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A finished subtree: `content_bytes` of the file in it, `link.dag_bytes` of blocks."""

    link: Link
    content_bytes: int


def file_node(parts: Sequence[Part]) -> tuple[Block, Part]:
    """The inner node over `parts`, in order."""
    content = sum(part.content_bytes for part in parts)
    data = encode_file_data(content, [part.content_bytes for part in parts])
    links = [part.link for part in parts]
    block = make_block(encode_node(links, data), Codec.DAG_PB)
    return block, Part(link_to(block, links), content)


def directory_block(links: Sequence[Link]) -> tuple[Block, Link]:
    """The basic (unsharded) directory. Raises `BlockTooLargeError` far beyond the point where it should be sharded."""
    ordered = sorted(links, key=lambda link: link.name.encode())
    block = make_block(encode_node(ordered, _DIRECTORY_DATA), Codec.DAG_PB)
    return block, link_to(block, ordered)


def directory_block_bytes(links: Sequence[Link]) -> int:
    """How large the basic directory would be: what decides on sharding."""
    return len(encode_node(links, _DIRECTORY_DATA))


def link_to(block: Block, children: Sequence[Link] = ()) -> Link:
    """A nameless link to `block` with the size of all it reaches."""
    return Link(block.cid, "", len(block.data) + sum(child.dag_bytes for child in children))


def encode_file_data(file_bytes: int, block_bytes: Sequence[int]) -> bytes:
    sizes = b"".join(varint_field(_BLOCK_SIZES, size) for size in block_bytes)
    return varint_field(_TYPE, Kind.FILE) + varint_field(_FILE_SIZE, file_bytes) + sizes


def encode_shard_data(bitfield: bytes, hash_type: int, fanout: int) -> bytes:
    return (
        varint_field(_TYPE, Kind.HAMT_SHARD)
        + bytes_field(_DATA, bitfield)
        + varint_field(_HASH_TYPE, hash_type)
        + varint_field(_FANOUT, fanout)
    )


def decode_unixfs(block: bytes) -> tuple[Node, UnixFs]:
    """The node and its UnixFS part. Raises `DagError`, also where the two disagree."""
    node = decode_node(block)
    entry = _decode_data(node.data)
    if entry.kind in (Kind.FILE, Kind.RAW):
        _check_file(node, entry)
    elif entry.block_bytes or (entry.data and entry.kind is Kind.DIRECTORY):
        raise DagError("a UnixFS entry that is not a file has the parts of one", kind=entry.kind.name)
    return node, entry


def _check_file(node: Node, entry: UnixFs) -> None:
    if len(entry.block_bytes) != len(node.links):
        raise DagError(
            "a file node has another number of sizes than of links", sizes=len(entry.block_bytes), links=len(node.links)
        )
    if entry.data and node.links:
        raise DagError("a file node has both bytes and links")
    if entry.file_bytes != len(entry.data) + sum(entry.block_bytes):
        raise DagError(
            "a file node lies about its size", claimed=entry.file_bytes, actual=len(entry.data) + sum(entry.block_bytes)
        )


def _decode_data(data: bytes) -> UnixFs:
    single: dict[int, int | bytes] = {}
    sizes: list[int] = []
    for number, value in read_fields(data):
        if number == _BLOCK_SIZES:
            sizes.extend(_sizes(value))
        elif number in single or not _TYPE <= number <= _MTIME:
            raise DagError("a UnixFS entry has an unknown or repeated field", field=number)
        else:
            single[number] = value
    content = _bytes(single, _DATA)
    size = _int(single, _FILE_SIZE, default=len(content) + sum(sizes))
    return UnixFs(_kind(single), content, size, tuple(sizes), _int(single, _HASH_TYPE), _int(single, _FANOUT))


def _sizes(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    raise DagError("the sizes in a UnixFS entry are packed")


def _kind(single: dict[int, int | bytes]) -> Kind:
    number = _int(single, _TYPE, default=-1)
    if number not in Kind._value2member_map_:
        raise DagError("a UnixFS entry has no known type", type=number)
    return Kind(number)


def _int(single: dict[int, int | bytes], number: int, default: int = 0) -> int:
    value = single.get(number, default)
    if isinstance(value, int):
        return value
    raise DagError("a UnixFS number is not one", field=number)


def _bytes(single: dict[int, int | bytes], number: int) -> bytes:
    value = single.get(number, b"")
    if isinstance(value, bytes):
        return value
    raise DagError("the bytes of a UnixFS entry are not bytes", field=number)
