"""The last bytes of what tasks write, in memory: lossy, bounded per task and in all."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from millpond.protocol import wire
from millpond.protocol.ids import Bytes32
from millpond.protocol.link import Log


@dataclass(slots=True)
class Tail:
    """Lines numbered from 1; `first` is the number of the oldest kept."""

    lines: deque[bytes] = field(default_factory=deque)
    first: int = 1
    size: int = 0


class LogBook:
    """`add` never fails; the oldest goes first."""

    def __init__(self, task_bytes: int, total_bytes: int) -> None:
        self._task_bytes, self._total_bytes = task_bytes, total_bytes
        self._tails: OrderedDict[Bytes32, Tail] = OrderedDict()
        self._size = 0

    def add(self, entry: Log) -> None:
        line = wire.write(entry)
        tail = self._tails.setdefault(entry.task, Tail())
        self._tails.move_to_end(entry.task)
        tail.lines.append(line)
        tail.size += len(line)
        self._size += len(line)
        while tail.size > self._task_bytes and len(tail.lines) > 1:
            self._drop(tail)
        while self._size > self._total_bytes and len(self._tails) > 1:
            _, oldest = self._tails.popitem(last=False)
            self._size -= oldest.size

    def after(self, task: Bytes32, number: int) -> tuple[int, list[bytes]]:
        """(number of the last line, lines beyond `number`)."""
        tail = self._tails.get(task)
        if tail is None:
            return number, []
        last = tail.first + len(tail.lines) - 1
        skip = max(0, number - tail.first + 1)
        return max(last, number), list(tail.lines)[skip:]

    def forget(self, tasks: list[Bytes32]) -> None:
        for task in tasks:
            tail = self._tails.pop(task, None)
            if tail is not None:
                self._size -= tail.size

    def _drop(self, tail: Tail) -> None:
        line = tail.lines.popleft()
        tail.first += 1
        tail.size -= len(line)
        self._size -= len(line)
