"""How commands reach a running worker: a file per request in its home, answered by another. Works whatever the length of the path."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

from millpond_worker.errors import WorkerNotRunningError
from millpond_worker.home import Home, is_running, read_json, write_json

ASK, ANSWER = ".ask", ".answer"
POLL_S = 0.2


def ask(home: Home, command: str, timeout_s: float) -> Any:
    """The running worker's answer. Raises `WorkerNotRunningError` when there is none in time."""
    home.control.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = secrets.token_hex(8)
    asked, answered = home.control / f"{name}{ASK}", home.control / f"{name}{ANSWER}"
    write_json(asked, {"command": command})
    deadline = time.monotonic() + timeout_s
    try:
        while time.monotonic() < deadline and is_running(home):
            answer = read_json(answered)
            if answer is not None:
                return answer
            time.sleep(POLL_S)
    finally:
        for path in (asked, answered):
            path.unlink(missing_ok=True)
    raise WorkerNotRunningError(f"no worker answered in {home.folder}", home=str(home.folder))


def take(home: Home) -> list[tuple[Path, str]]:
    """Requests that wait: where the answer goes, and the command. Each is taken once."""
    if not home.control.is_dir():
        return []
    found: list[tuple[Path, str]] = []
    for asked in sorted(home.control.glob(f"*{ASK}")):
        request = read_json(asked)
        asked.unlink(missing_ok=True)
        if isinstance(request, dict) and isinstance(request.get("command"), str):
            found.append((asked.with_suffix(ANSWER), request["command"]))
    return found
