"""The port of a daemon's journal: what it owes and knows, so that it survives kill -9 at any instruction."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from millpond.protocol.errors import ConfigError, InputError, StorageError

GENESIS = bytes(32)
TOP = "\U0010ffff"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


class JournalFailedError(StorageError):
    """A write was lost or refused by the disk. Nothing after it may be promised."""

    remedy_text = "Stop the daemon, free or replace the disk, then start it again: what it acknowledged is kept."


class JournalLockedError(ConfigError):
    remedy_text = "Stop the other process, or give this one a home folder of its own (--home)."


class JournalTamperedError(StorageError):
    remedy_text = "Restore the journal from a copy: its events were changed, or some are missing."


class JournalNameError(InputError):
    remedy_text = "Name tables and lanes with lower-case letters, digits and _."


@dataclass(frozen=True, slots=True)
class Event:
    """One link of the chain: `hash` = sha-256(previous hash, length of kind, kind, body)."""

    seq: int
    kind: str
    body: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """What is to be delivered on a lane. Positions count from 1 without a gap."""

    position: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch got: hashes of its events and positions of its pushes, in the order of its calls. The hash of a duplicate is the old one's."""

    hashes: tuple[bytes, ...] = ()
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    table: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes keys in `[first, last)`, or the one key where `last` is empty."""

    table: str
    first: str
    last: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    kind: str
    body: bytes
    dedupe: str


@dataclass(frozen=True, slots=True)
class Push:
    lane: str
    body: bytes


@dataclass(frozen=True, slots=True)
class AckUpTo:
    lane: str
    position: int


Change = Put | Delete | Append | Push | AckUpTo


class Batch:
    """Changes that become durable together, or not at all. Built by one thread, committed once."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def __bool__(self) -> bool:
        return bool(self.changes)

    def put(self, table: str, key: str, value: bytes) -> None:
        """Insert or replace."""
        self.changes.append(Put(check_name(table), key, value))

    def put_json(self, table: str, key: str, value: Any) -> None:
        self.put(table, key, json.dumps(value, separators=(",", ":"), sort_keys=True).encode())

    def delete(self, table: str, key: str) -> None:
        """Without effect when there is no such key."""
        self.changes.append(Delete(check_name(table), key))

    def delete_prefix(self, table: str, prefix: str) -> None:
        self.changes.append(Delete(check_name(table), prefix, prefix + TOP))

    def delete_below(self, table: str, key: str) -> None:
        """Removes every key that sorts before `key`."""
        self.changes.append(Delete(check_name(table), "", key))

    def append_event(self, kind: str, body: bytes, dedupe: str = "") -> None:
        """Appends to the hash chain, unless an event with the same non-empty `dedupe` is in it."""
        self.changes.append(Append(kind, body, dedupe))

    def outbox_push(self, lane: str, body: bytes) -> None:
        """Appends to a lane; its position comes with `Committed`."""
        self.changes.append(Push(lane, body))

    def outbox_ack(self, lane: str, position: int) -> None:
        """Drops the lane's rows up to and with `position`; a repeated or older one changes nothing."""
        self.changes.append(AckUpTo(lane, position))


@runtime_checkable
class Journal(Protocol):
    """Batches are committed in the order of `submit`; reads see what is committed, and nothing else."""

    def submit(self, batch: Batch) -> Future[Committed]:
        """Queues a batch; the future resolves once it is on disk, or raises `JournalFailedError`. Any thread."""
        ...

    async def commit(self, batch: Batch) -> Committed:
        """`submit`, and wait."""
        ...

    def get(self, table: str, key: str) -> bytes | None: ...

    def get_json(self, table: str, key: str) -> Any:
        """None where there is nothing."""
        ...

    def scan(self, table: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, bytes]]:
        """Keys that start with `prefix`, in their order, beyond the key `after`."""
        ...

    def count(self, table: str) -> int: ...

    def events(self, after: int = 0) -> Iterator[Event]:
        """In order, beyond number `after`."""
        ...

    def head(self) -> bytes:
        """Hash of the last event, 32 zero bytes where there is none."""
        ...

    def outbox(self, lane: str, after: int = 0) -> Iterator[OutboxRow]:
        """Rows not acknowledged, in order, beyond position `after`."""
        ...

    def outbox_next(self, lane: str) -> int:
        """The position the next push gets."""
        ...

    def close(self) -> None:
        """Commits what is queued, then lets go of the file."""
        ...


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise JournalNameError(f"not a table's name: {name!r}", name=name)
    return name


def event_hash(previous: bytes, kind: str, body: bytes) -> bytes:
    raw = kind.encode()
    return hashlib.sha256(previous + struct.pack("<I", len(raw)) + raw + body).digest()


def verify_chain(journal: Journal) -> int:
    """How many events there are; raises `JournalTamperedError` at the first whose hash does not follow."""
    previous, seq = GENESIS, 0
    for event in journal.events():
        seq += 1
        if event.seq != seq or event.hash != event_hash(previous, event.kind, event.body):
            raise JournalTamperedError(f"event {seq} does not follow from the one before", seq=seq)
        previous = event.hash
    return seq
