"""The tree of errors that every Millpond package raises.

    MillpondError
    ├── InputError            what the caller gave is wrong; nothing was done
    ├── ConfigError           settings, keys or files on this machine are wrong
    ├── ChainError            the chain or its RPC refused or disagreed
    ├── StorageError          content could not be stored, found or trusted
    ├── LaunchError           a container or process could not be started or was stopped
    ├── NodeError             the pool's node refused or could not be reached
    └── TaskError             the renter's own code failed

Every error says what is wrong, why, and what to do (`remedy`), and carries the exit code its command ends with.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MillpondError(Exception):
    """Base of all errors. `fields` are the values a program may want; `remedy` is one sentence for a person."""

    exit_code: ClassVar[int] = 1
    remedy_text: ClassVar[str] = ""

    def __init__(self, message: str, *, remedy: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = self.remedy_text if remedy is None else remedy
        self.fields = fields

    @property
    def code(self) -> str:
        """Stable machine-readable name, used by REST and `--json`."""
        return type(self).__name__

    def as_dict(self) -> dict[str, Any]:
        """What REST and `--json` show."""
        return {"error": self.code, "message": self.message, "remedy": self.remedy, "fields": self.fields}


class InputError(MillpondError):
    exit_code = 2


class ConfigError(MillpondError):
    exit_code = 3


class ChainError(MillpondError):
    exit_code = 4


class StorageError(MillpondError):
    exit_code = 5


class LaunchError(MillpondError):
    exit_code = 6


class NodeError(MillpondError):
    exit_code = 7


class TaskError(MillpondError):
    exit_code = 8
