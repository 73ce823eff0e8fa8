"""What is written in one turn of the loop leaves in one piece: head and body of an answer are one call of the system, and wake their reader once."""

from __future__ import annotations

import asyncio
from typing import Any

MAX_HELD_BYTES = 64 << 10


class Corked:
    """A transport that holds small writes until the loop's next turn. All else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size > MAX_HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._held.clear()
        self._transport.abort()
