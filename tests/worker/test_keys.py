"""The worker's keystore: which password opens it, and what is said when none or the wrong one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.chain.errors import KeystoreError
from millpond.chain.keys import Wallet, new_wallet, save_wallet
from millpond_worker.config import KeyConfig
from millpond_worker.errors import WorkerConfigError
from millpond_worker.home import Home
from millpond_worker.keys import PASSWORD_VARIABLE, open_key, read_password

KEY = KeyConfig(keystore="operator.json")


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


@pytest.fixture
def wallet(tmp_path: Path) -> Wallet:
    made = new_wallet()
    save_wallet(made, tmp_path / "operator.json", "secret")
    return made


def test_password_of_the_environment_opens(tmp_path: Path, wallet: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")

    assert open_key(KEY, Home(tmp_path), 1).key == wallet.key


def test_password_file_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    (tmp_path / "p").touch(0o600)
    (tmp_path / "p").write_text("two words \n\n")

    assert read_password("p", Home(tmp_path)) == "two words "


def test_no_password_says_where_to_give_one(tmp_path: Path, wallet: Wallet) -> None:
    with pytest.raises(WorkerConfigError) as caught:
        open_key(KEY, Home(tmp_path), 1)
    assert "key_password_file" in caught.value.remedy
    assert PASSWORD_VARIABLE in caught.value.remedy


def test_password_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkerConfigError, match="No such file") as caught:
        read_password("none", Home(tmp_path))
    assert caught.value.fields["path"] == str(tmp_path / "none")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_password_file_others_reach_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    (tmp_path / "p").write_text("secret")
    (tmp_path / "p").chmod(mode)

    with pytest.raises(WorkerConfigError) as caught:
        read_password("p", Home(tmp_path))
    assert caught.value.remedy == f"Run: chmod 600 {tmp_path / 'p'}"
    assert "secret" not in str(caught.value.as_dict())


def test_wrong_password_is_told_and_not_repeated(
    tmp_path: Path, wallet: Wallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "hunter2")

    with pytest.raises(KeystoreError, match="password is wrong") as caught:
        open_key(KEY, Home(tmp_path), 1)
    assert "hunter2" not in str(caught.value.as_dict())
    assert caught.value.exit_code == 3


def test_keystore_others_read_is_refused(tmp_path: Path, wallet: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    (tmp_path / "operator.json").chmod(0o644)

    with pytest.raises(KeystoreError):
        open_key(KEY, Home(tmp_path), 1)


def test_keystore_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")

    with pytest.raises(KeystoreError, match=r"operator\.json"):
        open_key(KEY, Home(tmp_path), 1)
