import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from millpond._source import source_of
from millpond.errors import TaskSourceError
from millpond.protocol import units, values


def plain(x: int) -> int:
    return x


def outer() -> object:
    captured = 3

    def inner() -> int:
        return captured

    return inner


class Thing:
    def method(self) -> None:
        """Not a task."""


def test_source_of_a_packaged_function_ships_its_top_level_package() -> None:
    source = source_of(units.parse_amount)

    assert source.entry == "millpond.protocol.units:parse_amount"
    assert source.main == ""
    assert source.files["millpond/protocol/units.py"] == Path(units.__file__).read_bytes()
    assert "millpond/__init__.py" in source.files
    assert not any("__pycache__" in name for name in source.files)


def test_bundle_of_a_source_is_a_plain_value() -> None:
    source = source_of(plain)

    assert values.decode(source.bundle()) == {"main": source.main, "files": source.files}


@pytest.mark.parametrize("function", [lambda x: x, outer(), Thing().method, len, Thing])
def test_source_of_what_cannot_travel_refuses_with_a_remedy(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TaskSourceError) as caught:
        source_of(function)

    assert caught.value.remedy


def test_source_of_a_closure_names_what_it_captures() -> None:
    with pytest.raises(TaskSourceError, match="captured"):
        source_of(outer())


def run_script(folder: Path, body: str) -> str:
    script = folder / "job.py"
    script.write_text(textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_source_of_a_script_ships_it_and_its_neighbours_as_main(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    (tmp_path / "notes.txt").write_text("not source\n")
    out = run_script(
        tmp_path,
        """
        from millpond._source import source_of
        def task(): return 1
        source = source_of(task)
        print(source.entry, source.main, sorted(source.files))
        """,
    )

    assert out.strip() == "__mp_main__:task job.py ['helper.py', 'job.py']"


def test_source_of_links_leaves_them_out(tmp_path: Path) -> None:
    (tmp_path / "secret.py").symlink_to("/etc/passwd")
    out = run_script(
        tmp_path,
        """
        from millpond._source import source_of
        def task(): return 1
        print(sorted(source_of(task).files))
        """,
    )

    assert out.strip() == "['job.py']"
