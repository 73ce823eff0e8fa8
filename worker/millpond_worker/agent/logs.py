"""Task output on its way to the node: bounded, and lossy where the node is slow or away. Gaps show in the offsets."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Log
from millpond_worker.launch.port import MAX_LOG_BYTES, LogChunk

QUEUE_BYTES = 4 << 20
PIECE_BYTES = 64 << 10
JOINED_BYTES = 8 << 10


class LogQueue:
    """What waits to be sent. The newest is dropped when it is full."""

    def __init__(self, max_bytes: int = QUEUE_BYTES) -> None:
        self._waiting: deque[Log] = deque()
        self._bytes, self._max_bytes = 0, max_bytes
        self.dropped_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, lease: Bytes32, chunk: LogChunk) -> None:
        for start in range(0, len(chunk.data), PIECE_BYTES):
            piece = chunk.data[start : start + PIECE_BYTES]
            if self._bytes + len(piece) > self._max_bytes:
                self.dropped_bytes += len(piece)
                continue
            self._bytes += len(piece)
            self._append(Log(lease, Bytes32(chunk.task), chunk.attempt, chunk.stream, chunk.offset + start, piece))

    def _append(self, log: Log) -> None:
        """Small pieces that follow one another travel as one message."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and len(last.data) < JOINED_BYTES and _follows(last, log):
            self._waiting[-1] = replace(last, data=last.data + log.data)
        else:
            self._waiting.append(log)

    def pop(self) -> Log | None:
        if not self._waiting:
            return None
        log = self._waiting.popleft()
        self._bytes -= len(log.data)
        return log


def _follows(last: Log, log: Log) -> bool:
    one, other = ((item.lease, item.task, item.attempt, item.stream) for item in (last, log))
    return one == other and last.offset + len(last.data) == log.offset


class AttemptLog:
    """All one attempt wrote, both streams as they came, up to the launcher's limit. What is missing leaves a mark in its place."""

    __slots__ = ("_came", "_next", "_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = self._came = 0
        self._next: dict[str, int] = {}

    def add(self, chunk: LogChunk) -> None:
        missing = chunk.offset - self._next.get(chunk.stream, 0)
        self._next[chunk.stream] = chunk.offset + len(chunk.data)
        self._came += len(chunk.data)
        room = MAX_LOG_BYTES - self._size
        if room <= 0:
            return
        if missing > 0:
            self._parts.append(gap(missing))
        self._parts.append(chunk.data[:room])
        self._size += min(len(chunk.data), room)

    def bytes(self, written: int = 0) -> bytes:
        """`written`: bytes the attempt wrote in all, where the launcher counted them."""
        cut = max(0, written - sum(self._next.values())) + self._came - self._size
        return b"".join(self._parts) + (gap(cut) if cut else b"")


def gap(missing: int) -> bytes:
    """What stands in a log where bytes of it are missing."""
    return f"\n[millpond: {missing} bytes of output are missing here]\n".encode()
