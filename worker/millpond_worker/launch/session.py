"""The worker's end of a runner's socket: frames out, logs and results in."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millpond_worker.runner.guest.frames import PREFIX, PROTOCOL, FrameError, check_sizes, pack, parse_header

from .port import CodeBundle, LogChunk, OnLog, RunnerFacts, TaskFrame
from .spool import Owner, inside

SOCKET_NAME = "runner.sock"
BUFFER_BYTES = 1 << 20
TAIL_BYTES = 8 << 10
MAX_PIECE = 1 << 20
RESULT_STATUSES = frozenset(("ok", "failed", "timeout", "oom", "cancelled"))
RESULT_NUMBERS = ("queued_s", "run_s", "cpu_s", "rss", "log_bytes")
LARGEST = float(1 << 53)

Key = tuple[str, int]
Result = tuple[dict[str, Any], bytes]


class Listener:
    """A socket in a folder, for one runner to connect to. Paths of any length work: the folder is reached by descriptor."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.path = folder / SOCKET_NAME
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._socket.bind(f"/proc/self/fd/{handle}/{SOCKET_NAME}")
        finally:
            os.close(handle)
        self.path.chmod(0o600)
        if owner.is_other:
            os.chown(self.path, owner.uid, owner.gid)
        self._socket.listen(1)

    async def accept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
        return await asyncio.open_unix_connection(sock=connection, limit=BUFFER_BYTES)

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)


class Pending:
    """An attempt that was sent and has not come back. The image is the renter's: what comes from it is held to bounds here too."""

    def __init__(self, frame: TaskFrame, on_log: OnLog) -> None:
        self.result: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self.submitted = time.monotonic()
        self.patience_s = math.inf
        self.max_result = frame.max_result_bytes
        self.tail = b""
        self._on_log = on_log
        self._log_left = frame.max_log_bytes

    def log(self, chunk: LogChunk) -> None:
        self._log_left -= len(chunk.data)
        if self._log_left >= 0:
            self.tail = (self.tail + chunk.data)[-TAIL_BYTES:]
            self._on_log(chunk)


class Session:
    """One runner. Results arrive as futures; `None` means that the runner is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, facts: RunnerFacts) -> None:
        self.facts = facts
        self._reader, self._writer = reader, writer
        self._pending: dict[Key, Pending] = {}
        self._codes: set[str] = set()
        self._last_code = (CodeBundle({}), "")
        self._out = bytearray()
        self._draining = asyncio.Lock()
        self.is_open = True
        self._task = asyncio.create_task(self._receive())

    @property
    def pending(self) -> int:
        return len(self._pending)

    def spend(self, seconds: float) -> bool:
        """Counts time that passed against the patience with each attempt; whether one's is at its end."""
        for pending in self._pending.values():
            pending.patience_s -= seconds
        return any(pending.patience_s <= 0 for pending in self._pending.values())

    async def submit(self, frame: TaskFrame, folders: tuple[str, str], on_log: OnLog) -> Pending:
        """Sends code the runner does not have yet, then the task."""
        key, digest = (frame.task, frame.attempt), self._digest(frame.code)
        code = None if digest in self._codes else code_header(frame.code, digest)
        pending = self._pending[key] = Pending(frame, on_log)
        if not self.is_open:
            self._lose()
            return pending
        if code is not None:
            self._codes.add(digest)
            self._write(code, b"".join(frame.code.files.values()))
        self._write(task_header(frame, digest, folders), frame.args)
        if self._writer.transport.get_write_buffer_size() > BUFFER_BYTES:
            await self._drain()
        return pending

    async def _drain(self) -> None:
        async with self._draining:
            try:
                await self._writer.drain()
            except ConnectionError:
                self._lose()

    def _digest(self, code: CodeBundle) -> str:
        """The digest, computed once for a bundle that many frames in a row share."""
        if self._last_code[0] is not code:
            self._last_code = (code, code.digest)
        return self._last_code[1]

    async def cancel(self, key: Key) -> None:
        if self.is_open and key in self._pending:
            self._write({"kind": "cancel", "task": key[0], "attempt": key[1]}, b"")

    def forget(self, key: Key) -> None:
        self._pending.pop(key, None)

    def _write(self, header: dict[str, Any], body: bytes) -> None:
        """Frames of one turn of the loop leave together."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out += pack(header, len(body))
        self._out += body
        if len(self._out) > MAX_PIECE:
            self._flush()

    def _flush(self) -> None:
        out, self._out = self._out, bytearray()
        if out and self.is_open:
            self._writer.write(out)

    async def _receive(self) -> None:
        try:
            buffer = bytearray()
            while data := await self._reader.read(BUFFER_BYTES):
                buffer += data
                for header, body in whole_frames(buffer, self._largest_body):
                    self._handle(header, body)
        except (EOFError, ConnectionError, FrameError, KeyError, TypeError, ValueError):
            self.is_open = False
        finally:
            self._lose()

    def _largest_body(self) -> int:
        return MAX_PIECE + max((pending.max_result for pending in self._pending.values()), default=0)

    def _handle(self, header: dict[str, Any], body: bytes) -> None:
        pending = self._pending.get((header["task"], header["attempt"]))
        if pending is None:
            return
        if header["kind"] == "log":
            pending.log(log_chunk(header, body))
        elif header["kind"] == "result":
            check_result(header, body, pending.max_result)
            del self._pending[header["task"], header["attempt"]]
            if not pending.result.done():
                pending.result.set_result((header, body))

    def _lose(self) -> None:
        self.is_open = False
        for pending in self._pending.values():
            if not pending.result.done():
                pending.result.set_result(None)
        self._pending.clear()

    async def close(self) -> None:
        """Lets the runner go: it reads the end of the stream and exits."""
        self._task.cancel()
        self._lose()
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


def log_chunk(header: dict[str, Any], body: bytes) -> LogChunk:
    """The chunk a log frame carries. Raises FrameError."""
    if header["stream"] not in ("stdout", "stderr") or type(header["offset"]) is not int or header["offset"] < 0:
        raise FrameError("malformed log frame")
    return LogChunk(header["task"], header["attempt"], header["stream"], header["offset"], body)


def check_result(header: dict[str, Any], body: bytes, max_result: int) -> None:
    """Raises FrameError for a result frame that our runner would not send."""
    error, code = header["error"], header["exit_code"]
    is_good = (
        header["status"] in RESULT_STATUSES
        and len(body) <= max_result
        and (error is None or (type(error) is list and [type(part) for part in error] == [str] * 3))
        and (code is None or type(code) is int)
        and type(header["left"]) is str
        and all(type(header[name]) in (int, float) and 0 <= header[name] < LARGEST for name in RESULT_NUMBERS)
    )
    if not is_good:
        raise FrameError("malformed result frame")


def code_header(code: CodeBundle, digest: str) -> dict[str, Any]:
    """Header of a code frame; the files follow in the same order. Raises `InputPathError` for a path outside the code's folder."""
    files = [[inside(path), len(body)] for path, body in code.files.items()]
    return {"kind": "code", "digest": digest, "main": inside(code.main) if code.main else "", "files": files}


def task_header(frame: TaskFrame, digest: str, folders: tuple[str, str]) -> dict[str, Any]:
    """Header of a task frame."""
    return {
        "kind": "task",
        "task": frame.task,
        "attempt": frame.attempt,
        "digest": digest,
        "entry": frame.entry,
        "limit_s": frame.time_limit_s,
        "max_result": frame.max_result_bytes,
        "max_log": frame.max_log_bytes,
        "input": folders[0],
        "output": folders[1],
    }


async def read_frame(reader: asyncio.StreamReader, largest_body: Callable[[], int]) -> Result:
    """The next frame. Raises EOFError, FrameError."""
    header_bytes, body_bytes = PREFIX.unpack(await reader.readexactly(PREFIX.size))
    check_sizes(header_bytes, 0)
    if body_bytes > largest_body():
        raise FrameError("the frame is larger than any answer that is awaited")
    header = parse_header(await reader.readexactly(header_bytes))
    return header, await reader.readexactly(body_bytes)


def whole_frames(buffer: bytearray, largest_body: Callable[[], int]) -> Iterator[Result]:
    """Takes the frames that have arrived out of `buffer`. Raises FrameError as soon as a length is known to be too large."""
    start, have = 0, len(buffer)
    while have - start >= PREFIX.size:
        header_bytes, body_bytes = PREFIX.unpack_from(buffer, start)
        check_sizes(header_bytes, 0)
        if body_bytes > largest_body():
            raise FrameError("the frame is larger than any answer that is awaited")
        middle = start + PREFIX.size + header_bytes
        if have < middle + body_bytes:
            break
        header, body = parse_header(buffer[start + PREFIX.size : middle]), bytes(buffer[middle : middle + body_bytes])
        start = middle + body_bytes
        yield header, body
    del buffer[:start]


async def greet(listener: Listener, ended: asyncio.Future[Any], timeout_s: float) -> Session | None:
    """Waits for the runner's first frame; `None` when its process ended or the time is over before it comes."""
    accepting = asyncio.ensure_future(_first_frame(listener))
    await asyncio.wait({accepting, ended}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if not accepting.done():
        accepting.cancel()
        return None
    try:
        reader, writer, header = accepting.result()
        return Session(reader, writer, facts_of(header))
    except (EOFError, ConnectionError, FrameError, KeyError, TypeError, ValueError):
        return None


async def _first_frame(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]:
    reader, writer = await listener.accept()
    header, _ = await read_frame(reader, lambda: 0)
    if header["kind"] != "hello" or header.get("protocol") != PROTOCOL:
        raise FrameError("the runner speaks another protocol")
    return reader, writer, header


def facts_of(header: dict[str, Any]) -> RunnerFacts:
    """Facts from a hello frame."""
    major, minor, micro = (int(part) for part in header["python"])
    return RunnerFacts((major, minor, micro), bool(header["numpy"]), int(header["pid"]), int(header["protocol"]))
