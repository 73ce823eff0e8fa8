"""Processes that stand for containers in development: found tools wrap them in namespaces and limits."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ContainerGoneError, RunnerStartError
from .port import Limits

RECORD = "process.json"
LOGS = ("stdout", "stderr")
POLL_S = 0.05
READ_BYTES = 1 << 16


def namespace_prefix() -> list[str]:
    """`unshare` with its own network, processes and hosts names, where this machine lets us; else nothing."""
    tool = shutil.which("unshare")
    if tool is None:
        return []
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    found = [tool, *own_user, "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return found if _works([*found, "true"]) else []


def _works(command: Sequence[str]) -> bool:
    import subprocess

    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def limit_prefix(limits: Limits) -> list[str]:
    """`prlimit` for memory, file size and core dumps; `setpriv` against new privileges. What is not installed is left out."""
    found: list[str] = []
    if tool := shutil.which("prlimit"):
        size = max(limits.out_mib, limits.tmp_mib) << 20
        found += [tool, f"--data={limits.memory_mib << 20}", f"--fsize={size}", "--core=0", "--nofile=4096", "--"]
    if tool := shutil.which("setpriv"):
        drop = ["--bounding-set=-all"] if os.geteuid() == 0 else []
        found += [tool, "--no-new-privs", *drop, "--"]
    return found


@dataclass(slots=True)
class Running:
    """One process and where it lives."""

    process: asyncio.subprocess.Process
    folder: Path


class ProcessEngine:
    """Starts, watches and kills process trees. A container's id is its room's name."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._prefix: list[str] | None = None

    def prefix(self) -> list[str]:
        """How processes are wrapped on this machine."""
        if self._prefix is None:
            self._prefix = namespace_prefix()
        return self._prefix

    async def spawn(
        self, name: str, folder: Path, command: Sequence[str], env: Mapping[str, str], record: Mapping[str, Any]
    ) -> None:
        """Raises `RunnerStartError` when the command cannot be executed."""
        files = [(folder / log).open("wb") for log in LOGS]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=files[0],
                stderr=files[1],
                env=dict(env),
                cwd=folder / "tmp",
                start_new_session=True,
            )
        except OSError as error:
            raise RunnerStartError(f"cannot execute {command[0]}: {error}", image="", reason=str(error)) from error
        finally:
            for file in files:
                file.close()
        self._running[name] = Running(process, folder)
        identity = {"pid": process.pid, "started": start_time(process.pid)}
        draft = folder / f".{RECORD}"
        draft.write_text(json.dumps(dict(record) | identity))
        draft.rename(folder / RECORD)

    async def wait(self, container: str) -> int:
        """Exit code; killed by a signal is 128 plus its number, as a shell says it."""
        code = await self._find(container).process.wait()
        return code if code >= 0 else 128 - code

    async def kill(self, container: str) -> None:
        if container in self._running:
            kill_tree(self._running[container].process.pid)

    async def show(self, container: str) -> dict[str, Any]:
        return {"State": {"OOMKilled": False, "Running": self._find(container).process.returncode is None}}

    async def forget(self, container: str) -> None:
        """Kills what is left and reaps it."""
        running = self._running.pop(container, None)
        if running is not None:
            kill_tree(running.process.pid)
            await running.process.wait()

    def signal(self, container: str, number: signal.Signals) -> None:
        """Sends a signal to every process of the tree."""
        for pid in tree(self._find(container).process.pid):
            _send(pid, number)

    def last_words(self, container: str) -> str:
        """The end of what it wrote."""
        folder = self._find(container).folder
        return "".join((folder / log).read_bytes()[-1000:].decode(errors="replace") for log in LOGS)

    @asynccontextmanager
    async def streams(self, container: str) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        """What it writes, from its first byte on: (stream, bytes)."""
        yield self._follow(self._find(container))

    async def _follow(self, running: Running) -> AsyncIterator[tuple[str, bytes]]:
        files = {log: (running.folder / log).open("rb") for log in LOGS}
        try:
            is_last = False
            while True:
                for log, file in files.items():
                    while data := file.read(READ_BYTES):
                        yield log, data
                if is_last:
                    return
                is_last = running.process.returncode is not None
                await asyncio.sleep(0 if is_last else POLL_S)
        finally:
            for file in files.values():
                file.close()

    def _find(self, container: str) -> Running:
        if container not in self._running:
            raise ContainerGoneError("the process is gone", container=container)
        return self._running[container]


def records(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Rooms below a launcher's folder with what was recorded of their processes."""
    found = []
    for path in sorted(folder.glob(f"*/rooms/*/{RECORD}")):
        try:
            found.append((path.parent, json.loads(path.read_text())))
        except FileNotFoundError:
            continue
    return found


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when there is none. With the pid it names a process for good."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def is_alive(record: Mapping[str, Any]) -> bool:
    """Whether the recorded process is still the one that runs under its pid."""
    return bool(record.get("started")) and start_time(int(record["pid"])) == record["started"]


def tree(pid: int) -> list[int]:
    """The process and its descendants, ancestors first."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def kill_tree(pid: int) -> None:
    """Stops the tree first, so that nothing is born while it is killed."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for member in tree(pid):
            _send(member, number)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
