"""The runner's loop: one worker above, one executor below, tasks in between."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import sys
import time
from collections import deque
from importlib.util import find_spec
from typing import Any, Deque, Dict, Optional, Tuple

from .child import Child
from .frames import PROTOCOL, Channel, FrameError, Header

MAX_WAITING = 4 << 20
LONGEST_WAIT_S = 1.0
FROZEN_S = 1.0


class Task:
    """An attempt that waits or runs."""

    def __init__(self, header: Header, body: bytearray) -> None:
        self.header = header
        self.body = body
        self.key = (header["task"], header["attempt"])
        self.queued = time.monotonic()
        self.started = 0.0
        self.deadline = 0.0
        self.verdict = ""
        self.offsets: Dict[str, int] = {"stdout": 0, "stderr": 0}
        self.logged = 0


class Runner:
    """State of the runner. `step` waits for the next event and handles it."""

    def __init__(self, control: socket.socket, folder: str) -> None:
        self._folder = folder
        self._control = Channel(control)
        self._queue: Deque[Task] = deque()
        self._codes: Dict[str, Tuple[str, str]] = {}
        self._empty = ""
        self._task: Optional[Task] = None
        self._child: Optional[Child] = None
        self._selector = selectors.DefaultSelector()
        self._masks: Dict[int, int] = {}
        self._wakeup, wake = socket.socketpair()
        for end in (self._wakeup, wake):
            end.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Serves until the worker goes away."""
        self._control.send(hello())
        try:
            while True:
                self._step()
        except EOFError:
            return
        finally:
            if self._child is not None:
                self._child.kill()

    def _step(self) -> None:
        self._watch()
        timeout = self._timeout()
        before = time.monotonic()
        events = self._selector.select(timeout)
        self._forgive_freeze(before, timeout)
        for key, mask in events:
            self._handle(int(key.fd), mask)
        self._check_deadline()
        self._start_next()

    def _timeout(self) -> Optional[float]:
        if self._task is None:
            return None
        return max(0.0, min(LONGEST_WAIT_S, self._task.deadline - time.monotonic()))

    def _forgive_freeze(self, before: float, timeout: Optional[float]) -> None:
        """A frozen container's clock goes on: time in which this process could not run does not count against the task."""
        if timeout is None or self._task is None:
            return
        missed = time.monotonic() - before - timeout
        if missed > FROZEN_S:
            self._task.deadline += missed

    # WHAT TO WAIT FOR

    def _watch(self) -> None:
        wanted = {self._wakeup.fileno(): selectors.EVENT_READ}
        self._want_channel(wanted, self._control)
        if self._child is not None:
            self._want_channel(wanted, self._child.channel)
            if self._control.waiting < MAX_WAITING:
                wanted.update(dict.fromkeys(self._child.streams, selectors.EVENT_READ))
        for fd in [fd for fd in self._masks if fd not in wanted]:
            self._unwatch(fd)
        for fd, mask in wanted.items():
            if fd not in self._masks:
                self._selector.register(fd, mask)
            elif self._masks[fd] != mask:
                self._selector.modify(fd, mask)
            self._masks[fd] = mask

    def _want_channel(self, wanted: Dict[int, int], channel: Channel) -> None:
        wanted[channel.sock.fileno()] = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.waiting else 0)

    def _handle(self, fd: int, mask: int) -> None:
        child = self._child
        if fd == self._wakeup.fileno():
            self._reap()
        elif fd == self._control.sock.fileno():
            self._handle_control(mask)
        elif child is not None and fd == child.channel.sock.fileno():
            self._handle_child(child, mask)
        elif child is not None and fd in child.streams:
            self._read_stream(child, fd)

    # THE WORKER

    def _handle_control(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._control.flush()
        if mask & selectors.EVENT_READ:
            for header, body in self._control.receive():
                if header["kind"] == "task":
                    self._queue.append(Task(header, body))
                elif header["kind"] == "code":
                    self._store_code(header, body)
                elif header["kind"] == "cancel":
                    self._cancel((header["task"], header["attempt"]))

    def _store_code(self, header: Header, body: bytearray) -> None:
        folder, position = os.path.join(self._folder, header["digest"]), 0
        try:
            for path, size in header["files"]:
                target = os.path.join(folder, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(body[position : position + size])
                position += size
            self._codes[header["digest"]] = (folder, header["main"])
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            sys.stderr.write("runner: cannot store code: %s\n" % error)

    def _cancel(self, key: Tuple[str, int]) -> None:
        if self._task is not None and self._task.key == key:
            self._end_child("cancelled")
        for task in [task for task in self._queue if task.key == key]:
            self._queue.remove(task)
            self._report(task, {"status": "cancelled"})

    # THE TASK

    def _start_next(self) -> None:
        while self._task is None and self._queue:
            task = self._queue.popleft()
            code = self._codes.get(task.header["digest"])
            if code is None:
                self._report(
                    task, {"status": "failed", "error": ["CodeError", "the code could not be stored in /tmp", ""]}
                )
                continue
            self._start(task, code)

    def _start(self, task: Task, code: Tuple[str, str]) -> None:
        try:
            child = self._executor_for(task.header["digest"], code)
            task.header["output"] = self._empty = self._empty or make_folder(task.header["output"])
        except OSError as error:
            self._report(task, {"status": "failed", "error": ["OSError", "cannot start: %s" % error, ""]})
            return
        child.drain()
        task.started = time.monotonic()
        task.deadline = task.started + task.header["limit_s"]
        self._task = task
        child.channel.send(task.header, [task.body])
        task.body = bytearray()

    def _executor_for(self, digest: str, code: Tuple[str, str]) -> Child:
        if self._child is not None and self._child.digest != digest:
            self._discard_child()
        if self._child is None:
            self._child = Child(code[0], code[1], digest)
        return self._child

    def _discard_child(self) -> None:
        child = self._child
        if child is None:
            return
        child.kill()
        if child.status is None:
            os.waitpid(child.pid, 0)
        self._forget(child)

    def _forget(self, child: Child) -> None:
        for fd in child.fds():
            self._unwatch(fd)
        child.close()
        self._child = None

    def _unwatch(self, fd: int) -> None:
        if self._masks.pop(fd, None) is not None:
            self._selector.unregister(fd)

    def _check_deadline(self) -> None:
        if self._task is not None and time.monotonic() >= self._task.deadline:
            self._end_child("timeout")

    def _end_child(self, verdict: str) -> None:
        if self._task is not None and self._child is not None and not self._task.verdict:
            self._task.verdict = verdict
            self._task.deadline = time.monotonic() + 3600.0
            self._child.kill()

    # THE EXECUTOR

    def _handle_child(self, child: Child, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            child.channel.flush()
        if not mask & selectors.EVENT_READ:
            return
        try:
            frames = child.channel.receive()
        except (EOFError, FrameError):
            os.kill(child.pid, signal.SIGKILL)
            self._finish_dead(child, os.waitpid(child.pid, 0)[1])
            return
        for header, body in frames:
            self._flush_logs(child)
            if self._task is not None:
                self._finish(header, bytes(body))

    def _reap(self) -> None:
        try:
            while self._wakeup.recv(4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._child is not None and pid == self._child.pid:
                self._finish_dead(self._child, status)

    def _finish_dead(self, child: Child, status: int) -> None:
        child.status = status
        self._flush_logs(child)
        for header, body in child.last_frames():
            self._finish(header, bytes(body))
        if self._task is not None:
            self._finish(self._obituary(child, self._task), b"")
        self._forget(child)

    def _obituary(self, child: Child, task: Task) -> Header:
        if task.verdict:
            return {"status": task.verdict, "exit_code": child.exit_code()}
        if child.was_oom():
            return {"status": "oom", "exit_code": child.exit_code()}
        message = "the task's process ended with exit code %d" % child.exit_code()
        return {"status": "failed", "exit_code": child.exit_code(), "error": ["ProcessEnded", message, ""]}

    def _finish(self, header: Header, body: bytes) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        if task.verdict and header["status"] != task.verdict:
            header, body = {"status": task.verdict}, b""
        self._report(task, header, body)

    def _report(self, task: Task, header: Header, body: bytes = b"") -> None:
        now = time.monotonic()
        started = task.started or now
        report: Dict[str, Any] = {"error": None, "exit_code": None, "cpu_s": 0.0, "rss": 0, "left": ""}
        if task.started:
            report["left"] = self._left(task.header["output"])
        report.update(header)
        report.update(kind="result", task=task.key[0], attempt=task.key[1])
        report.update(queued_s=started - task.queued, run_s=now - started, log_bytes=task.logged)
        self._control.send(report, [body])

    def _left(self, folder: str) -> str:
        """The name of the task's folder when something is in it. An empty one serves the next task: most tasks write nothing."""
        try:
            if not os.listdir(folder):
                return ""
        except OSError:
            pass
        self._empty = ""
        return os.path.basename(folder)

    # LOGS

    def _read_stream(self, child: Child, stream: int) -> None:
        self._log(child.streams[stream], child.read(stream))

    def _flush_logs(self, child: Child) -> None:
        for name, data in child.drain():
            self._log(name, data)

    def _log(self, stream: str, data: bytes) -> None:
        task = self._task
        if task is None or not data:
            return
        offset = task.offsets[stream]
        task.offsets[stream] = offset + len(data)
        task.logged += len(data)
        if task.logged <= task.header["max_log"]:
            header = {"kind": "log", "task": task.key[0], "attempt": task.key[1], "stream": stream, "offset": offset}
            self._control.send(header, [data])


def make_folder(path: str) -> str:
    """Makes a folder that only this user reads; returns its path."""
    os.makedirs(path, 0o700, exist_ok=True)
    return path


def hello() -> Header:
    """The first frame: facts about this Python."""
    return {
        "kind": "hello",
        "protocol": PROTOCOL,
        "python": list(sys.version_info[:3]),
        "numpy": find_spec("numpy") is not None,
        "pid": os.getpid(),
    }


def main(socket_path: str, folder: str) -> None:
    """Connects to the worker and serves it. `socket_path` is reached through its folder, since such paths have at most 107 bytes."""
    os.chdir(os.path.dirname(socket_path))
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(os.path.basename(socket_path))
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    Runner(control, folder).run()
