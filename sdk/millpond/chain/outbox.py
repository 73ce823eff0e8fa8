"""The outbox: every transaction a key ever meant to send, durable before anyone hears of it.

    INTENT -> SIGNED -> BROADCAST -> MINED -> FINAL        (a reorganisation leads back to BROADCAST)
    INTENT -> REFUSED                                      (a queued call reverts before it is sent)

Rows final for long are deleted; their keys stay (`Retired`). The store is a port. `SqliteOutbox` keeps the table `outbox` in a database file; `MemoryOutbox` is for tests.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import sqlite3
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from millpond.chain.fees import Fees
from millpond.protocol.ids import Address, Bytes32


class TxState(StrEnum):
    INTENT = "intent"
    SIGNED = "signed"
    BROADCAST = "broadcast"
    MINED = "mined"
    FINAL = "final"
    REFUSED = "refused"


LIVE = frozenset({TxState.INTENT, TxState.SIGNED, TxState.BROADCAST, TxState.MINED})


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One transaction. `lane` is the sender on one chain (address@genesis), `sequence` its place among the sender's intents.

    `hashes` are all signed versions under `nonce`, newest last; any of them may be mined. Value in wei. From `urgent_from` on, in
    Unix seconds of the chain, it is urgent (0: never by time).
    """

    lane: str
    key: str
    sequence: int
    to: Address
    data: bytes
    value: int
    label: str = ""
    is_urgent: bool = False
    state: TxState = TxState.INTENT
    nonce: int | None = None
    gas: int = 0
    fees: Fees | None = None
    raw: bytes = b""
    hashes: tuple[Bytes32, ...] = ()
    mined_hash: Bytes32 | None = None
    block_number: int = 0
    block_hash: Bytes32 | None = None
    is_ok: bool | None = None
    gas_used: int = 0
    reason: str = ""
    urgent_from: int = 0

    def is_urgent_at(self, now: int) -> bool:
        return self.is_urgent or 0 < self.urgent_from <= now

    def with_(self, **changes: Any) -> OutboxRow:
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Retired:
    """What stays of a final transaction when its row is deleted: enough that its key never sends another. `digest` is of the intent."""

    key: str
    digest: str
    mined_hash: Bytes32
    block_number: int
    block_hash: Bytes32 | None
    is_ok: bool
    gas_used: int


def intent_digest(to: Address, data: bytes, value: int) -> str:
    """What a key stands for, in 64 hexadecimal digits."""
    return hashlib.sha256(f"{to}:{value}:".encode() + data).hexdigest()


def retired_of(row: OutboxRow) -> Retired:
    """Of a row that is FINAL."""
    assert row.state is TxState.FINAL
    assert row.mined_hash is not None
    digest = intent_digest(row.to, row.data, row.value)
    return Retired(row.key, digest, row.mined_hash, row.block_number, row.block_hash, bool(row.is_ok), row.gas_used)


def revived(kept: Retired, intent: OutboxRow) -> OutboxRow:
    """A final row again, of what stayed of it and the intent that was asked for again."""
    return intent.with_(
        state=TxState.FINAL,
        hashes=(kept.mined_hash,),
        mined_hash=kept.mined_hash,
        block_number=kept.block_number,
        block_hash=kept.block_hash,
        is_ok=kept.is_ok,
        gas_used=kept.gas_used,
    )


class OutboxStore(Protocol):
    """Durable rows, keyed by (lane, key). `put` and `retire` return only when what they wrote survives a power cut."""

    async def rows(self, lane: str) -> list[OutboxRow]:
        """All rows of a lane, by sequence."""
        ...

    async def put(self, row: OutboxRow) -> None:
        """Inserts or replaces."""
        ...

    async def remove(self, lane: str, key: str) -> None: ...

    async def retire(self, row: OutboxRow) -> None:
        """Deletes a final row and keeps what `Retired` holds, both or neither."""
        ...

    async def retired(self, lane: str, key: str) -> Retired | None: ...


class MemoryOutbox:
    """Rows that live as long as the object."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], OutboxRow] = {}
        self._retired: dict[tuple[str, str], Retired] = {}

    async def rows(self, lane: str) -> list[OutboxRow]:
        return sorted((row for row in self._rows.values() if row.lane == lane), key=lambda row: row.sequence)

    async def put(self, row: OutboxRow) -> None:
        self._rows[row.lane, row.key] = row

    async def remove(self, lane: str, key: str) -> None:
        self._rows.pop((lane, key), None)

    async def retire(self, row: OutboxRow) -> None:
        self._retired[row.lane, row.key] = retired_of(row)
        self._rows.pop((row.lane, row.key), None)

    async def retired(self, lane: str, key: str) -> Retired | None:
        return self._retired.get((lane, key))


class SqliteOutbox:
    """Rows in SQLite (WAL, synchronous FULL). Give a path, or a connection that may be used from other threads, with its lock."""

    def __init__(
        self, source: Path | sqlite3.Connection, lock: threading.Lock | None = None, table: str = "outbox"
    ) -> None:
        if not table.isidentifier():
            raise ValueError(f"{table!r} is no table name")
        self._table = table
        self._lock = lock or threading.Lock()
        self._owns = isinstance(source, Path)
        self._connection = _open(source) if isinstance(source, Path) else source
        with self._lock, self._connection:
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table}"
                " (lane TEXT NOT NULL, key TEXT NOT NULL, position INTEGER NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL,"
                " PRIMARY KEY (lane, key))"
            )
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table}_retired"
                " (lane TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (lane, key)) WITHOUT ROWID"
            )

    async def rows(self, lane: str) -> list[OutboxRow]:
        return await asyncio.to_thread(self._rows, lane)

    async def put(self, row: OutboxRow) -> None:
        await asyncio.to_thread(
            self._write,
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?) ON CONFLICT (lane, key) DO UPDATE SET"
            " position = excluded.position, state = excluded.state, body = excluded.body",
            (row.lane, row.key, row.sequence, row.state.value, row_to_json(row)),
        )

    async def remove(self, lane: str, key: str) -> None:
        await asyncio.to_thread(self._write, f"DELETE FROM {self._table} WHERE lane = ? AND key = ?", (lane, key))

    async def retire(self, row: OutboxRow) -> None:
        await asyncio.to_thread(self._retire, row)

    async def retired(self, lane: str, key: str) -> Retired | None:
        return await asyncio.to_thread(self._find_retired, lane, key)

    def close(self) -> None:
        if self._owns:
            self._connection.close()

    def _rows(self, lane: str) -> list[OutboxRow]:
        with self._lock:
            found = self._connection.execute(
                f"SELECT body FROM {self._table} WHERE lane = ? ORDER BY position", (lane,)
            ).fetchall()
        return [row_from_json(body) for (body,) in found]

    def _retire(self, row: OutboxRow) -> None:
        body = json.dumps(dataclasses.asdict(retired_of(row)), separators=(",", ":"))
        with self._lock, self._connection:
            self._connection.execute(
                f"INSERT OR REPLACE INTO {self._table}_retired VALUES (?, ?, ?)", (row.lane, row.key, body)
            )
            self._connection.execute(f"DELETE FROM {self._table} WHERE lane = ? AND key = ?", (row.lane, row.key))

    def _find_retired(self, lane: str, key: str) -> Retired | None:
        with self._lock:
            found = self._connection.execute(
                f"SELECT body FROM {self._table}_retired WHERE lane = ? AND key = ?", (lane, key)
            ).fetchone()
        return Retired(**json.loads(found[0])) if found else None

    def _write(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock, self._connection:
            self._connection.execute(sql, values)


def row_to_json(row: OutboxRow) -> str:
    """A row as text, for stores that keep text."""
    data = dataclasses.asdict(row)
    data.update(data=row.data.hex(), raw=row.raw.hex(), value=str(row.value))
    return json.dumps(data, separators=(",", ":"))


def row_from_json(text: str) -> OutboxRow:
    data = json.loads(text)
    data.update(
        data=bytes.fromhex(data["data"]),
        raw=bytes.fromhex(data["raw"]),
        value=int(data["value"]),
        state=TxState(data["state"]),
        fees=Fees(**data["fees"]) if data["fees"] else None,
        hashes=tuple(data["hashes"]),
    )
    return OutboxRow(**data)


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection
