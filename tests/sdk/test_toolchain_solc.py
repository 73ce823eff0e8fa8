import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOLC = ROOT / "scripts/toolchain/solc"
HEAD = "// SPDX-License-Identifier: MIT\npragma solidity 0.8.30;\n"

pytestmark = [
    pytest.mark.forge,
    pytest.mark.skipif(not (ROOT / "node_modules/solc").is_dir(), reason="no node_modules: run 'make setup'"),
]


def solc(*arguments: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MILLPOND_SOLC_CACHE": str(folder / "cache")}
    command = [str(SOLC), *arguments]
    return subprocess.run(
        command, cwd=folder, input=stdin, env=environment, capture_output=True, text=True, check=False, timeout=50
    )


def compile_importing(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    source = HEAD + f'import {{Part}} from "{name}";\ncontract Whole is Part {{}}\n'
    request = {
        "language": "Solidity",
        "sources": {"Whole.sol": {"content": source}},
        "settings": {"outputSelection": {"*": {"*": ["evm.bytecode.object"]}}},
    }
    result = solc("--standard-json", *arguments, folder=folder, stdin=json.dumps(request))
    assert result.returncode == 0, result.stderr
    output: dict[str, Any] = json.loads(result.stdout)
    return output


def errors(output: dict[str, Any]) -> str:
    return " ".join(error["message"] for error in output.get("errors", []) if error["severity"] == "error")


def part(value: int) -> str:
    return HEAD + f"contract Part {{ function answer() external pure returns (uint256) {{ return {value}; }} }}\n"


def test_version_is_the_locked_one(tmp_path: Path) -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    locked = lock["packages"]["node_modules/solc"]["version"]
    result = solc("--version", folder=tmp_path)
    assert result.returncode == 0
    assert f"Version: {locked}+commit." in result.stdout
    assert (ROOT / f"scripts/toolchain/solcx/solc-v{locked}").resolve() == SOLC


def test_compile_import_changed_on_disk_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "Part.sol").write_text(part(41))
    first = compile_importing("./Part.sol", tmp_path)
    assert errors(first) == ""
    assert compile_importing("./Part.sol", tmp_path) == first
    (tmp_path / "Part.sol").write_text(part(42))
    assert compile_importing("./Part.sol", tmp_path) != first


def test_compile_import_outside_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "Part.sol").write_text(part(1))
    (inside / "Part.sol").symlink_to(outside / "Part.sol")
    assert "outside of allowed directories" in errors(compile_importing("./Part.sol", inside))
    assert errors(compile_importing("./Part.sol", inside, "--allow-paths", str(outside))) == ""


def test_compile_include_path_is_searched(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/Part.sol").write_text(part(1))
    assert "File not found" in errors(compile_importing("Part.sol", tmp_path))
    assert errors(compile_importing("Part.sol", tmp_path, "--base-path", ".", "--include-path", "library")) == ""


def test_unknown_option_fails_with_its_name(tmp_path: Path) -> None:
    result = solc("--bin", folder=tmp_path)
    assert result.returncode == 1
    assert "--bin" in result.stderr
