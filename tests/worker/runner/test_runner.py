"""The runner alone, over its socket: frames, and behaviour when the worker is hostile, slow or gone."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.protocol.values import decode, encode_bytes
from millpond_worker.runner import bundle, shim
from millpond_worker.runner.guest.frames import PREFIX, FrameError, check_sizes, pack, parse_header, receive_blocking

SOURCE = b"""
import os, subprocess, sys, time
def add(a, b=1): return a + b
def close_streams(): os.close(1); os.close(2); return "closed"
def orphan(): subprocess.Popen(["sh", "-c", "echo later"]); return "left"
def stdin(): return sys.stdin.read()
def big(): os.write(1, b"x" * (8 << 20)); return "done"
def leave_zero(): os._exit(0)
def nap(): time.sleep(60)
"""


class Worker:
    """A worker's end of the socket, as plain as it can be."""

    def __init__(self, folder: Path) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "s"))
        listener.listen()
        listener.settimeout(20)
        start = bundle.write_bundle(folder) / "start.py"
        self.process = subprocess.Popen([sys.executable, "-I", str(start), str(folder / "s"), str(folder / "code")])
        self.socket, _ = listener.accept()
        self.socket.settimeout(20)
        listener.close()
        self.hello, _ = receive_blocking(self.socket)
        self.logs: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.socket.sendall(pack(header, len(body)) + body)

    def code(self, digest: str = "d", source: bytes = SOURCE) -> None:
        self.send({"kind": "code", "digest": digest, "main": "", "files": [["job.py", len(source)]]}, source)

    def task(
        self, entry: str, *args: Any, name: str = "t", limit_s: float = 20.0, output: str = "/tmp", digest: str = "d"
    ) -> None:
        places = {"input": "/tmp", "output": output, "max_result": 1 << 20, "max_log": 1 << 30}
        header = {"kind": "task", "task": name, "attempt": 1, "digest": digest, "entry": entry, "limit_s": limit_s}
        self.send(header | places, encode_bytes((args, {})))

    def result(self) -> tuple[dict[str, Any], Any]:
        while True:
            header, body = receive_blocking(self.socket)
            if header["kind"] == "result":
                return header, decode(body) if body else None
            self.logs[header["stream"]] += bytes(body)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    found = Worker(tmp_path)
    found.code()
    yield found
    found.socket.close()
    try:
        found.process.wait(10)
    finally:
        found.process.kill()


def test_hello_tells_the_facts(worker: Worker) -> None:
    assert worker.hello["python"] == list(sys.version_info[:3])
    assert worker.hello["pid"] == worker.process.pid
    assert worker.hello["numpy"] is True


def test_worker_gone_runner_and_executor_end(worker: Worker) -> None:
    worker.task("job:nap")
    worker.socket.close()
    assert worker.process.wait(10) == 0


def test_folder_in_which_nothing_was_left_serves_the_next_task(worker: Worker, tmp_path: Path) -> None:
    source = b"import os\ndef write(name):\n    folder = os.environ['MILLPOND_OUT']\n    open(folder + '/' + name, 'w').close() if name else None\n    return folder\n"
    worker.code(source=source, digest="e")
    found = []
    for number, name in enumerate(("", "file", "")):
        worker.task("job:write", name, digest="e", output=str(tmp_path / f"out-{number}"))
        header, folder = worker.result()
        found.append((header["left"], Path(folder).name))

    assert found == [("", "out-0"), ("out-0", "out-0"), ("", "out-2")]


def test_task_that_removes_its_folder_gives_the_next_a_new_one(worker: Worker, tmp_path: Path) -> None:
    source = b"import os\ndef remove():\n    os.rmdir(os.environ['MILLPOND_OUT'])\n"
    worker.code(source=source, digest="e")
    for number in range(2):
        worker.task("job:remove", digest="e", output=str(tmp_path / f"out-{number}"))
        assert worker.result()[0]["status"] == "ok"


def test_task_closing_its_streams_still_answers(worker: Worker) -> None:
    for _ in range(2):
        worker.task("job:close_streams")
        header, _ = worker.result()
        assert header["status"] in ("ok", "failed")
    worker.task("job:add", 1)
    assert worker.result()[1] == 2


def test_task_reading_stdin_finds_it_empty(worker: Worker) -> None:
    worker.task("job:stdin")
    assert worker.result()[1] == ""


def test_task_writing_more_than_any_pipe_is_not_stuck_and_nothing_is_lost(worker: Worker) -> None:
    worker.task("job:big")
    assert worker.result()[1] == "done"
    assert worker.logs["stdout"] == b"x" * (8 << 20)


def test_task_exiting_zero_without_a_result_is_failed(worker: Worker) -> None:
    worker.task("job:leave_zero")
    header, _ = worker.result()
    assert (header["status"], header["exit_code"]) == ("failed", 0)


def test_bytes_of_an_orphan_never_reach_another_tasks_result(worker: Worker) -> None:
    worker.task("job:orphan", name="one")
    assert worker.result()[1] == "left"
    worker.task("job:add", 1, name="two")
    assert worker.result()[1] == 2


def test_task_without_its_code_is_failed(worker: Worker) -> None:
    worker.send(
        {
            "kind": "task",
            "task": "x",
            "attempt": 1,
            "digest": "other",
            "entry": "a:b",
            "limit_s": 1,
            "max_result": 1,
            "max_log": 1,
        }
    )
    header, _ = worker.result()
    assert header["error"][0] == "CodeError"


def test_cancel_unknown_task_is_ignored(worker: Worker) -> None:
    worker.send({"kind": "cancel", "task": "nobody", "attempt": 9})
    worker.task("job:add", 1)
    assert worker.result()[1] == 2


def test_result_tells_times_and_memory(worker: Worker) -> None:
    worker.task("job:add", 1)
    header, _ = worker.result()
    assert header["run_s"] > 0
    assert header["rss"] > 1 << 20
    assert header["cpu_s"] >= 0


# FRAMES


def test_pack_and_parse_agree() -> None:
    packed = pack({"kind": "x", "n": 1}, 7)
    header_bytes, body_bytes = PREFIX.unpack_from(packed)
    assert (len(packed) - PREFIX.size, body_bytes) == (header_bytes, 7)
    assert parse_header(packed[PREFIX.size :]) == {"kind": "x", "n": 1}


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"kind": 1}', b"\xff"])
def test_parse_header_malformed_is_a_frame_error(text: bytes) -> None:
    with pytest.raises(FrameError):
        parse_header(text)


def test_check_sizes_absurd_length_is_refused() -> None:
    with pytest.raises(FrameError):
        check_sizes(0xFFFFFFFF, 0)
    with pytest.raises(FrameError):
        check_sizes(0, 0xFFFFFFFF)


# WHAT IS SHIPPED


@pytest.mark.parametrize("name", sorted(bundle.bundle_files()))
def test_bundle_file_parses_as_python_3_9(name: str) -> None:
    assert isinstance(ast.parse(bundle.bundle_files()[name], feature_version=(3, 9)), ast.Module)


def test_bundle_imports_the_standard_library_only() -> None:
    found = set()
    for body in bundle.bundle_files().values():
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(str(node.module).partition(".")[0])
    assert found - sys.stdlib_module_names <= {"millpond", "millpond_runner", "numpy"}


def test_write_bundle_twice_is_the_same_folder_readable_by_all(tmp_path: Path) -> None:
    folder = bundle.write_bundle(tmp_path)
    assert bundle.write_bundle(tmp_path) == folder
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*.py")} == {0o444}
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == json.dumps([folder.name])


def test_runner_without_a_task_loads_nothing_heavy(tmp_path: Path) -> None:
    folder = bundle.write_bundle(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(folder / 'lib')!r}); import millpond_runner.loop; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "asyncio", "ssl", "pydantic"} & set(ast.literal_eval(done.stdout))


# THE SHIM


def test_shim_decorators_keep_functions_callable() -> None:
    app = shim.App("x", image="y")

    @app.task
    def one() -> int:
        return 1

    @app.task(gpu=0.5)
    def two() -> int:
        return one() + 1

    assert (one(), two(), two.local()) == (1, 2, 2)


def test_shim_client_names_say_where_they_belong() -> None:
    with pytest.raises(RuntimeError, match="renter's side"):
        shim.__getattr__("Client")()
    with pytest.raises(AttributeError, match="renter's side"):
        _ = shim.App("x").map
