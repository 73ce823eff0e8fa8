"""The runner's side of the executor: fork it, feed it, read its streams, kill it, and say how it ended."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Dict, List, Optional, Tuple

from . import executor
from .frames import Channel, Frame, FrameError

PIPE_BYTES = 64 << 10
MAX_DRAIN = 1 << 20
OOM_COUNTERS = (
    ("/sys/fs/cgroup/memory.events", "oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)


def oom_kills() -> int:
    """How many processes the kernel killed for memory in this container, by cgroup v2 or v1; 0 where it cannot be read."""
    for path, key in OOM_COUNTERS:
        try:
            with open(path) as lines:
                for line in lines:
                    name, _, count = line.strip().partition(" ")
                    if name == key:
                        return int(count)
        except (OSError, ValueError):
            continue
    return 0


class Child:
    """One executor process and its pipes."""

    def __init__(self, folder: str, main: str, digest: str) -> None:
        self.digest = digest
        self.status: Optional[int] = None
        self.ended: List[int] = []
        self._oom_before = oom_kills()
        ours, theirs = socket.socketpair()
        self.streams, ends = _pipes()
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(theirs, ends, folder, main)
        theirs.close()
        for end in ends:
            os.close(end)
        self.channel = Channel(ours)

    def kill(self) -> None:
        """Kills the executor and what it started. As the container's first process, the runner can reach them all."""
        for target in (-self.pid, self.pid):
            try:
                os.kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if os.getpid() == 1:
            kill_all()

    def read(self, stream: int) -> bytes:
        """What a stream holds now, at most one pipe's worth; empty when nothing is there. A closed stream is forgotten."""
        try:
            data = os.read(stream, PIPE_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            del self.streams[stream]
            self.ended.append(stream)
        return data

    def drain(self) -> List[Tuple[str, bytes]]:
        """Everything written so far to both streams, up to a bound for writers that never stop."""
        found, total = [], 0
        for stream, name in list(self.streams.items()):
            data = self.read(stream)
            while data and total < MAX_DRAIN:
                found.append((name, data))
                total += len(data)
                data = self.read(stream)
        return found

    def was_oom(self) -> bool:
        """Whether the kernel killed it for memory."""
        return self.exit_code() == -signal.SIGKILL and oom_kills() > self._oom_before

    def exit_code(self) -> int:
        """Exit code, or minus the signal."""
        if self.status is None:
            return -signal.SIGKILL
        return -os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status)

    def last_frames(self) -> List[Frame]:
        """Frames it sent before it ended."""
        try:
            return self.channel.receive()
        except (EOFError, FrameError):
            return []

    def fds(self) -> List[int]:
        """Every descriptor of ours, the channel first."""
        return [self.channel.sock.fileno(), *self.streams, *self.ended]

    def close(self) -> None:
        streams = self.fds()[1:]
        self.channel.sock.close()
        for stream in streams:
            os.close(stream)


def kill_all() -> None:
    """Ends every other process of this container. Only the first process of a process namespace may call it."""
    try:
        os.kill(-1, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _pipes() -> Tuple[Dict[int, str], List[int]]:
    streams, ends = {}, []
    for name in ("stdout", "stderr"):
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        streams[ours] = name
        ends.append(theirs)
    return streams, ends


def _run_child(channel: socket.socket, ends: List[int], folder: str, main: str) -> None:
    code = 1
    try:
        executor.become_executor(channel, ends[0], ends[1])
        executor.serve(channel, folder, main)
        code = 0
    except BaseException as error:
        sys.stderr.write(executor.describe(error)[2])
        sys.stderr.flush()
    finally:
        os._exit(code)
