"""HTTP below the application: what one connection may cost in time and memory, whatever its client does.

Bytes that end no head, a body that follows its answer, and an answer nobody reads are cut off here, where the application cannot see them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from millpond.protocol.errors import MillpondError
from millpond_node.api.cork import Corked
from millpond_node.config import Limits
from millpond_node.errors import HeadError, MalformedError

MAX_HEAD_BYTES = 32 << 10
LINGER_S = 5.0
SHUTDOWN_S = 5
KEEP_ALIVE_S = 30
WEBSOCKET_BYTES = 8 << 20


def server_options(app: Starlette, limits: Limits, **options: Any) -> uvicorn.Config:
    """How the node serves `app`."""
    return uvicorn.Config(
        app,
        http=guarded(limits),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=WEBSOCKET_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
        server_header=False,
        proxy_headers=False,
        **options,
    )


def guarded(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of one server: its connections count together."""

    class Guarded(GuardedProtocol):
        bounds = limits
        open_from: ClassVar[Counter[str]] = Counter()

    return Guarded


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with an end to everything a client may leave open."""

    bounds: ClassVar[Limits]
    open_from: ClassVar[Counter[str]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head_bytes, self._is_in_head = 0, True
        self._refusal: MillpondError | None = None
        self._host = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]
        host = self.client[0] if self.client else "local"
        bounds = self.bounds
        if self.open_from[host] >= bounds.connections_per_address or self.open_from.total() >= bounds.connections:
            transport.abort()
            return
        self._host = host
        self.open_from[host] += 1
        self._start("head", bounds.head_seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._release()  # workers have a limit of their own
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refusal = HeadError(f"the head of a request is longer than {MAX_HEAD_BYTES} bytes")
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """A typed answer for bytes that are no request."""
        error = self._refusal or MalformedError("the bytes that came are no HTTP request")
        body = json.dumps(error.as_dict(), separators=(",", ":")).encode()
        status = int(getattr(error, "status", 400))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._start("head", self.bounds.head_seconds, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        self._stop("head")
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES:
            self._refusal = HeadError(f"the head of a request is longer than {MAX_HEAD_BYTES} bytes")
            raise self._refusal
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
        self._stop("linger")
        if self.cycle is not None:
            self.cycle.more_body = False

    def on_response_complete(self) -> None:
        has_more = self.cycle.more_body
        super().on_response_complete()
        if has_more:  # its answer may still be on the way to a client that only sends
            self._start("linger", LINGER_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("stall", self.bounds.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("stall")

    def _start(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        self._stop(name)
        self._timers[name] = self.loop.call_later(seconds, action)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _release(self) -> None:
        for name in list(self._timers):
            self._stop(name)
        if self._host:
            self.open_from[self._host] -= 1
            if not self.open_from[self._host]:
                del self.open_from[self._host]
            self._host = ""
