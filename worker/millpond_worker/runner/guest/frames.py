"""Frames between worker, runner and executor: u32 header length, u32 body length, JSON header, body.

worker -> runner    code {digest, main, files: [[path, bytes]...]} + files;  cancel {task, attempt}
                    task {task, attempt, digest, entry, limit_s, max_result, max_log, input, output} + encoded arguments
runner -> worker    hello {protocol, python, numpy, pid};  log {task, attempt, stream, offset} + bytes
                    result {task, attempt, status, error, exit_code, queued_s, run_s, cpu_s, rss, log_bytes, left} + encoded value

`output` is where a task may write; the runner makes that folder, or gives the task an earlier one in which nothing was left. `left`
names the folder, beside `output`, in which the task left something; it is empty when there is nothing.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from typing import Any, Deque, Dict, List, Sequence, Tuple, Union

PROTOCOL = 2
MAX_HEADER = 4 << 20
MAX_BODY = 2 << 30
PREFIX = struct.Struct("<II")
READ_BYTES = 256 << 10

Header = Dict[str, Any]
Frame = Tuple[Header, bytearray]
Piece = Union[bytes, bytearray, memoryview]


class FrameError(Exception):
    """The other side sent something that is no frame."""


def pack(header: Header, body_bytes: int = 0) -> bytes:
    """Prefix and header of a frame; the caller sends `body_bytes` of body after it."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(len(text), body_bytes) + text


def check_sizes(header_bytes: int, body_bytes: int) -> None:
    """Refuses lengths that no frame of this protocol has."""
    if header_bytes > MAX_HEADER or body_bytes > MAX_BODY:
        raise FrameError("frame too large: %d + %d bytes" % (header_bytes, body_bytes))


def parse_header(text: Union[bytes, bytearray]) -> Header:
    """The header as a dict with a `kind`."""
    try:
        header = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise FrameError("frame header is no JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise FrameError("frame header has no kind")
    return header


class Channel:
    """A non-blocking socket that carries frames, for a selector loop."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.waiting = 0
        self._in = bytearray()
        self._out: Deque[memoryview] = deque()

    def receive(self) -> List[Frame]:
        """Whole frames that have arrived. Raises EOFError when the other side is gone."""
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        self._in += data
        frames: List[Frame] = []
        while self._take(frames):
            pass
        return frames

    def _take(self, frames: List[Frame]) -> bool:
        if len(self._in) < PREFIX.size:
            return False
        header_bytes, body_bytes = PREFIX.unpack_from(self._in)
        check_sizes(header_bytes, body_bytes)
        start, end = PREFIX.size + header_bytes, PREFIX.size + header_bytes + body_bytes
        if len(self._in) < end:
            return False
        frames.append((parse_header(self._in[PREFIX.size : start]), self._in[start:end]))
        del self._in[:end]
        return True

    def send(self, header: Header, body: Sequence[Piece] = ()) -> None:
        """Queues a frame and sends what the socket takes now."""
        for piece in (pack(header, sum(len(part) for part in body)), *body):
            if len(piece):
                self.waiting += len(piece)
                self._out.append(memoryview(piece))
        self.flush()

    def flush(self) -> None:
        """Sends on. A vanished reader is noticed by `receive`."""
        try:
            while self._out:
                sent = self.sock.send(self._out[0])
                self.waiting -= sent
                if sent == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][sent:]
        except BlockingIOError:
            return
        except ConnectionError:
            self._out.clear()
            self.waiting = 0


def receive_blocking(sock: socket.socket) -> Frame:
    """The next frame from a blocking socket; its body is writable and not copied. Raises EOFError."""
    header_bytes, body_bytes = PREFIX.unpack(_read_exactly(sock, PREFIX.size))
    check_sizes(header_bytes, body_bytes)
    header = parse_header(_read_exactly(sock, header_bytes))
    return header, _read_exactly(sock, body_bytes)


def _read_exactly(sock: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        read = sock.recv_into(view[got:])
        if read == 0:
            raise EOFError
        got += read
    return data
