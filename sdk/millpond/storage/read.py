"""Reading and exporting UnixFS content to memory and disk, never beyond a budget or outside the target."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import AsyncIterator
from functools import partial

import anyio
from anyio import to_thread

from millpond.storage.budget import Budget, Meter
from millpond.storage.cid import Cid
from millpond.storage.dagpb import Link
from millpond.storage.disk import typed_os_errors
from millpond.storage.errors import LinkRefusedError, UnsafePathError
from millpond.storage.folder import Folder, absolute
from millpond.storage.names import MAX_FOLDER_DEPTH, check_name, check_names
from millpond.storage.port import BlockSource
from millpond.storage.unixfs import Kind
from millpond.storage.walk import Opened, Walk

_WHOLE = Budget(max_bytes=1024**3)


async def read_bytes(source: BlockSource, cid: Cid, *, budget: Budget = _WHOLE) -> bytes:
    """A whole file in memory; at most 1 GiB unless `budget` says otherwise."""
    return b"".join([piece async for piece in iter_file(source, cid, budget=budget)])


async def iter_file(source: BlockSource, cid: Cid, *, budget: Budget | None = None) -> AsyncIterator[bytes]:
    """The content of a file in pieces of at most one block."""
    walk = Walk(source, Meter(budget or Budget()))
    async for piece in walk.stream(await walk.open(cid)):
        yield piece


async def list_directory(source: BlockSource, cid: Cid, *, budget: Budget | None = None) -> list[Link]:
    """The entries of a directory, sorted by name; their names are as the maker wrote them."""
    walk = Walk(source, Meter(budget or Budget()))
    return sorted(await walk.entries(await walk.open(cid)), key=lambda link: link.name)


async def export_file(
    source: BlockSource, cid: Cid, target: str | os.PathLike[str], *, budget: Budget | None = None
) -> None:
    """Write a file to `target`, which must not exist; it gets its name only when it is complete. Not synced."""
    walk = Walk(source, Meter(budget or Budget()))
    path = absolute(target)
    with await to_thread.run_sync(Folder.open, path.parent) as parent:
        await _check_free(parent, path.name)
        partial_name = _partial_name()
        try:
            await _write_file(walk, await walk.open(cid), parent, partial_name)
            await to_thread.run_sync(parent.rename, partial_name, path.name)
        except BaseException:
            parent.remove_file(partial_name)
            raise


async def export_directory(
    source: BlockSource, cid: Cid, target: str | os.PathLike[str], *, budget: Budget | None = None
) -> None:
    """Write a directory to `target`, which must not exist; it gets its name only when it is complete. Not synced.

    Raises `UnsafePathError` on names that leave the folder, collide or are reserved, `LinkRefusedError` on links.
    """
    walk = Walk(source, Meter(budget or Budget()))
    path = absolute(target)
    with await to_thread.run_sync(Folder.open, path.parent) as parent:
        await _check_free(parent, path.name)
        partial_name = _partial_name()
        try:
            with parent.make(partial_name) as folder:
                await _write_folder(walk, await walk.open(cid), folder, 0)
            await to_thread.run_sync(parent.rename, partial_name, path.name)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(partial(shutil.rmtree, path.parent / partial_name, ignore_errors=True))
            raise


async def _check_free(parent: Folder, name: str) -> None:
    check_name(name)
    if await to_thread.run_sync(parent.has, name):
        raise UnsafePathError(f"{name} already exists", name=name)


def _partial_name() -> str:
    return f".millpond-{secrets.token_hex(8)}"


async def _write_folder(walk: Walk, opened: Opened, folder: Folder, level: int) -> None:
    if level > MAX_FOLDER_DEPTH:
        raise UnsafePathError(f"folders are nested deeper than {MAX_FOLDER_DEPTH}", depth=level)
    links = await walk.entries(opened)
    check_names(link.name for link in links)
    for link in links:
        child = await walk.open(link.cid, opened.depth + 1)
        if child.entry.kind is Kind.SYMLINK:
            raise LinkRefusedError(f"the entry {link.name!r} is a link", name=link.name, cid=link.cid)
        if not child.is_directory:
            await _write_file(walk, child, folder, link.name)
            continue
        with folder.make(link.name) as below:
            await _write_folder(walk, child, below, level + 1)


async def _write_file(walk: Walk, opened: Opened, folder: Folder, name: str) -> None:
    fd = folder.new_file(name)
    with os.fdopen(fd, "wb", buffering=0) as file:
        async for piece in walk.stream(opened):
            await to_thread.run_sync(_write_all, file.fileno(), piece, name)


def _write_all(fd: int, data: bytes, label: str) -> None:
    view = memoryview(data)
    with typed_os_errors(label):
        while view:
            view = view[os.write(fd, view) :]
