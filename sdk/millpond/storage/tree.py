"""The balanced tree over a file's chunks, built as they come, with one open node per level."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.storage.blocks import Block, make_block
from millpond.storage.cid import Cid
from millpond.storage.unixfs import PROFILE, Layout, Part, file_node, link_to


class FileTree:
    """Feed leaves in order to `push`; both it and `finish` hand out the inner nodes that became complete."""

    def __init__(self, layout: Layout = PROFILE) -> None:
        self._width = layout.width
        self._levels: list[list[Part]] = [[]]

    def push(self, leaf: Part) -> Iterator[Block]:
        yield from self._append(0, leaf)

    def finish(self) -> Iterator[Block]:
        """Close the open nodes from the bottom up; afterwards `root` is the file."""
        level = 0
        while level < len(self._levels) - 1 or len(self._levels[level]) > 1:
            if self._levels[level]:
                yield from self._close(level)
            level += 1

    @property
    def root(self) -> Part:
        """Of a finished tree with at least one leaf."""
        return self._levels[-1][0]

    def _append(self, level: int, part: Part) -> Iterator[Block]:
        """A full node is closed only when another part arrives: it might have been the root."""
        if level == len(self._levels):
            self._levels.append([])
        if len(self._levels[level]) == self._width:
            yield from self._close(level)
        self._levels[level].append(part)

    def _close(self, level: int) -> Iterator[Block]:
        block, part = file_node(self._levels[level])
        self._levels[level] = []
        yield block
        yield from self._append(level + 1, part)


def leaf_of(block: Block) -> Part:
    """A raw chunk as a part of its file."""
    return Part(link_to(block), len(block.data))


def cid_of_bytes(data: bytes, layout: Layout = PROFILE) -> Cid:
    """The CID `add_bytes` would return, without a store."""
    tree = FileTree(layout)
    for at in range(0, max(len(data), 1), layout.chunk_bytes):
        for _ in tree.push(leaf_of(make_block(data[at : at + layout.chunk_bytes]))):
            pass
    for _ in tree.finish():
        pass
    return tree.root.link.cid
