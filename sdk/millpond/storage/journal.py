"""The journal of a daemon, in SQLite: WAL, synchronous FULL, one writer thread, group commit.

Everything queued while one group was being synced is the next group, so throughput grows with load and one caller
waits for at most two syncs. A write the disk loses or refuses makes the journal fail for good (`JournalFailedError`).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from millpond.storage.journal_memory import MemoryJournal
from millpond.storage.journal_port import (
    GENESIS,
    TOP,
    AckUpTo,
    Append,
    Batch,
    Change,
    Committed,
    Delete,
    Event,
    Journal,
    JournalFailedError,
    JournalLockedError,
    JournalNameError,
    JournalTamperedError,
    OutboxRow,
    Push,
    Put,
    check_name,
    verify_chain,
)
from millpond.storage.journal_port import event_hash as _event_hash

__all__ = [
    "Batch",
    "Committed",
    "Event",
    "Journal",
    "JournalFailedError",
    "JournalLockedError",
    "JournalNameError",
    "JournalTamperedError",
    "MemoryJournal",
    "OutboxRow",
    "SqliteJournal",
    "verify_chain",
]

SCHEMA_VERSION = 1
MAX_GROUP = 1024
READ_ROWS = 512
_SCHEMA = (
    "CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, dedupe TEXT UNIQUE, hash BLOB NOT NULL)",
    "CREATE TABLE lane (lane TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE outbox (lane TEXT NOT NULL, position INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (lane, position))",
)
_Work = tuple[Batch, "Future[Committed]"]


class SqliteJournal:
    """Opens or makes the journal at `path`; one process at a time. Raises `JournalLockedError`, `JournalFailedError`."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_file = _lock(self._path.with_name(self._path.name + ".lock"))
        try:
            self._writer = _Writer(self._path)
            self._reader = _connect(self._path)
        except sqlite3.Error as error:
            self._lock_file.close()
            raise _failed(error, self._path) from error
        self._reading = threading.Lock()
        self._known: set[str] = set()
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._broken: JournalFailedError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._write_groups, name="millpond-journal", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch) -> Future[Committed]:
        future: Future[Committed] = Future()
        if self._broken is not None or self._closed:
            future.set_exception(self._broken or JournalFailedError("the journal is closed", path=str(self._path)))
        else:
            self._queue.put((batch, future))
        return future

    async def commit(self, batch: Batch) -> Committed:
        return await asyncio.wrap_future(self.submit(batch))

    def get(self, table: str, key: str) -> bytes | None:
        rows = self._read(table, "SELECT value FROM {} WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    def get_json(self, table: str, key: str) -> Any:
        value = self.get(table, key)
        return None if value is None else json.loads(value)

    def scan(self, table: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, bytes]]:
        sql = "SELECT key, value FROM {} WHERE key > ? AND key >= ? AND key < ? ORDER BY key LIMIT ?"
        while rows := self._read(table, sql, (after, prefix, prefix + TOP, READ_ROWS)):
            yield from rows
            after = rows[-1][0]

    def count(self, table: str) -> int:
        rows = self._read(table, "SELECT count(*) FROM {}", ())
        return int(rows[0][0]) if rows else 0

    def events(self, after: int = 0) -> Iterator[Event]:
        sql = "SELECT seq, kind, body, hash FROM event WHERE seq > ? ORDER BY seq LIMIT ?"
        while rows := self._query(sql, (after, READ_ROWS)):
            for row in rows:
                yield Event(*row)
            after = rows[-1][0]

    def head(self) -> bytes:
        rows = self._query("SELECT hash FROM event ORDER BY seq DESC LIMIT 1", ())
        return bytes(rows[0][0]) if rows else GENESIS

    def outbox(self, lane: str, after: int = 0) -> Iterator[OutboxRow]:
        sql = "SELECT position, body FROM outbox WHERE lane = ? AND position > ? ORDER BY position LIMIT ?"
        while rows := self._query(sql, (lane, after, READ_ROWS)):
            for row in rows:
                yield OutboxRow(*row)
            after = rows[-1][0]

    def outbox_next(self, lane: str) -> int:
        rows = self._query("SELECT next FROM lane WHERE lane = ?", (lane,))
        return int(rows[0][0]) if rows else 1

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        with self._reading:
            self._reader.close()
        self._lock_file.close()

    def _read(self, table: str, sql: str, values: tuple[object, ...]) -> list[Any]:
        if table not in self._known:
            if not self._query("SELECT 1 FROM sqlite_master WHERE name = ?", (_quoted(table)[1:-1],)):
                return []
            self._known.add(table)
        return self._query(sql.format(_quoted(table)), values)

    def _query(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        try:
            with self._reading:
                return self._reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _failed(error, self._path) from error

    def _write_groups(self) -> None:
        is_open = True
        while is_open:
            group, is_open = self._next_group()
            if group:
                self._write(group)
        self._writer.close()

    def _next_group(self) -> tuple[list[_Work], bool]:
        """All that waits, at least one; whether more may follow."""
        group: list[_Work] = []
        item = self._queue.get()
        while item is not None:
            group.append(item)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _write(self, group: list[_Work]) -> None:
        try:
            if self._broken is not None:
                raise self._broken
            done = self._writer.write([batch for batch, _ in group])
        except sqlite3.Error as error:
            self._broken = _failed(error, self._path)
            _reject(group, self._broken)
        except JournalFailedError as error:
            _reject(group, error)
        else:
            for (_, future), committed in zip(group, done, strict=True):
                if future.set_running_or_notify_cancel():
                    future.set_result(committed)


class _Writer:
    """The connection that writes. Used by the writer's thread, once made."""

    def __init__(self, path: Path) -> None:
        self._db = _connect(path)
        self._tables: set[str] = set()
        self._prepare(path)

    def close(self) -> None:
        self._db.close()

    def write(self, batches: Iterable[Batch]) -> list[Committed]:
        """All of them in one durable transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            done = [self._apply_all(batch) for batch in batches]
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        return done

    def _prepare(self, path: Path) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._db.execute("COMMIT")
        if version not in (0, SCHEMA_VERSION):
            raise JournalFailedError(f"{path} has schema {version}, not {SCHEMA_VERSION}", path=str(path))

    def _apply_all(self, batch: Batch) -> Committed:
        hashes, positions = list[bytes](), list[int]()
        for change in batch.changes:
            self._apply(change, hashes, positions)
        return Committed(tuple(hashes), tuple(positions))

    def _apply(self, change: Change, hashes: list[bytes], positions: list[int]) -> None:
        match change:
            case Put(table, key, value):
                self._db.execute(f"INSERT OR REPLACE INTO {self._table(table)} VALUES (?, ?)", (key, value))
            case Delete(table, first, ""):
                self._db.execute(f"DELETE FROM {self._table(table)} WHERE key = ?", (first,))
            case Delete(table, first, last):
                self._db.execute(f"DELETE FROM {self._table(table)} WHERE key >= ? AND key < ?", (first, last))
            case Append():
                hashes.append(self._append(change))
            case Push(lane, body):
                positions.append(self._push(lane, body))
            case AckUpTo(lane, position):
                self._db.execute("DELETE FROM outbox WHERE lane = ? AND position <= ?", (lane, position))

    def _append(self, change: Append) -> bytes:
        if change.dedupe:
            known = self._db.execute("SELECT hash FROM event WHERE dedupe = ?", (change.dedupe,)).fetchone()
            if known:
                return bytes(known[0])
        last = self._db.execute("SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1").fetchone() or (0, GENESIS)
        digest = _event_hash(last[1], change.kind, change.body)
        row = (last[0] + 1, change.kind, change.body, change.dedupe or None, digest)
        self._db.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
        return digest

    def _push(self, lane: str, body: bytes) -> int:
        sql = "INSERT INTO lane VALUES (?, 2) ON CONFLICT (lane) DO UPDATE SET next = next + 1 RETURNING next - 1"
        position = int(self._db.execute(sql, (lane,)).fetchone()[0])
        self._db.execute("INSERT INTO outbox VALUES (?, ?, ?)", (lane, position, body))
        return position

    def _table(self, name: str) -> str:
        quoted = _quoted(name)
        if name not in self._tables:
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {quoted} (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
            self._tables.add(name)
        return quoted


def _reject(group: list[_Work], error: JournalFailedError) -> None:
    for _, future in group:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)


def _quoted(table: str) -> str:
    return f'"t_{check_name(table)}"'


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    return db


def _lock(path: Path) -> Any:
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read(32).strip() or "unknown"
        file.close()
        raise JournalLockedError(
            f"{path.parent} is in use by process {holder}", path=str(path), process=holder
        ) from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file


def _failed(error: sqlite3.Error, path: Path) -> JournalFailedError:
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    what = "the disk is full" if code == sqlite3.SQLITE_FULL else str(error)
    return JournalFailedError(f"the journal {path}: {what}", path=str(path), sqlite_code=code)
