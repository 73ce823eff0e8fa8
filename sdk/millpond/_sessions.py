"""Session keys of leases: one file each, readable by its owner alone, written before the request is sent, so that no crash loses one."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from millpond.errors import SettingsError
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signing import address_of


@dataclass(frozen=True, slots=True)
class Session:
    """The key that signs a lease's vouchers. `request` is the hash of the request that names it."""

    request: Bytes32
    key: bytes

    @property
    def address(self) -> Address:
        return address_of(self.key)

    def __repr__(self) -> str:
        return f"Session({self.request}, {self.address})"


def new_session_key() -> bytes:
    return secrets.token_bytes(32)


class SessionStore:
    """Sessions below `folder`, by request hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, session: Session) -> None:
        """Durable on return."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(session.request)
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"request": session.request, "key": "0x" + session.key.hex()}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def load(self, request: Bytes32) -> Session:
        """Raises `SettingsError` when this home has no such session."""
        try:
            data = json.loads(self._path(request).read_text())
            return Session(request, bytes.fromhex(data["key"][2:]))
        except FileNotFoundError:
            raise SettingsError(
                f"no session key for request {request} in {self._folder}",
                remedy="Run the command with the home folder (MILLPOND_HOME) the lease was opened from.",
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"the session file of {request} cannot be read: {error}") from error

    def forget(self, request: Bytes32) -> None:
        self._path(request).unlink(missing_ok=True)

    def _path(self, request: Bytes32) -> Path:
        return self._folder / f"{request}.json"
