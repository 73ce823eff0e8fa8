"""The index of the embedded store: which blocks are durable, and who pins them. SQLite, WAL, synchronous FULL."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millpond.storage.cid import Cid
from millpond.storage.errors import StoreAccessError, StoreCorruptError, StoreFsyncError, StoreFullError
from millpond.storage.port import Pin, StoreStat

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE block (cid TEXT PRIMARY KEY, size INTEGER NOT NULL, added_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE pin (cid TEXT NOT NULL, owner TEXT NOT NULL, expires_at REAL, recursive INTEGER NOT NULL,
                  PRIMARY KEY (cid, owner)) WITHOUT ROWID;
CREATE INDEX pin_owner ON pin (owner);
CREATE TABLE total (blocks INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO total VALUES (0, 0);
CREATE TRIGGER block_added AFTER INSERT ON block
  BEGIN UPDATE total SET blocks = blocks + 1, bytes = bytes + NEW.size; END;
CREATE TRIGGER block_removed AFTER DELETE ON block
  BEGIN UPDATE total SET blocks = blocks - 1, bytes = bytes - OLD.size; END;
"""
_LIVE = "(expires_at IS NULL OR expires_at > ?)"
_SELECT_MAX = 500


class Index:
    """One connection behind one lock. Every method raises `StoreCorruptError` on a damaged file,
    `StoreFullError` on a full disk, `StoreFsyncError` when SQLite's own sync fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        with self._typed():
            self._db = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except (sqlite3.Error, StoreCorruptError):
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("BEGIN IMMEDIATE")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _statements(_SCHEMA):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._db.execute("COMMIT")
        if version not in (0, SCHEMA_VERSION):
            raise StoreCorruptError(f"{self._path} has schema {version}, not {SCHEMA_VERSION}", path=str(self._path))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def has(self, cid: Cid) -> bool:
        return bool(self._rows("SELECT 1 FROM block WHERE cid = ?", (cid,)))

    def known(self, cids: Iterable[Cid]) -> set[Cid]:
        """Those that are in the index."""
        wanted, found = list(cids), set[Cid]()
        for at in range(0, len(wanted), _SELECT_MAX):
            part = wanted[at : at + _SELECT_MAX]
            marks = ",".join("?" * len(part))
            found.update(row[0] for row in self._rows(f"SELECT cid FROM block WHERE cid IN ({marks})", part))
        return found

    def add(self, sizes: Iterable[tuple[Cid, int]], now: float) -> None:
        """Insert, or renew the time of those already there, in one durable transaction."""
        with self._transaction() as db:
            db.executemany(
                "INSERT INTO block VALUES (?, ?, ?) ON CONFLICT (cid) DO UPDATE SET added_at = excluded.added_at",
                [(cid, size, now) for cid, size in sizes],
            )

    def remove(self, cids: Iterable[Cid]) -> None:
        with self._transaction() as db:
            db.executemany("DELETE FROM block WHERE cid = ?", [(cid,) for cid in cids])

    def older(self, before: float) -> list[tuple[Cid, int]]:
        """(cid, size) of all blocks put before that time."""
        return [(row[0], row[1]) for row in self._rows("SELECT cid, size FROM block WHERE added_at < ?", (before,))]

    def pin(self, pin: Pin) -> None:
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO pin VALUES (?, ?, ?, ?)", (pin.cid, pin.owner, pin.expires_at, pin.recursive)
            )

    def unpin(self, cid: Cid, owner: str) -> bool:
        with self._transaction() as db:
            return db.execute("DELETE FROM pin WHERE cid = ? AND owner = ?", (cid, owner)).rowcount > 0

    def expire_pins(self, now: float) -> int:
        with self._transaction() as db:
            return db.execute("DELETE FROM pin WHERE expires_at <= ?", (now,)).rowcount

    def pins(self, now: float, owner: str | None = None, cid: Cid | None = None) -> list[Pin]:
        rows = self._rows(
            f"SELECT cid, owner, expires_at, recursive FROM pin WHERE {_LIVE}"
            " AND (? IS NULL OR owner = ?) AND (? IS NULL OR cid = ?)",
            (now, owner, owner, cid, cid),
        )
        return [Pin(Cid(row[0]), row[1], row[2], bool(row[3])) for row in rows]

    def usage(self, owner: str, now: float) -> int:
        sql = f"SELECT coalesce(sum(size), 0) FROM block JOIN pin USING (cid) WHERE owner = ? AND {_LIVE}"
        return int(self._rows(sql, (owner, now))[0][0])

    def stat(self, now: float, max_bytes: int | None) -> StoreStat:
        blocks, size = self._rows("SELECT blocks, bytes FROM total")[0]
        pins = self._rows(f"SELECT count(*) FROM pin WHERE {_LIVE}", (now,))[0][0]
        return StoreStat(blocks, size, pins, max_bytes)

    def _rows(self, sql: str, values: Iterable[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._typed():
            return self._db.execute(sql, tuple(values)).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._typed():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.Error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _typed_error(error, self._path) from error


def _typed_error(error: sqlite3.Error, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    message = f"the index {path}: {error}"
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFullError(message, path=str(path))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorruptError(message, path=str(path))
        case sqlite3.SQLITE_IOERR:
            return StoreFsyncError(message, path=str(path), sqlite_code=code)
        case sqlite3.SQLITE_ERROR if "no such" in str(error):
            return StoreCorruptError(message, path=str(path))
        case _:
            return StoreAccessError(message, path=str(path), sqlite_code=code)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
