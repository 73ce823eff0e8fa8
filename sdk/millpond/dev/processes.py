"""Child processes of the stack: each with its log file, ended by signal in reverse order, none left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from millpond.protocol.errors import NodeError

STOP_SECONDS = 20.0
TAIL_BYTES = 1500


class ProcessEndedError(NodeError):
    remedy_text = "Read its log file; `millpond-worker doctor` and `millpond-node status` tell what a daemon misses."


@dataclass(slots=True)
class Process:
    """A running child. `log` is where its output goes."""

    name: str
    log: Path
    child: asyncio.subprocess.Process

    @property
    def is_running(self) -> bool:
        return self.child.returncode is None

    async def stop(self) -> None:
        """Asks, then kills. Stopping twice does nothing."""
        if not self.is_running:
            return
        with contextlib.suppress(ProcessLookupError):
            self.child.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.child.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.child.kill()
            await self.child.wait()

    def kill(self) -> None:
        """SIGKILL, at once; from any thread."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child.pid, signal.SIGKILL)

    def check(self) -> None:
        """Raises `ProcessEndedError`, with the end of the log, when the process is gone."""
        if not self.is_running:
            raise ProcessEndedError(
                f"{self.name} ended with exit code {self.child.returncode}; {self.log} ends:\n{tail(self.log)}",
                name=self.name,
                returncode=self.child.returncode,
            )


async def start(name: str, entry: str, arguments: list[str], log: Path, env: dict[str, str] | None = None) -> Process:
    """Starts `entry` (`module:function`) in this Python, output appended to `log`."""
    module, _, function = entry.partition(":")
    code = f"import sys; from {module} import {function}; sys.exit({function}())"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    return Process(name, log, child)


async def run(name: str, entry: str, arguments: list[str], log: Path, timeout_s: float) -> None:
    """Runs to the end; raises `ProcessEndedError` unless it ends with 0 in time."""
    process = await start(name, entry, arguments, log)
    try:
        code = await asyncio.wait_for(process.child.wait(), timeout_s)
    except TimeoutError:
        await process.stop()
        code = -1
    if code:
        process.check()


def tail(path: Path) -> str:
    try:
        return path.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""
