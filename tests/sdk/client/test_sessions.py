import stat
from pathlib import Path

import pytest

from millpond._sessions import Session, SessionStore, new_session_key
from millpond.errors import SettingsError
from millpond.protocol.ids import bytes32

REQUEST = bytes32(b"\x05" * 32)


def test_load_of_a_saved_session_is_equal_and_private(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    session = Session(REQUEST, new_session_key())
    store.save(session)

    assert store.load(REQUEST) == session
    assert stat.S_IMODE((tmp_path / "sessions" / f"{REQUEST}.json").stat().st_mode) == 0o600


def test_repr_of_a_session_does_not_show_its_key() -> None:
    key = new_session_key()

    assert key.hex() not in repr(Session(REQUEST, key))


def test_load_of_an_unknown_session_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        SessionStore(tmp_path).load(REQUEST)

    assert "MILLPOND_HOME" in caught.value.remedy


@pytest.mark.parametrize("text", ["", "{}", '{"key": "0xzz"}', "[]"])
def test_load_of_a_damaged_session_refuses(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{REQUEST}.json").write_text(text)

    with pytest.raises(SettingsError, match="cannot be read"):
        SessionStore(tmp_path).load(REQUEST)


def test_forget_of_a_session_removes_its_key(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.save(Session(REQUEST, new_session_key()))
    store.forget(REQUEST)
    store.forget(REQUEST)

    assert list(tmp_path.iterdir()) == []
