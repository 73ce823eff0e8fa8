"""Merkle trees over receipts: leaf = keccak256(0x00 || structHash), node = keccak256(0x01 || left || right).

An odd last node is carried up unchanged. `Attestations.isAttested` verifies the same proofs.
"""

from __future__ import annotations

from collections.abc import Sequence

from millpond.protocol.errors import InputError
from millpond.protocol.hashing import keccak256


class MerkleError(InputError):
    remedy_text = "Fetch the proof again from the node that posted the batch."


def leaf(struct_hash: bytes) -> bytes:
    return keccak256(b"\x00" + struct_hash)


def node(left: bytes, right: bytes) -> bytes:
    return keccak256(b"\x01" + left + right)


def levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Every level from the leaves up to the root; raises `MerkleError` when there is no leaf."""
    if not leaves:
        raise MerkleError("a tree needs at least one leaf")
    rows = [list(leaves)]
    while len(rows[-1]) > 1:
        row = rows[-1]
        above = [node(row[i], row[i + 1]) for i in range(0, len(row) - 1, 2)]
        rows.append([*above, row[-1]] if len(row) % 2 else above)
    return rows


def root(leaves: Sequence[bytes]) -> bytes:
    return levels(leaves)[-1][0]


def proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Siblings from leaf `index` up; levels in which the node is carried up give none."""
    if not 0 <= index < len(leaves):
        raise MerkleError(f"leaf {index} of {len(leaves)}", index=index, count=len(leaves))
    siblings = []
    for row in levels(leaves)[:-1]:
        if index ^ 1 < len(row):
            siblings.append(row[index ^ 1])
        index //= 2
    return siblings


def climb(leaf_hash: bytes, index: int, count: int, siblings: Sequence[bytes]) -> bytes:
    """The root that `siblings` prove for leaf `index` of `count`; raises `MerkleError` on a proof of the wrong length."""
    if not 0 <= index < count:
        raise MerkleError(f"leaf {index} of {count}", index=index, count=count)
    current, used = leaf_hash, 0
    while count > 1:
        if index ^ 1 < count:
            if used == len(siblings):
                raise MerkleError("the proof is too short", length=len(siblings))
            other = siblings[used]
            used += 1
            current = node(other, current) if index & 1 else node(current, other)
        index, count = index // 2, (count + 1) // 2
    if used != len(siblings):
        raise MerkleError("the proof is too long", length=len(siblings), needed=used)
    return current
