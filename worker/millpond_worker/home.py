"""The worker's home folder: where its files lie, the lock that keeps a second worker out, and the status it shows."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millpond_worker.errors import WorkerConfigError, WorkerRunningError

STATUS_AGE_S = 10.0


@dataclass(frozen=True, slots=True)
class Home:
    """Paths under one folder. Nothing is made until it is needed."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "worker.toml"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def transactions(self) -> Path:
        return self.folder / "transactions.db"

    @property
    def owner_transactions(self) -> Path:
        return self.folder / "owner-transactions.db"

    @property
    def status(self) -> Path:
        return self.folder / "status.json"

    @property
    def lock(self) -> Path:
        return self.folder / "worker.lock"

    @property
    def control(self) -> Path:
        return self.folder / "control"

    @property
    def operator_key(self) -> Path:
        return self.folder / "operator.json"

    @property
    def operator_password(self) -> Path:
        return self.folder / "operator.password"

    @property
    def exit(self) -> Path:
        """There while the provider is leaving its pool."""
        return self.folder / "exit.json"

    @property
    def exit_lock(self) -> Path:
        return self.folder / "exit.lock"

    @property
    def exit_transactions(self) -> Path:
        return self.folder / "exit-transactions.db"

    def path(self, text: str) -> Path:
        """A path of the settings: relative ones start here."""
        return self.folder / Path(text).expanduser()

    def make(self) -> None:
        """Raises `WorkerConfigError` when the folder cannot be made or written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise WorkerConfigError(
                f"{self.folder} cannot be made: {error.strerror}",
                path=str(self.folder),
                remedy="Name a folder you may write with --home.",
            ) from error


def default_home() -> Home:
    """`$MILLPOND_HOME/worker`, or `~/.config/millpond/worker`."""
    root = os.environ.get("MILLPOND_HOME")
    return Home((Path(root).expanduser() if root else Path.home() / ".config" / "millpond") / "worker")


class HomeLock:
    """Held while a process works in a home; ends with the process, however it ends."""

    def __init__(self, home: Home, path: Path | None = None) -> None:
        self._home, self._path = home, path or home.lock
        self._file: TextIOWrapper | None = None

    def __enter__(self) -> Self:
        """Raises `WorkerRunningError` while another process holds it."""
        self._home.make()
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(32).strip() or "unknown"
            file.close()
            raise WorkerRunningError(
                f"{self._home.folder} is in use by process {holder}", home=str(self._home.folder), process=holder
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def is_running(home: Home) -> bool:
    """Whether a worker holds the home."""
    if not home.lock.exists():
        return False
    try:
        with home.lock.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=2) + "\n")
    draft.replace(path)


def read_json(path: Path) -> Any:
    """None where there is no such file, or no JSON in it."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
