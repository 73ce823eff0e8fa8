"""Adding bytes, streams, files and folders as UnixFS, with memory that does not grow with the content."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import BinaryIO

from anyio import to_thread

from millpond.storage.blocks import Block, make_block
from millpond.storage.budget import Budget, Meter
from millpond.storage.cid import Cid
from millpond.storage.dagpb import Link
from millpond.storage.disk import typed_os_errors
from millpond.storage.errors import UnsafePathError
from millpond.storage.folder import Folder, Found, open_regular
from millpond.storage.hamt import shard_directory
from millpond.storage.names import MAX_FOLDER_DEPTH
from millpond.storage.port import BlockSink
from millpond.storage.tree import FileTree, leaf_of
from millpond.storage.unixfs import PROFILE, Layout, Part, directory_block, directory_block_bytes
from millpond.storage.writer import BlockWriter, write_blocks

_READ_BYTES = 16 * 1024 * 1024
_SHARED_HASH_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Job:
    """What every step of one add shares."""

    writer: BlockWriter
    meter: Meter
    layout: Layout


async def add_bytes(store: BlockSink, data: bytes, *, layout: Layout = PROFILE) -> Cid:
    """Store `data` as a file. Durable on return."""
    return await add_stream(store, io.BytesIO(data), layout=layout, budget=Budget(max_bytes=len(data)))


async def add_stream(
    store: BlockSink, source: BinaryIO, *, layout: Layout = PROFILE, budget: Budget | None = None
) -> Cid:
    """Store all that `source` still has as one file. Raises `BudgetExceededError`."""
    meter = Meter(budget or Budget())
    part = await write_blocks(store, lambda writer: _add_stream(_Job(writer, meter, layout), source))
    return part.link.cid


async def add_file(store: BlockSink, path: str | os.PathLike[str], *, budget: Budget | None = None) -> Cid:
    """Store one regular file. Raises `LinkRefusedError` for anything else, `StoreAccessError` where it cannot be read."""
    fd = await to_thread.run_sync(open_regular, path)
    with os.fdopen(fd, "rb", buffering=0) as source:
        return await add_stream(store, source, budget=budget)


async def add_directory(
    store: BlockSink, path: str | os.PathLike[str], *, layout: Layout = PROFILE, budget: Budget | None = None
) -> Cid:
    """Store a folder and all below it: regular files and folders only, hidden and empty ones included.

    Raises `LinkRefusedError` on links and devices, `UnsafePathError` on names `names.check_names` refuses.
    """
    meter = Meter(budget or Budget())
    folder = await to_thread.run_sync(Folder.open, path)
    with folder:
        link = await write_blocks(store, lambda writer: _add_folder(_Job(writer, meter, layout), folder, 0))
    return link.cid


async def add_links(writer: BlockWriter, links: Sequence[Link], layout: Layout = PROFILE) -> Link:
    """A directory over entries that are already stored, sharded when its block would be too large."""
    if _must_shard(links, layout):
        blocks, root = await to_thread.run_sync(shard_directory, links)
        for block in blocks:
            await writer.add(block)
        return root
    block, root = directory_block(links)
    await writer.add(block)
    return root


def _must_shard(links: Sequence[Link], layout: Layout) -> bool:
    return directory_block_bytes(links) > layout.shard_over_bytes


async def _add_stream(job: _Job, source: BinaryIO) -> Part:
    tree = FileTree(job.layout)
    chunk_bytes = job.layout.chunk_bytes
    is_last, position = False, 0
    while not is_last:
        leaves, is_last = await to_thread.run_sync(_read_leaves, source, chunk_bytes, position)
        position += len(leaves)
        job.meter.visit(0, len(leaves))
        for leaf in leaves:
            job.meter.take(len(leaf.data))
            await job.writer.add(leaf)
            for node in tree.push(leaf_of(leaf)):
                await job.writer.add(node)
    for node in tree.finish():
        await job.writer.add(node)
    return tree.root


def _read_leaves(source: BinaryIO, chunk_bytes: int, position: int) -> tuple[list[Block], bool]:
    """The next chunks, and whether they are the last. A file with nothing in it is one empty chunk."""
    chunks: list[bytes] = []
    is_last = False
    while not is_last and len(chunks) < max(1, _READ_BYTES // chunk_bytes):
        chunk = _read_full(source, chunk_bytes)
        is_last = len(chunk) < chunk_bytes
        if chunk or not (chunks or position):
            chunks.append(chunk)
    if len(chunks) < 2 or chunk_bytes < _SHARED_HASH_BYTES:
        return [make_block(chunk) for chunk in chunks], is_last
    return list(_hashers().map(make_block, chunks)), is_last


@cache
def _hashers() -> ThreadPoolExecutor:
    """Hashing large chunks releases the interpreter, so one file uses every core."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="millpond-hash")


def _read_full(source: BinaryIO, size: int) -> bytes:
    with typed_os_errors(getattr(source, "name", "stream")):
        chunk = source.read(size)
        while chunk and len(chunk) < size and (more := source.read(size - len(chunk))):
            chunk += more
    return chunk


async def _add_folder(job: _Job, folder: Folder, depth: int) -> Link:
    if depth > MAX_FOLDER_DEPTH:
        raise UnsafePathError(f"folders are nested deeper than {MAX_FOLDER_DEPTH}", depth=depth)
    entries = await to_thread.run_sync(folder.entries)
    job.meter.visit(depth, 1 + len(entries))
    links = [await _add_entry(job, folder, entry, depth) for entry in entries]
    return await add_links(job.writer, links, job.layout)


async def _add_entry(job: _Job, folder: Folder, entry: Found, depth: int) -> Link:
    if entry.is_folder:
        with folder.enter(entry.name) as below:
            return replace(await _add_folder(job, below, depth + 1), name=entry.name)
    with os.fdopen(folder.open_file(entry.name), "rb", buffering=0) as source:
        part = await _add_stream(job, source)
    return replace(part.link, name=entry.name)
