"""Wallets: keystore files (v3 JSON, mode 0600) and the public development keys. A key never appears in a repr, log or error."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from coincurve import PrivateKey

from millpond.chain.errors import DevelopmentKeyError, KeystoreError
from millpond.protocol.ids import Address
from millpond.protocol.signing import address_of

DEVELOPMENT_CHAIN_ID = 31337
DEVELOPMENT_MNEMONIC = "test test test test test test test test test test test junk"
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_HARD = 1 << 31
_PATH = (44 | _HARD, 60 | _HARD, _HARD, 0)


@dataclass(frozen=True, slots=True)
class Wallet:
    """A key that signs, and its address. `is_development` keys are public and must not be used off the development chain."""

    address: Address
    key: bytes = field(repr=False)
    is_development: bool = False

    def check_chain(self, chain_id: int) -> None:
        """Raises `DevelopmentKeyError` for a development key on any other chain than 31337."""
        if self.is_development and chain_id != DEVELOPMENT_CHAIN_ID:
            raise DevelopmentKeyError(
                f"{self.address} is a public development key; the chain is {chain_id}",
                chain_id=chain_id,
                address=self.address,
            )


def wallet_of(key: bytes) -> Wallet:
    """The wallet of 32 key bytes; raises `KeystoreError` for bytes that are no key."""
    if len(key) != 32 or not 0 < int.from_bytes(key, "big") < _ORDER:
        raise KeystoreError("the bytes are no private key", length=len(key))
    owner = address_of(key)
    return Wallet(owner, key, is_development=owner in _development_addresses())


def new_wallet() -> Wallet:
    return wallet_of((secrets.randbelow(_ORDER - 1) + 1).to_bytes(32, "big"))


def development_wallet(index: int, chain_id: int) -> Wallet:
    """Account `index` that Anvil funds at start; raises `DevelopmentKeyError` unless `chain_id` is 31337."""
    wallet = Wallet(*_development_account(index), is_development=True)
    wallet.check_chain(chain_id)
    return wallet


def save_wallet(wallet: Wallet, path: Path, password: str) -> None:
    """Writes a v3 keystore that only its owner may read; raises `KeystoreError` when the file exists or cannot be written."""
    from eth_account import Account

    text = json.dumps(Account.encrypt(wallet.key, password))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise KeystoreError(
            f"{path} exists already and is kept", path=str(path), remedy="Choose another name."
        ) from error
    except OSError as error:
        raise KeystoreError(f"{path} cannot be written: {error.strerror}", path=str(path)) from error
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def load_key(path: Path, password: str) -> Wallet:
    """The wallet of a v3 keystore. Raises `KeystoreError`: no file, readable by others, no keystore, or wrong password."""
    from eth_account import Account

    data = _read_keystore(path)
    try:
        key = bytes(Account.decrypt(data, password))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wrong = "mac" in str(error).lower()
        what = "the password is wrong" if wrong else "it is no v3 keystore"
        raise KeystoreError(f"{path} cannot be opened: {what}", path=str(path)) from None
    return wallet_of(key)


def keystore_address(path: Path) -> Address | None:
    """The address a keystore names, without its password; None where it names none."""
    from millpond.protocol.ids import address

    named = _read_keystore(path).get("address")
    return address("0x" + named.removeprefix("0x")) if isinstance(named, str) else None


def _read_keystore(path: Path) -> dict[str, object]:
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KeystoreError(f"{path} cannot be read: {error}", path=str(path)) from None
    if mode & 0o077:
        raise KeystoreError(f"{path} can be read by others", path=str(path), remedy=f"Run: chmod 600 {path}")
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise KeystoreError(f"{path} is no keystore", path=str(path))
    return data


@cache
def _development_account(index: int) -> tuple[Address, bytes]:
    key, chain = _master()
    for step in (*_PATH, index):
        key, chain = _child(key, chain, step)
    return address_of(key), key


@cache
def _development_addresses() -> frozenset[Address]:
    return frozenset(_development_account(index)[0] for index in range(20))


@cache
def _master() -> tuple[bytes, bytes]:
    seed = hashlib.pbkdf2_hmac("sha512", DEVELOPMENT_MNEMONIC.encode(), b"mnemonic", 2048)
    digest = hmac.digest(b"Bitcoin seed", seed, "sha512")
    return digest[:32], digest[32:]


def _child(key: bytes, chain: bytes, index: int) -> tuple[bytes, bytes]:
    """BIP-32 private derivation."""
    head = b"\0" + key if index & _HARD else PrivateKey(key).public_key.format()
    digest = hmac.digest(chain, head + index.to_bytes(4, "big"), "sha512")
    child = (int.from_bytes(digest[:32], "big") + int.from_bytes(key, "big")) % _ORDER
    return child.to_bytes(32, "big"), digest[32:]
