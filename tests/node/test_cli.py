"""`millpond-node` without a chain: what is wrong is said in one line, with a remedy and a stable exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from millpond_node.cli import main; main()"]
GOOD = {
    "rpc_url": "http://127.0.0.1:9",
    "chain_id": 31337,
    "controller": "0x" + "11" * 20,
    "addresses": "a.json",
    "dev_key": 1,
    "port": 0,
}


def settings(home: Path, **changes: object) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in (GOOD | changes).items() if value is not None]
    (home / "node.toml").write_text("".join(lines))
    return home


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=40, check=False)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({}, 4, "RpcUnreachableError"),
        ({"chain_id": 5}, 3, "DevelopmentKeyError"),
        ({"prot": 1}, 3, "NodeConfigError"),
        ({"port": "8440"}, 3, "NodeConfigError"),
        ({"controller": "0x12"}, 3, "NodeConfigError"),
        ({"rpc_url": None}, 3, "NodeConfigError"),
        ({"dev_key": None}, 3, "NodeConfigError"),
        ({"dev_key": None, "key": "none.json"}, 3, "NodeConfigError"),
        ({"host": "192.0.2.1"}, 3, "NodeConfigError"),
    ],
)
def test_up_with_a_wrong_setting_ends_with_its_exit_code_and_a_typed_error(tmp_path, changes, code, said) -> None:
    done = run("up", "--json", "--home", str(settings(tmp_path, **changes)))
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["error"]) == (code, said)
    assert last["remedy"]


def test_up_without_settings_names_the_file_it_looked_for(tmp_path) -> None:
    done = run("up", "--home", str(tmp_path / "none"))
    assert done.returncode == 3
    assert "error: there is no" in done.stderr
    assert "  try: " in done.stderr


def test_status_without_a_node_says_how_to_start_it(tmp_path) -> None:
    done = run("status", "--home", str(settings(tmp_path, port=9)))
    assert done.returncode == 7
    assert "millpond-node up" in done.stderr


def test_unknown_command_ends_with_two() -> None:
    assert run("dance").returncode == 2


def test_help_loads_neither_web_nor_chain_libraries() -> None:
    script = (
        "import sys; sys.argv = ['millpond-node', '--help']\n"
        "from millpond_node.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('starlette', 'uvicorn', 'httpx', 'web3', 'eth_account', 'pydantic', 'numpy') if name in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True, env=dict(os.environ)
    )
    assert output.stdout.splitlines()[-1] == "[]"
