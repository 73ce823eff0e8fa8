"""HTTP/1.1 to one server over few kept connections. Signed requests are small and many: a general client's own work would be most of their cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import h11
import httpx

MAX_CONNECTIONS = 100
MAX_IDLE = 20
IDLE_S = 20.0
"""Less than the node keeps an idle connection, so that a request seldom meets one that is about to close."""
READ_BYTES = 256 << 10
T = TypeVar("T")


class Connections(httpx.AsyncBaseTransport):
    """Requests to the server of `url`, at most `most` at once. Raises httpx's transport errors and obeys its timeouts, in seconds."""

    def __init__(self, url: str, most: int = MAX_CONNECTIONS) -> None:
        self._url = httpx.URL(url)
        self._context = httpx.create_ssl_context(trust_env=False) if self._url.scheme == "https" else None
        self._gate = asyncio.Semaphore(most)
        self._idle: list[_Line] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        await _within(self._gate.acquire(), timeouts.get("pool"), httpx.PoolTimeout)
        line = self._take()
        try:
            if line is None:
                line = await self._connect(timeouts.get("connect"))
            await line.send(request, timeouts.get("write"))
            head = await line.head(timeouts.get("read"))
        except BaseException:
            self.release(line)
            raise
        return httpx.Response(
            head.status_code, headers=list(head.headers), stream=_Body(self, line, timeouts.get("read"))
        )

    async def aclose(self) -> None:
        idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def release(self, line: _Line | None) -> None:
        """Keeps a connection whose exchange is complete for the next, and closes any other."""
        self._gate.release()
        if line is None:
            return
        if len(self._idle) < MAX_IDLE and line.restart():
            self._idle.append(line)
        else:
            line.close()

    def _take(self) -> _Line | None:
        """The connection used last that is still good."""
        while self._idle:
            line = self._idle.pop()
            if line.is_usable:
                return line
            line.close()
        return None

    async def _connect(self, seconds: float | None) -> _Line:
        url = self._url
        port = url.port or (443 if self._context else 80)
        opening = asyncio.open_connection(url.host, port, ssl=self._context, limit=READ_BYTES)
        try:
            return _Line(*await _within(opening, seconds, httpx.ConnectTimeout))
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error


class _Line:
    """One connection and what the protocol says of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._state = h11.Connection(h11.CLIENT)
        self._loop = asyncio.get_running_loop()
        self._idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        is_fresh = self._loop.time() - self._idle_since < IDLE_S
        return is_fresh and not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, request: httpx.Request, seconds: float | None) -> None:
        """The whole request in one piece."""
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        pieces = [
            self._state.send(head),
            self._state.send(h11.Data(request.content)),
            self._state.send(h11.EndOfMessage()),
        ]
        try:
            self._writer.write(b"".join(piece for piece in pieces if piece))
            await _within(self._writer.drain(), seconds, httpx.WriteTimeout)
        except OSError as error:
            raise httpx.WriteError(str(error)) from error

    async def head(self, seconds: float | None) -> h11.Response:
        while not isinstance(event := await self.event(seconds), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the server closed the connection without an answer")
        return event

    async def event(self, seconds: float | None) -> h11.Event | type[h11.PAUSED]:
        """What comes next; waits for it."""
        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                self._state.receive_data(await _within(self._reader.read(READ_BYTES), seconds, httpx.ReadTimeout))
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        return event  # type: ignore[return-value]

    def restart(self) -> bool:
        """Ready for another request; False when this one is not over, or was the last here."""
        if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
            return False
        self._state.start_next_cycle()
        self._idle_since = self._loop.time()
        return True

    def close(self) -> None:
        self._writer.close()


class _Body(httpx.AsyncByteStream):
    """The body of an answer as it comes. Its connection is given back at its end."""

    def __init__(self, connections: Connections, line: _Line, seconds: float | None) -> None:
        self._connections, self._seconds = connections, seconds
        self._line: _Line | None = line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._line is not None and isinstance(event := await self._line.event(self._seconds), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._connections.release(line)


async def _within(work: Awaitable[T], seconds: float | None, error: type[httpx.TimeoutException]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise error("timed out" if seconds is None else f"more than {seconds:g} s") from None
