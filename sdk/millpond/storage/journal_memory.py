"""The journal's fake: the same behaviour without a disk. `image()` is what a crash would leave."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from millpond.storage.journal_port import (
    GENESIS,
    AckUpTo,
    Append,
    Batch,
    Change,
    Committed,
    Delete,
    Event,
    JournalFailedError,
    OutboxRow,
    Push,
    Put,
    event_hash,
)


@dataclass
class Image:
    """All a journal holds."""

    tables: dict[str, dict[str, bytes]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    dedupe: dict[str, bytes] = field(default_factory=dict)
    lanes: dict[str, dict[int, bytes]] = field(default_factory=dict)
    next_positions: dict[str, int] = field(default_factory=dict)


class MemoryJournal:
    """`holds` keeps batches uncommitted until `release`, as a slow disk does; `fail` makes every later write fail."""

    def __init__(self, image: Image | None = None, *, holds: bool = False) -> None:
        self._image = image or Image()
        self._holds, self._failed, self._closed = holds, False, False
        self._waiting: list[tuple[Batch, Future[Committed]]] = []

    def image(self) -> Image:
        """A copy of what is committed now."""
        return copy.deepcopy(self._image)

    def fail(self) -> None:
        self._failed = True

    def release(self) -> None:
        """Commits what is held."""
        waiting, self._waiting = self._waiting, []
        for batch, future in waiting:
            self._write(batch, future)

    def submit(self, batch: Batch) -> Future[Committed]:
        future: Future[Committed] = Future()
        if self._holds and not self._failed and not self._closed:
            self._waiting.append((batch, future))
        else:
            self._write(batch, future)
        return future

    async def commit(self, batch: Batch) -> Committed:
        return await asyncio.wrap_future(self.submit(batch))

    def get(self, table: str, key: str) -> bytes | None:
        return self._image.tables.get(table, {}).get(key)

    def get_json(self, table: str, key: str) -> Any:
        value = self.get(table, key)
        return None if value is None else json.loads(value)

    def scan(self, table: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, bytes]]:
        rows = self._image.tables.get(table, {})
        return iter([(key, rows[key]) for key in sorted(rows) if key.startswith(prefix) and key > after])

    def count(self, table: str) -> int:
        return len(self._image.tables.get(table, {}))

    def events(self, after: int = 0) -> Iterator[Event]:
        return iter(self._image.events[after:])

    def head(self) -> bytes:
        return self._image.events[-1].hash if self._image.events else GENESIS

    def outbox(self, lane: str, after: int = 0) -> Iterator[OutboxRow]:
        rows = self._image.lanes.get(lane, {})
        return iter([OutboxRow(position, rows[position]) for position in sorted(rows) if position > after])

    def outbox_next(self, lane: str) -> int:
        return self._image.next_positions.get(lane, 1)

    def close(self) -> None:
        self.release()
        self._closed = True

    def _write(self, batch: Batch, future: Future[Committed]) -> None:
        if self._failed or self._closed:
            future.set_exception(JournalFailedError("the journal failed or is closed"))
            return
        hashes, positions = list[bytes](), list[int]()
        for change in batch.changes:
            self._apply(change, hashes, positions)
        future.set_result(Committed(tuple(hashes), tuple(positions)))

    def _apply(self, change: Change, hashes: list[bytes], positions: list[int]) -> None:
        match change:
            case Put(table, key, value):
                self._image.tables.setdefault(table, {})[key] = value
            case Delete(table, first, last):
                rows = self._image.tables.setdefault(table, {})
                for key in [key for key in rows if (first <= key < last if last else key == first)]:
                    del rows[key]
            case Append():
                hashes.append(self._append(change))
            case Push(lane, body):
                position = self.outbox_next(lane)
                self._image.lanes.setdefault(lane, {})[position] = body
                self._image.next_positions[lane] = position + 1
                positions.append(position)
            case AckUpTo(lane, position):
                rest = self._image.lanes.get(lane, {})
                for old in [old for old in rest if old <= position]:
                    del rest[old]

    def _append(self, change: Append) -> bytes:
        known = self._image.dedupe.get(change.dedupe) if change.dedupe else None
        if known is not None:
            return known
        digest = event_hash(self.head(), change.kind, change.body)
        self._image.events.append(Event(len(self._image.events) + 1, change.kind, change.body, digest))
        if change.dedupe:
            self._image.dedupe[change.dedupe] = digest
        return digest
