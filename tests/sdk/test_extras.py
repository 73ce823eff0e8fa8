"""An entry point says which libraries are missing, and how to install them; it is silent where all are there."""

import pytest

from millpond._extras import ExtraMissingError, missing_modules, require_extra


def test_require_extra_with_every_module_installed_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    require_extra("worker", ("json", "sqlite3"))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_require_extra_missing_carries_the_install_line_and_exit_code_3() -> None:
    with pytest.raises(ExtraMissingError) as caught:
        require_extra("worker", ("json", "no_such_module_a", "no_such_module_b"))
    error = caught.value
    assert error.exit_code == 3
    assert "no_such_module_a, no_such_module_b" in error.message
    assert error.remedy.endswith("-m pip install 'millpond[worker]'")
    assert error.fields["missing"] == ["no_such_module_a", "no_such_module_b"]


def test_missing_modules_keeps_their_order() -> None:
    assert missing_modules(("zz_missing", "json", "aa_missing")) == ["zz_missing", "aa_missing"]
