"""MILLPOND_REQUIRE turns the skip of a required engine into a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKED = "import pytest\n@pytest.mark.docker\ndef test_engine():\n    pytest.skip('no engine')\n"
CONDITION = "import pytest\n@pytest.mark.docker\n@pytest.mark.skipif(True, reason='none')\ndef test_engine(): pass\n"
UNMARKED = "import pytest\ndef test_engine():\n    pytest.skip('no engine')\n"
MODULE = "import pytest\npytest.skip('no engine', allow_module_level=True)\n"


def run_pytest(folder: Path, source: str, required: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "test_engine.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = docker: engine\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:pytest-brownie"]
    environment = {**os.environ, "MILLPOND_REQUIRE": required}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.parametrize("source", [MARKED, CONDITION, MODULE], ids=["marked", "condition", "module"])
def test_skip_of_a_required_engine_fails(tmp_path: Path, source: str) -> None:
    result = run_pytest(tmp_path, source, "docker,anvil")
    assert result.returncode != 0
    assert "MILLPOND_REQUIRE" in result.stdout


@pytest.mark.parametrize(
    ("source", "required"), [(MARKED, ""), (MARKED, "anvil"), (UNMARKED, "docker")], ids=["unset", "other", "unmarked"]
)
def test_skip_of_another_engine_passes(tmp_path: Path, source: str, required: str) -> None:
    result = run_pytest(tmp_path, source, required)
    assert result.returncode == 0, result.stdout
    assert "1 skipped" in result.stdout


def test_unknown_engine_is_refused(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, UNMARKED, "dockr")
    assert result.returncode != 0
    assert "dockr" in result.stdout + result.stderr
