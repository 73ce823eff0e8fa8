"""The default store: one file per block, an SQLite index, no daemon.

A block exists once its row is committed, and its row is committed only after its file, its name and its folder are on
disk; so a crash at any instruction leaves at most files that no row names. Several processes may share one store.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from millpond.storage.blocks import Block, check_block
from millpond.storage.cid import Cid, parse_cid
from millpond.storage.disk import Disk
from millpond.storage.errors import (
    BlockNotFoundError,
    BlockPinnedError,
    BlockTamperedError,
    BlockTooLargeError,
    CidError,
    StoreFullError,
)
from millpond.storage.group import GroupCommit
from millpond.storage.index import Index
from millpond.storage.port import GcReport, Pin, StoreStat
from millpond.storage.reach import reachable

_WRITERS = 8
_STALE_SECONDS = 3600.0
_INDEX_NAME = "index.sqlite3"
_LOCK_NAME = "lock"
_READOPT_BATCH = 1000
T = TypeVar("T")


class EmbeddedCore:
    """The store without an event loop; safe to call from several threads."""

    def __init__(
        self,
        root: Path,
        *,
        max_bytes: int | None = None,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root, self.max_bytes = root, max_bytes
        self._disk, self._clock = disk or Disk(), clock
        self._blocks, self._incoming, self._quarantine = root / "blocks", root / "incoming", root / "quarantine"
        for folder in (self._blocks, self._incoming, self._quarantine):
            self._disk.make_folder(folder)
        for folder in (root, root.parent):
            self._disk.sync_folder(folder)
        self._shards: set[Path] = set()
        self._changing = threading.Lock()
        self._index = Index(root / _INDEX_NAME)
        self._lock_file = (root / _LOCK_NAME).open("wb")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="millpond-store")
        self._commits: GroupCommit[Block] = GroupCommit(self._write_group)
        self._drop_stale_incoming()

    def close(self) -> None:
        self._writers.shutdown()
        self._index.close()
        self._lock_file.close()

    def put(self, block: Block) -> Cid:
        self._commits.submit([block])
        return block.cid

    def put_many(self, blocks: Sequence[Block]) -> None:
        self._commits.submit(blocks)

    def get(self, cid: Cid) -> bytes:
        """Verified on every read; a damaged block is moved to `quarantine/` and forgotten."""
        try:
            return self._read(cid)
        except (BlockTamperedError, BlockNotFoundError) as error:
            if isinstance(error, BlockNotFoundError) and not self._index.has(cid):
                raise
        with self._exclusive():
            return self._read_or_forget(cid)

    def has(self, cid: Cid) -> bool:
        return self._index.has(cid)

    def delete(self, cid: Cid) -> bool:
        with self._exclusive():
            if self._index.pins(self._clock(), cid=cid):
                raise BlockPinnedError(f"block {cid} is pinned", cid=cid)
            there = self._index.has(cid)
            self._forget([cid])
        return there

    def pin(self, cid: Cid, owner: str, *, ttl_seconds: float | None = None, recursive: bool = True) -> None:
        expires = None if ttl_seconds is None else self._clock() + ttl_seconds
        with self._exclusive():
            self._index.pin(Pin(cid, owner, expires, recursive))

    def unpin(self, cid: Cid, owner: str) -> bool:
        return self._index.unpin(cid, owner)

    def pins(self, owner: str | None = None) -> list[Pin]:
        return self._index.pins(self._clock(), owner)

    def usage(self, owner: str) -> int:
        return self._index.usage(owner, self._clock())

    def stat(self) -> StoreStat:
        return self._index.stat(self._clock(), self.max_bytes)

    def gc(self, *, min_age_seconds: float = 3600.0) -> GcReport:
        """Marks and sweeps with the store closed to changes."""
        with self._exclusive():
            now = self._clock()
            expired = self._index.expire_pins(now)
            kept = reachable(self._index.pins(now), self._read)
            loose = [(cid, size) for cid, size in self._index.older(now - min_age_seconds) if cid not in kept]
            self._forget([cid for cid, _ in loose])
        return GcReport(len(loose), sum(size for _, size in loose), expired)

    def readopt(self) -> StoreStat:
        """Put every block file that verifies into the index; damaged ones are quarantined, other files left alone."""
        found = (self._verified_size(path) for path in self._blocks.glob("*/*"))
        sizes = (pair for pair in found if pair is not None)
        while batch := list(islice(sizes, _READOPT_BATCH)):
            self._index.add(batch, self._clock())
        return self.stat()

    def path_of(self, cid: Cid) -> Path:
        """One of 32 folders, by the last character that carries five bits: a group of blocks then syncs few folders."""
        return self._blocks / cid[-2] / cid

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Against other threads and other processes: a row and its file change together."""
        with self._changing:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def _read(self, cid: Cid) -> bytes:
        try:
            data = self._disk.read(self.path_of(cid))
        except BlockTooLargeError as error:
            raise BlockTamperedError(f"the file of {cid} has grown", cid=cid) from error
        if data is None:
            raise BlockNotFoundError(f"block {cid} is not in the store", cid=cid, source="embedded")
        return check_block(cid, data).data

    def _read_or_forget(self, cid: Cid) -> bytes:
        try:
            return self._read(cid)
        except BlockNotFoundError:
            if self._index.has(cid):
                self._index.remove([cid])
            raise
        except BlockTamperedError:
            self._index.remove([cid])
            with suppress(FileNotFoundError):
                self._disk.rename(self.path_of(cid), self._quarantine / cid)
            raise

    def _forget(self, cids: Sequence[Cid]) -> None:
        self._index.remove(cids)
        for cid in cids:
            self._disk.remove(self.path_of(cid))

    def _write_group(self, blocks: Sequence[Block]) -> None:
        unique = {block.cid: block for block in blocks}
        with self._exclusive():
            known = self._index.known(unique)
            fresh = [block for cid, block in unique.items() if cid not in known]
            self._check_room(sum(len(block.data) for block in fresh))
            self._write_files(fresh)
            self._index.add([(block.cid, len(block.data)) for block in unique.values()], self._clock())

    def _check_room(self, incoming: int) -> None:
        if self.max_bytes is None or not incoming:
            return
        used = self.stat().bytes
        if used + incoming > self.max_bytes:
            raise StoreFullError(
                f"{incoming} more bytes do not fit: {used} of {self.max_bytes} are used",
                incoming_bytes=incoming, used_bytes=used, max_bytes=self.max_bytes,
            )  # fmt: skip

    def _write_files(self, blocks: Sequence[Block]) -> None:
        jobs = [self._writers.submit(self._disk.write_new, self._incoming, block.data) for block in blocks]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        try:
            if errors:
                raise errors[0]
            folders = {self.path_of(block.cid).parent for block in blocks}
            self._make_shards(folders)
            for block, job in zip(blocks, jobs, strict=True):
                self._disk.rename(job.result(), self.path_of(block.cid))
            list(self._writers.map(self._disk.sync_folder, folders))
        finally:
            for job in jobs:
                if job.exception() is None:
                    self._disk.remove(job.result())

    def _make_shards(self, folders: set[Path]) -> None:
        new = folders - self._shards
        for folder in new:
            self._disk.make_folder(folder)
        if new:
            self._disk.sync_folder(self._blocks)
        self._shards |= new

    def _verified_size(self, path: Path) -> tuple[Cid, int] | None:
        with suppress(CidError, BlockTamperedError, BlockNotFoundError):
            cid = parse_cid(path.name)
            return cid, len(self.get(cid))
        return None

    def _drop_stale_incoming(self) -> None:
        """What a killed process left; a living one's files are younger."""
        for path in self._incoming.iterdir():
            with suppress(FileNotFoundError):
                if self._clock() - path.stat().st_mtime > _STALE_SECONDS:
                    self._disk.remove(path)


class EmbeddedStore:
    """`BlockStore` over an `EmbeddedCore`; each call runs in a worker thread."""

    name = "embedded"

    def __init__(self, core: EmbeddedCore) -> None:
        self.core = core

    @classmethod
    def open(cls, root: str | os.PathLike[str], *, max_bytes: int | None = None) -> EmbeddedStore:
        """Open or make the store in folder `root`. Raises `StoreCorruptError`, `StoreAccessError`."""
        return cls(EmbeddedCore(Path(root), max_bytes=max_bytes))

    async def get(self, cid: Cid) -> bytes:
        return await _call(self.core.get, cid)

    async def has(self, cid: Cid) -> bool:
        return await _call(self.core.has, cid)

    async def put(self, block: Block) -> Cid:
        return await _call(self.core.put, block)

    async def put_many(self, blocks: Sequence[Block]) -> None:
        await _call(self.core.put_many, blocks)

    async def delete(self, cid: Cid) -> bool:
        return await _call(self.core.delete, cid)

    async def pin(self, cid: Cid, owner: str, *, ttl_seconds: float | None = None, recursive: bool = True) -> None:
        await _call(self.core.pin, cid, owner, ttl_seconds=ttl_seconds, recursive=recursive)

    async def unpin(self, cid: Cid, owner: str) -> bool:
        return await _call(self.core.unpin, cid, owner)

    async def pins(self, owner: str | None = None) -> list[Pin]:
        return await _call(self.core.pins, owner)

    async def usage(self, owner: str) -> int:
        return await _call(self.core.usage, owner)

    async def gc(self, *, min_age_seconds: float = 3600.0) -> GcReport:
        return await _call(self.core.gc, min_age_seconds=min_age_seconds)

    async def stat(self) -> StoreStat:
        return await _call(self.core.stat)

    async def aclose(self) -> None:
        await _call(self.core.close)


def rebuild_index(root: str | os.PathLike[str]) -> StoreStat:
    """Make a new index from the blocks that verify; the old one is kept beside it, damaged blocks are quarantined.
    Pins are lost. No process may have the store open."""
    folder = Path(root)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(folder / (_INDEX_NAME + suffix), folder / (_INDEX_NAME + suffix + ".old"))
    core = EmbeddedCore(folder)
    try:
        return core.readopt()
    finally:
        core.close()


async def _call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return await to_thread.run_sync(partial(function, *args, **kwargs))
