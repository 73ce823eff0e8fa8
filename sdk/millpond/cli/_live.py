"""Prints what a command writes while it runs, and from its whole log what the stream left out."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Self

from millpond.protocol.link import Log


class LivePrinter:
    """Writes on a thread of its own: a reader that is slow, or gone, must not hold up the vouchers."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._seen: Counter[str] = Counter()
        self._is_broken = False
        self._has_gap = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=error is not None)

    def show(self, chunk: Log) -> None:
        """Stops at the first gap: the rest comes from the log."""
        if self._has_gap or chunk.offset != self._seen[chunk.stream]:
            self._has_gap = True
            return
        self._seen[chunk.stream] += len(chunk.data)
        target = sys.stderr.buffer if chunk.stream == "stderr" else sys.stdout.buffer
        self._pool.submit(self._write, target, chunk.data)

    def finish(self, log: bytes) -> None:
        """Writes what `log` has beyond what was shown; raises `BrokenPipeError` when nobody reads any more."""
        self._pool.submit(self._write, sys.stdout.buffer, log[self._seen.total() :]).result()
        if self._is_broken:
            raise BrokenPipeError

    def _write(self, target: BinaryIO, data: bytes) -> None:
        if self._is_broken or not data:
            return
        try:
            target.write(data)
            target.flush()
        except BrokenPipeError:
            self._is_broken = True
