import pytest

from millpond._extras import missing_modules, require_extra


def test_require_extra_installed_returns() -> None:
    require_extra("worker", ("json", "sqlite3"))


def test_require_extra_missing_exits_3_with_the_install_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        require_extra("worker", ("json", "no_such_module_a", "no_such_module_b"))
    assert exit_info.value.code == 3
    error = capsys.readouterr().err
    assert "no_such_module_a, no_such_module_b" in error
    assert "-m pip install 'millpond[worker]'" in error
    assert "json" not in error


def test_missing_modules_keeps_their_order() -> None:
    assert missing_modules(("zz_missing", "json", "aa_missing")) == ["zz_missing", "aa_missing"]
