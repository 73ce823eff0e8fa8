"""What only a disk can show: kill -9, a full disk, two processes, damage."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.storage.journal import (
    Batch,
    JournalFailedError,
    JournalLockedError,
    JournalTamperedError,
    SqliteJournal,
    verify_chain,
)

WRITER = """
import sys
from millpond.storage.journal import Batch, SqliteJournal
journal = SqliteJournal(sys.argv[1])
for i in range(1000000):
    batch = Batch()
    batch.put("task", f"{i:07}", b"x" * 200)
    batch.outbox_push("node", b"y")
    batch.append_event("e", str(i).encode())
    journal.submit(batch).result()
    sys.stdout.write(f"{i}\\n")
    sys.stdout.flush()
"""


def test_O02_kill_between_any_writes_keeps_every_acknowledged_batch_whole(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite3"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(40)]
    process.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().splitlines() if line]
    process.wait(timeout=10)
    journal = SqliteJournal(path)
    tasks = journal.count("task")
    assert tasks >= acknowledged[-1] + 1
    assert len(list(journal.outbox("node"))) == tasks
    assert verify_chain(journal) == tasks
    journal.close()


async def test_reopened_journal_has_everything(tmp_path: Path) -> None:
    made = Batch()
    made.put("task", "a", b"1")
    made.outbox_push("node", b"r")
    made.append_event("e", b"1", dedupe="d")
    first = SqliteJournal(tmp_path / "j.sqlite3")
    await first.commit(made)
    first.close()
    again = SqliteJournal(tmp_path / "j.sqlite3")
    await again.commit(made)
    assert [row.position for row in again.outbox("node")] == [1, 2]
    assert verify_chain(again) == 1
    again.close()


def test_second_opener_is_refused_with_the_holder_named(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.sqlite3")
    with pytest.raises(JournalLockedError, match="in use by process"):
        SqliteJournal(tmp_path / "j.sqlite3")
    journal.close()
    SqliteJournal(tmp_path / "j.sqlite3").close()


async def test_O14_full_disk_fails_the_batch_and_all_later_ones(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.sqlite3")
    kept = Batch()
    kept.put("task", "kept", b"1")
    await journal.commit(kept)
    journal._writer._db.execute("PRAGMA max_page_count=20")
    large, small = Batch(), Batch()
    large.put("task", "large", bytes(1 << 20))
    small.put("task", "small", b"1")
    with pytest.raises(JournalFailedError, match="full"):
        await journal.commit(large)
    with pytest.raises(JournalFailedError):
        await journal.commit(small)
    journal.close()
    again = SqliteJournal(tmp_path / "j.sqlite3")
    assert [key for key, _ in again.scan("task")] == ["kept"]
    again.close()


async def test_event_changed_on_disk_is_found(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.sqlite3")
    made = Batch()
    for body in (b"1", b"2", b"3"):
        made.append_event("e", body)
    await journal.commit(made)
    other = sqlite3.connect(tmp_path / "j.sqlite3")
    other.execute("UPDATE event SET body = x'00' WHERE seq = 2")
    other.commit()
    other.close()
    with pytest.raises(JournalTamperedError, match="event 2"):
        verify_chain(journal)
    journal.close()


def test_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite3"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(JournalFailedError):
        SqliteJournal(path)
