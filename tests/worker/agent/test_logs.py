"""What is missing of a log leaves a mark in its place: in the queue to the node by its offsets, in the whole log by a line."""

from __future__ import annotations

import pytest

from millpond.protocol.ids import Bytes32
from millpond_worker.agent import logs
from millpond_worker.agent.logs import AttemptLog, LogQueue, gap
from millpond_worker.launch.port import LogChunk

LEASE, TASK = Bytes32("0x" + "01" * 32), "0x" + "02" * 32


def chunk(offset: int, data: bytes, stream: str = "stdout", attempt: int = 1) -> LogChunk:
    return LogChunk(TASK, attempt, stream, offset, data)


def test_log_without_gaps_is_what_was_written() -> None:
    kept = AttemptLog()
    for piece in (chunk(0, b"one\n"), chunk(0, b"oh\n", "stderr"), chunk(4, b"two\n")):
        kept.add(piece)
    assert kept.bytes(written=11) == b"one\noh\ntwo\n"


def test_bytes_that_never_came_leave_a_mark_in_their_place() -> None:
    kept = AttemptLog()
    kept.add(chunk(0, b"one\n"))
    kept.add(chunk(104, b"two\n"))
    assert kept.bytes() == b"one\n" + gap(100) + b"two\n"


def test_bytes_the_launcher_counted_and_did_not_bring_leave_a_mark_at_the_end() -> None:
    kept = AttemptLog()
    kept.add(chunk(0, b"one\n"))
    assert kept.bytes(written=50) == b"one\n" + gap(46)


def test_log_over_the_limit_is_cut_with_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 6)
    kept = AttemptLog()
    kept.add(chunk(0, b"four"))
    kept.add(chunk(4, b"more"))
    kept.add(chunk(8, b"even"))
    assert kept.bytes(written=20) == b"fourmo" + gap(14)


def test_lines_that_follow_one_another_travel_as_one_message() -> None:
    queue = LogQueue()
    for i in range(100):
        queue.add(LEASE, chunk(2 * i, b"x\n"))
    assert len(queue) == 1
    assert queue.pop().data == b"x\n" * 100


def test_streams_attempts_and_gaps_are_never_joined() -> None:
    queue = LogQueue()
    for piece in (chunk(0, b"a"), chunk(0, b"b", "stderr"), chunk(5, b"c", "stderr"), chunk(6, b"d", "stderr", 2)):
        queue.add(LEASE, piece)
    assert len(queue) == 4


def test_full_queue_drops_and_its_offsets_show_the_gap() -> None:
    queue = LogQueue(max_bytes=10)
    queue.add(LEASE, chunk(0, b"0123456789"))
    queue.add(LEASE, chunk(10, b"lost"))
    assert queue.pop().offset == 0
    queue.add(LEASE, chunk(14, b"next"))
    assert queue.pop().offset == 14
    assert queue.dropped_bytes == 4
