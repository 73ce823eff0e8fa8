"""Group commit without a timer: whatever queued while one group was being written becomes the next group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from millpond.protocol.errors import StorageError

T = TypeVar("T")


class _Ticket(Generic[T]):
    __slots__ = ("done", "error", "items")

    def __init__(self, items: Sequence[T]) -> None:
        self.items = items
        self.done = False
        self.error: StorageError | None = None


class GroupCommit(Generic[T]):
    """`submit` returns when `write` has made the items durable, together with those of callers who waited meanwhile."""

    def __init__(self, write: Callable[[Sequence[T]], None]) -> None:
        self._write = write
        self._queue: list[_Ticket[T]] = []
        self._queue_lock = threading.Lock()
        self._write_lock = threading.Lock()

    def submit(self, items: Sequence[T]) -> None:
        """Raises what `write` raised for these items."""
        ticket = _Ticket(items)
        with self._queue_lock:
            self._queue.append(ticket)
        with self._write_lock:
            if not ticket.done:
                self._flush()
        if ticket.error is not None:
            raise ticket.error

    def _flush(self) -> None:
        with self._queue_lock:
            tickets, self._queue = self._queue, []
        try:
            self._write([item for ticket in tickets for item in ticket.items])
        except StorageError:
            for ticket in tickets:
                self._alone(ticket)
        for ticket in tickets:
            ticket.done = True

    def _alone(self, ticket: _Ticket[T]) -> None:
        """A group that failed is written caller by caller: one too large must not fail the others."""
        try:
            self._write(ticket.items)
        except StorageError as error:
            ticket.error = error
