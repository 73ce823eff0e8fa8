"""Reading UnixFS under a budget: every block verified by its store, every claim of a node checked against what comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio

from millpond.storage.budget import Meter
from millpond.storage.cid import Cid, Codec, codec_of
from millpond.storage.dagpb import Link, Node
from millpond.storage.errors import BudgetExceededError, DagError, WrongKindError
from millpond.storage.hamt import MAX_DEPTH, check_shard, shard_entry
from millpond.storage.port import BlockSource
from millpond.storage.unixfs import Kind, UnixFs, decode_unixfs

_FILES = (Kind.RAW, Kind.FILE)
_DIRECTORIES = (Kind.DIRECTORY, Kind.HAMT_SHARD)


@dataclass(frozen=True, slots=True)
class Opened:
    """A fetched block with what it says. `entry.data` is the content where there are no links."""

    cid: Cid
    node: Node
    entry: UnixFs
    depth: int

    @property
    def is_file(self) -> bool:
        return self.entry.kind in _FILES

    @property
    def is_directory(self) -> bool:
        return self.entry.kind in _DIRECTORIES


class Walk:
    """One reader's way through a DAG: a source and a meter."""

    def __init__(self, source: BlockSource, meter: Meter) -> None:
        self._source, self.meter = source, meter

    async def open(self, cid: Cid, depth: int = 0) -> Opened:
        """Fetch and decode. Raises `DagError`, `BudgetExceededError` and what the source raises."""
        self.meter.visit(depth)
        block = await self.fetch(cid)
        if codec_of(cid) is Codec.RAW:
            return Opened(cid, Node((), b""), UnixFs(Kind.RAW, block, len(block)), depth)
        node, entry = decode_unixfs(block)
        return Opened(cid, node, entry, depth)

    async def fetch(self, cid: Cid) -> bytes:
        """One block within what is left of the time."""
        try:
            with anyio.fail_after(self.meter.seconds_left):
                return await self._source.get(cid)
        except TimeoutError as error:
            raise BudgetExceededError("the time for this content is over", what="seconds", cid=cid) from error

    async def stream(self, opened: Opened) -> AsyncIterator[bytes]:
        """The content of a file in order. A file whose parts are not of the sizes it claims raises `DagError`."""
        _require(opened, opened.is_file, "a file")
        self.meter.expect(opened.entry.file_bytes)
        stack: list[tuple[Link, int, int]] = []
        while True:
            if opened.entry.data:
                self.meter.take(len(opened.entry.data))
                yield opened.entry.data
            pairs = zip(opened.node.links, opened.entry.block_bytes, strict=True)
            stack.extend((link, size, opened.depth + 1) for link, size in reversed(list(pairs)))
            self.meter.expect(nodes=len(stack))
            if not stack:
                return
            opened = await self._open_part(*stack.pop())

    async def entries(self, opened: Opened) -> list[Link]:
        """The entries of a directory, sharded or not. Raises `DagError` on repeated names."""
        _require(opened, opened.is_directory, "a directory")
        links = (
            [link async for link in self._shard(opened)]
            if opened.entry.kind is Kind.HAMT_SHARD
            else list(opened.node.links)
        )
        self.meter.visit(opened.depth, len(links))
        if len({link.name for link in links}) != len(links):
            raise DagError("a directory has two entries of one name", cid=opened.cid)
        return links

    async def _open_part(self, link: Link, size: int, depth: int) -> Opened:
        part = await self.open(link.cid, depth)
        _require(part, part.is_file, "part of a file")
        if part.entry.file_bytes != size:
            raise DagError(
                "part of a file is not as long as its parent says",
                cid=link.cid,
                claimed=size,
                actual=part.entry.file_bytes,
            )
        return part

    async def _shard(self, root: Opened) -> AsyncIterator[Link]:
        stack = [root]
        while stack:
            shard = stack.pop()
            _require(shard, shard.entry.kind is Kind.HAMT_SHARD, "part of a sharded directory")
            check_shard(shard.node, shard.entry)
            if shard.depth - root.depth >= MAX_DEPTH:
                raise DagError("a sharded directory is deeper than its hash is long", cid=shard.cid)
            for link in shard.node.links:
                entry = shard_entry(link)
                if entry is not None:
                    yield entry
                else:
                    stack.append(await self.open(link.cid, shard.depth + 1))


def _require(opened: Opened, holds: bool, wanted: str) -> None:
    if not holds:
        kind = opened.entry.kind.name.lower()
        raise WrongKindError(f"{opened.cid} is {kind}, not {wanted}", cid=opened.cid, kind=kind, wanted=wanted)
