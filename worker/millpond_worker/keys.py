"""Opens the worker's keys."""

from __future__ import annotations

import os
from pathlib import Path

from millpond.chain.keys import Wallet, development_wallet, load_key
from millpond_worker.config import KeyConfig
from millpond_worker.errors import WorkerConfigError
from millpond_worker.home import Home

PASSWORD_VARIABLE = "MILLPOND_PASSWORD"


def open_key(key: KeyConfig, home: Home, chain_id: int) -> Wallet:
    """Raises `KeystoreError`, `DevelopmentKeyError`, `WorkerConfigError` (no password)."""
    if key.dev_key is not None:
        return development_wallet(key.dev_key, chain_id)
    path = home.path(key.keystore)
    wallet = load_key(path, read_password(key.password_file, home))
    wallet.check_chain(chain_id)
    return wallet


def read_password(file: str, home: Home) -> str:
    """From the named file, else from the environment variable MILLPOND_PASSWORD. Raises `WorkerConfigError`."""
    if not file:
        found = os.environ.get(PASSWORD_VARIABLE)
        if found is None:
            raise WorkerConfigError(
                "no password is given for the keystore",
                remedy=f"Name a file with key_password_file, or set {PASSWORD_VARIABLE}.",
            )
        return found
    return _password_of(home.path(file))


def _password_of(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except OSError as error:
        raise WorkerConfigError(f"{path} cannot be read: {error.strerror}", path=str(path)) from None
    if mode & 0o077:
        raise WorkerConfigError(f"{path} can be read by others", path=str(path), remedy=f"Run: chmod 600 {path}")
    return text.rstrip("\n")
