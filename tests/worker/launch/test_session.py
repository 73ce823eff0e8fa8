"""The worker's end of the socket, against a runner in the renter's hands."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from millpond_worker.launch.port import CodeBundle, LogChunk, TaskFrame
from millpond_worker.launch.session import Listener, Session, check_result, greet
from millpond_worker.launch.spool import InputPathError, Owner
from millpond_worker.runner.guest.frames import PREFIX, FrameError, pack

HELLO = {"kind": "hello", "protocol": 2, "python": [3, 11, 2], "numpy": True, "pid": 1}
RESULT = {
    "kind": "result",
    "task": "t",
    "attempt": 1,
    "status": "ok",
    "error": None,
    "exit_code": None,
    "queued_s": 0.0,
    "run_s": 0.1,
    "cpu_s": 0.1,
    "rss": 1,
    "log_bytes": 0,
    "left": "",
}
FRAME = TaskFrame("t", 1, CodeBundle({"m.py": b""}), "m:f", b"", max_result_bytes=100, max_log_bytes=50)


class Renter:
    """A runner that says what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.listener = Listener(folder, Owner(os.geteuid(), os.getegid(), False))
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(self.listener.path))
        self.session: Session | None = None

    def say(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.socket.sendall(pack(header, len(body)) + body)

    async def meet(self, hello: dict[str, Any] | None = None) -> Session | None:
        self.say(hello or HELLO)
        self.session = await greet(self.listener, asyncio.get_running_loop().create_future(), 5.0)
        return self.session

    async def submit(self, logs: list[LogChunk]) -> Any:
        session = await self.meet()
        assert session is not None
        return await session.submit(FRAME, ("/in", "/out"), logs.append)


@pytest_asyncio.fixture
async def renter(tmp_path: Path) -> AsyncIterator[Renter]:
    found = Renter(tmp_path)
    yield found
    if found.session is not None:
        await found.session.close()
    found.listener.close()
    found.socket.close()


@pytest.mark.parametrize(
    "change",
    [{"protocol": 1}, {"kind": "result"}, {"python": [3, 11]}, {"python": "x"}, {"pid": "x"}, {"python": None}],
)
async def test_greet_malformed_hello_gives_no_session(renter: Renter, change: dict[str, Any]) -> None:
    assert await renter.meet(HELLO | change) is None


async def test_greet_process_that_ended_gives_no_session_at_once(tmp_path: Path) -> None:
    listener = Listener(tmp_path, Owner(os.geteuid(), os.getegid(), False))
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ended.set_result(1)
    assert await greet(listener, ended, 30.0) is None
    listener.close()
    assert not listener.path.exists()


async def test_result_arrives_with_its_body(renter: Renter) -> None:
    pending = await renter.submit([])
    renter.say(RESULT, b"value")
    assert await pending.result == (RESULT, b"value")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "bogus"},
        {"status": "lost"},
        {"error": "text"},
        {"error": ["a", "b"]},
        {"error": [1, 2, 3]},
        {"run_s": -1},
        {"run_s": float("nan")},
        {"run_s": 1e300},
        {"rss": "x"},
        {"exit_code": "0"},
        {"log_bytes": True},
        {"left": None},
    ],
)
async def test_malformed_result_loses_the_runner_not_the_worker(renter: Renter, change: dict[str, Any]) -> None:
    pending = await renter.submit([])
    renter.say(RESULT | change)
    assert await pending.result is None
    with pytest.raises(FrameError):
        check_result(RESULT | change, b"", 100)


async def test_result_over_its_bound_loses_the_runner(renter: Renter) -> None:
    pending = await renter.submit([])
    renter.say(RESULT, bytes(101))
    assert await pending.result is None


async def test_announced_gigabytes_are_refused_before_they_are_read(renter: Renter) -> None:
    pending = await renter.submit([])
    renter.socket.sendall(PREFIX.pack(10, 0x7FFFFFFF))
    assert await pending.result is None


async def test_header_nested_beyond_the_stack_loses_the_runner(renter: Renter) -> None:
    pending = await renter.submit([])
    text = b"[" * 200_000
    renter.socket.sendall(PREFIX.pack(len(text), 0) + text)
    assert await pending.result is None


async def test_logs_over_the_bound_are_dropped_by_the_worker_too(renter: Renter) -> None:
    logs: list[LogChunk] = []
    pending = await renter.submit(logs)
    for offset in (0, 40, 80):
        renter.say({"kind": "log", "task": "t", "attempt": 1, "stream": "stdout", "offset": offset}, bytes(40))
    renter.say(RESULT)
    assert await pending.result is not None
    assert [chunk.offset for chunk in logs] == [0]


async def test_frames_for_unknown_attempts_are_ignored(renter: Renter) -> None:
    pending = await renter.submit([])
    renter.say(RESULT | {"task": "other"})
    renter.say(RESULT, b"mine")
    assert (await pending.result)[1] == b"mine"


async def test_runner_gone_answers_none_now_and_later(renter: Renter) -> None:
    pending = await renter.submit([])
    renter.socket.close()
    assert await pending.result is None
    assert renter.session is not None
    later = await renter.session.submit(FRAME, ("/in", "/out"), lambda chunk: None)
    assert await later.result is None


@pytest.mark.parametrize("path", ["../evil.py", "/etc/cron.d/evil", ""])
async def test_code_path_outside_its_folder_is_refused(renter: Renter, path: str) -> None:
    session = await renter.meet()
    assert session is not None
    bad = TaskFrame("t", 1, CodeBundle({path: b""}), "m:f", b"")
    with pytest.raises(InputPathError):
        await session.submit(bad, ("/in", "/out"), lambda chunk: None)
    assert session.pending == 0
