"""Sharded directories: a trie over the hash of the name, 256 ways, 8 bits a level (https://specs.ipfs.tech/unixfs/)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millpond.storage._murmur3 import murmur3_64
from millpond.storage.blocks import Block, make_block
from millpond.storage.cid import Codec
from millpond.storage.dagpb import Link, Node, encode_node
from millpond.storage.errors import DagError
from millpond.storage.unixfs import UnixFs, encode_shard_data, link_to

FANOUT = 256
HASH_MURMUR3 = 0x22
LABEL_CHARS = 2
MAX_DEPTH = 8


def shard_directory(links: Sequence[Link]) -> tuple[list[Block], Link]:
    """All nodes of the trie, children before parents, and a nameless link to its root.

    Raises `DagError` when two names share all 64 bits of the hash: no reader could tell them apart.
    """
    blocks: list[Block] = []
    hashed = [(murmur3_64(link.name.encode()).to_bytes(8, "big"), link) for link in links]
    return blocks, _shard(hashed, 0, blocks)


def shard_entry(link: Link) -> Link | None:
    """The entry a link of a shard stands for, or None where it leads to a deeper shard. Raises `DagError`."""
    label, name = link.name[:LABEL_CHARS], link.name[LABEL_CHARS:]
    if len(label) != LABEL_CHARS or not all(char in "0123456789ABCDEF" for char in label):
        raise DagError("a link of a sharded directory has no slot label", name=link.name[:80])
    return replace(link, name=name) if name else None


def check_shard(node: Node, entry: UnixFs) -> None:
    """Refuse shards that nobody makes. Raises `DagError`."""
    if entry.hash_type != HASH_MURMUR3 or entry.fanout != FANOUT or len(node.links) > FANOUT:
        raise DagError(
            "a sharded directory has another hash or fan-out", hash_type=entry.hash_type, fanout=entry.fanout
        )


def _shard(hashed: list[tuple[bytes, Link]], depth: int, blocks: list[Block]) -> Link:
    if depth == MAX_DEPTH:
        raise DagError("two names have the same 64-bit hash", names=[link.name for _, link in hashed[:2]])
    slots: dict[int, list[tuple[bytes, Link]]] = {}
    for item in hashed:
        slots.setdefault(item[0][depth], []).append(item)
    links = [_slot_link(slot, slots[slot], depth, blocks) for slot in sorted(slots)]
    bits = sum(1 << slot for slot in slots)
    bitfield = bits.to_bytes((bits.bit_length() + 7) // 8, "big")
    block = make_block(encode_node(links, encode_shard_data(bitfield, HASH_MURMUR3, FANOUT)), Codec.DAG_PB)
    blocks.append(block)
    return link_to(block, links)


def _slot_link(slot: int, items: list[tuple[bytes, Link]], depth: int, blocks: list[Block]) -> Link:
    label = f"{slot:02X}"
    if len(items) == 1:
        return replace(items[0][1], name=label + items[0][1].name)
    return replace(_shard(items, depth + 1, blocks), name=label)
