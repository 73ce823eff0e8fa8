"""Both stores keep the same promises."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.chain.fees import Fees
from millpond.chain.outbox import (
    MemoryOutbox,
    OutboxRow,
    OutboxStore,
    SqliteOutbox,
    TxState,
    row_from_json,
    row_to_json,
)
from millpond.protocol.ids import ZERO_ADDRESS, Bytes32

HASH = Bytes32("0x" + "ab" * 32)
FULL = OutboxRow(
    lane="a@1",
    key="k",
    sequence=7,
    to=ZERO_ADDRESS,
    data=b"\x00\xff",
    value=2**255,
    label="Escrow.deposit",
    is_urgent=True,
    state=TxState.FINAL,
    nonce=3,
    gas=21_000,
    fees=Fees(5, 1),
    raw=b"\x02raw",
    hashes=(HASH,),
    mined_hash=HASH,
    block_number=9,
    block_hash=HASH,
    is_ok=True,
    gas_used=20_000,
    reason="why",
)
BARE = OutboxRow("a@1", "bare", 1, ZERO_ADDRESS, b"", 0)


@pytest.fixture(params=["memory", "file", "connection"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OutboxStore]:
    if request.param == "memory":
        yield MemoryOutbox()
    elif request.param == "file":
        made = SqliteOutbox(tmp_path / "deep" / "outbox.db")
        yield made
        made.close()
    else:
        connection = sqlite3.connect(tmp_path / "journal.db", check_same_thread=False)
        yield SqliteOutbox(connection, threading.Lock())
        connection.close()


@pytest.mark.parametrize("row", [FULL, BARE], ids=["full", "bare"])
def test_row_survives_its_json_form(row: OutboxRow) -> None:
    assert row_from_json(row_to_json(row)) == row


async def test_put_then_rows_returns_equal_rows_by_sequence(store: OutboxStore) -> None:
    await store.put(FULL)
    await store.put(BARE)
    assert await store.rows("a@1") == [BARE, FULL]


async def test_put_again_replaces(store: OutboxStore) -> None:
    await store.put(BARE)
    await store.put(BARE.with_(state=TxState.SIGNED, nonce=4))
    assert await store.rows("a@1") == [BARE.with_(state=TxState.SIGNED, nonce=4)]


async def test_rows_of_another_lane_are_not_seen(store: OutboxStore) -> None:
    await store.put(BARE)
    assert await store.rows("b@1") == []


async def test_remove_forgets_and_twice_does_nothing(store: OutboxStore) -> None:
    await store.put(BARE)
    await store.remove("a@1", "bare")
    await store.remove("a@1", "bare")
    assert await store.rows("a@1") == []


async def test_sqlite_rows_are_there_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    first = SqliteOutbox(path)
    await first.put(FULL)
    second = SqliteOutbox(path)
    assert await second.rows("a@1") == [FULL]
    first.close()
    second.close()


def test_sqlite_file_commits_to_the_disk(tmp_path: Path) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db")
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_sqlite_table_name_that_is_sql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="table name"):
        SqliteOutbox(tmp_path / "x.db", table="outbox; DROP TABLE lease")
