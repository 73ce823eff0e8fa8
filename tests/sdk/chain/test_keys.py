"""Keystores, development keys, and that no key is ever shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from millpond.chain import keys
from millpond.chain.errors import DevelopmentKeyError, KeystoreError
from millpond.chain.keys import development_wallet, keystore_address, load_key, new_wallet, save_wallet, wallet_of

KNOWN = [
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
]


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keystore's own cost is not what these tests are about."""
    from eth_account import Account

    monkeypatch.setattr(Account, "default_kdf", "pbkdf2", raising=False)
    real = Account.encrypt
    monkeypatch.setattr(Account, "encrypt", lambda key, password: real(key, password, kdf="pbkdf2", iterations=2))


@pytest.mark.parametrize("index", range(4))
def test_development_wallet_is_the_account_anvil_funds(index: int) -> None:
    assert development_wallet(index, 31337).address == KNOWN[index]


def test_development_wallet_on_another_chain_raises() -> None:
    with pytest.raises(DevelopmentKeyError) as caught:
        development_wallet(0, 1)
    assert caught.value.fields == {"chain_id": 1, "address": KNOWN[0]}


def test_development_key_from_elsewhere_is_recognised_and_refused() -> None:
    wallet = wallet_of(development_wallet(2, 31337).key)
    with pytest.raises(DevelopmentKeyError):
        wallet.check_chain(8453)


def test_own_wallet_is_fine_on_every_chain() -> None:
    new_wallet().check_chain(1)


def test_wallet_repr_shows_no_key() -> None:
    wallet = new_wallet()
    assert wallet.key.hex() not in repr(wallet)
    assert repr(wallet.key) not in repr(wallet)


def test_keystore_roundtrip_keeps_the_key(tmp_path: Path) -> None:
    wallet = new_wallet()
    path = tmp_path / "wallets" / "me.json"
    save_wallet(wallet, path, "secret")
    assert load_key(path, "secret") == wallet
    assert keystore_address(path) == wallet.address


def test_keystore_file_is_for_its_owner_only_and_has_no_plain_key(tmp_path: Path) -> None:
    wallet = new_wallet()
    path = tmp_path / "me.json"
    save_wallet(wallet, path, "secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert wallet.key.hex() not in path.read_text()
    assert json.loads(path.read_text())["version"] == 3


def test_save_wallet_over_a_file_raises_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    path.write_text("precious")
    with pytest.raises(KeystoreError):
        save_wallet(new_wallet(), path, "x")
    assert path.read_text() == "precious"


def test_load_key_wrong_password_raises_without_the_password(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    save_wallet(new_wallet(), path, "secret")
    with pytest.raises(KeystoreError, match="password is wrong") as caught:
        load_key(path, "hunter2")
    assert "hunter2" not in str(caught.value.as_dict())


def test_load_key_readable_by_others_raises_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "me.json"
    save_wallet(new_wallet(), path, "secret")
    path.chmod(0o644)
    with pytest.raises(KeystoreError) as caught:
        load_key(path, "secret")
    assert caught.value.remedy == f"Run: chmod 600 {path}"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 3}', '{"version": 3, "crypto": {}}', "\x00"])
def test_load_key_malformed_file_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "me.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeystoreError):
        load_key(path, "x")


def test_load_key_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError):
        load_key(tmp_path / "none.json", "x")


@pytest.mark.parametrize("key", [b"", bytes(32), b"\xff" * 32, b"\x01" * 31])
def test_wallet_of_bytes_that_are_no_key_raises(key: bytes) -> None:
    with pytest.raises(KeystoreError):
        wallet_of(key)


def test_save_wallet_syncs_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(keys.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    save_wallet(new_wallet(), tmp_path / "me.json", "secret")
    assert synced
    assert synced[0] > 100
