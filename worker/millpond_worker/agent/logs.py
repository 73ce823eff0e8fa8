"""Task output on its way to the node: bounded, and lossy where the node is slow or away. Gaps show in the offsets."""

from __future__ import annotations

from collections import deque

from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Log
from millpond_worker.launch.port import MAX_LOG_BYTES, LogChunk

QUEUE_BYTES = 4 << 20
PIECE_BYTES = 64 << 10


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
            log = Log(lease, Bytes32(chunk.task), chunk.attempt, chunk.stream, chunk.offset + start, piece)
            self._waiting.append(log)

    def pop(self) -> Log | None:
        if not self._waiting:
            return None
        log = self._waiting.popleft()
        self._bytes -= len(log.data)
        return log


class AttemptLog:
    """All one attempt wrote, both streams as they came, up to the launcher's limit."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        room = MAX_LOG_BYTES - self._size
        if room > 0:
            self._parts.append(data[:room])
            self._size += min(len(data), room)

    def bytes(self) -> bytes:
        return b"".join(self._parts)
