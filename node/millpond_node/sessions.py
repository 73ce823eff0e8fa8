"""One worker's connection as the node holds it: what is to be sent, in order, and no more than it can take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from millpond.protocol import wire
from millpond.protocol.ids import Address
from millpond.protocol.link import Ack, NodeMessage

MAX_QUEUED = 20_000
SEND_SECONDS = 30.0
ACK_S = 0.02


@dataclass(eq=False)
class Session:
    """`send` never waits. `has_reported`: its first report came. A worker that does not read is cut off, and gets all again when it comes back."""

    worker: Address
    number: int
    instance: str
    queue: list[NodeMessage] = field(default_factory=list)
    is_over: bool = False
    has_reported: bool = False
    _acked: int | None = None
    _ringing: asyncio.TimerHandle | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, message: NodeMessage) -> None:
        if self.is_over:
            return
        self.queue.append(message)
        if len(self.queue) > MAX_QUEUED:
            self.end()
        self._wake.set()

    def acknowledge(self, seq: int) -> None:
        """With the next message, or within `ACK_S`: a worker only forgets what is acknowledged, and nobody waits for that."""
        self._acked = seq
        if self._ringing is None and not self.is_over:
            self._ringing = asyncio.get_running_loop().call_later(ACK_S, self._wake.set)

    def end(self) -> None:
        """Closes the connection once what is queued was sent."""
        self.is_over = True
        self._wake.set()

    async def write(self, send_text: Callable[[str], Awaitable[None]]) -> None:
        """Sends what comes until the session ends. Raises `TimeoutError` when the worker does not read."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self.queue = [*self._take_ack(), *self.queue], []
            for frame in wire.frames(wire.write(message) for message in waiting[:MAX_QUEUED]):
                async with asyncio.timeout(SEND_SECONDS):
                    await send_text(frame.decode())
            if self.is_over:
                return

    def _take_ack(self) -> list[NodeMessage]:
        if self._ringing is not None:
            self._ringing.cancel()
        seq, self._acked, self._ringing = self._acked, None, None
        return [] if seq is None else [Ack(seq)]
