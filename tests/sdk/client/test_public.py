"""The public face: names, lazy loading, settings, the command line without a network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import millpond
from millpond.cli import main
from millpond.errors import SettingsError
from millpond.protocol.ids import address
from millpond.settings import Network, load_network
from millpond.wallet import load_wallet

NETWORK = Network("http://127.0.0.1:1", 31337, address("0x" + "ab" * 20))
HEAVY = ("numpy", "httpx", "eth_account", "web3", "pydantic", "rich")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RPC_URL", "CHAIN_ID", "POOL", "NODE_URL", "WALLET", "WALLET_PASSWORD"):
        monkeypatch.delenv(f"MILLPOND_{name}", raising=False)
    monkeypatch.setenv("MILLPOND_HOME", str(tmp_path))
    return tmp_path


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_all_is_sorted_and_every_name_loads() -> None:
    assert millpond.__all__ == sorted(millpond.__all__)
    assert all(getattr(millpond, name).__name__ == name for name in millpond.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = millpond.Clinet


@pytest.mark.parametrize(
    "code", ["import millpond.cli", "import millpond", "import millpond.cli as c; c.main(['--help'])"]
)
def test_import_and_help_load_nothing_heavy(code: str) -> None:
    script = f"import sys, atexit\natexit.register(lambda: print([m for m in {HEAVY} if m in sys.modules]))\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_import_of_the_protocol_loads_no_client() -> None:
    script = (
        "import sys, millpond.protocol.wire, millpond.protocol.receipts\n"
        "print([m for m in ('httpx', 'web3', 'millpond.client', 'millpond.chain', 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


def test_load_network_without_any_says_what_to_do(own_home: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_network(own_home)

    assert "millpond dev up" in caught.value.remedy


def test_load_network_of_a_saved_one_is_overridden_by_the_environment(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NETWORK.save(own_home)
    monkeypatch.setenv("MILLPOND_RPC_URL", "http://127.0.0.1:2")

    assert load_network(own_home) == Network("http://127.0.0.1:2", 31337, NETWORK.controller)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"rpc_url": 1}', '{"rpc_url": "x", "chain_id": 1, "controller": "y"}']
)
def test_load_network_of_a_damaged_file_refuses(own_home: Path, text: str) -> None:
    (own_home / "network.json").write_text(text)

    with pytest.raises(millpond.MillpondError):
        load_network(own_home)


def test_load_wallet_off_the_development_chain_needs_a_name(own_home: Path) -> None:
    with pytest.raises(SettingsError, match="no wallet is chosen"):
        load_wallet(own_home, Network("http://127.0.0.1:1", 1, NETWORK.controller))


def test_wallet_new_then_ls_shows_its_address(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLPOND_WALLET_PASSWORD", "pass")
    assert run_main("wallet", "new", "alice", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert run_main("wallet", "ls", "--json") == 0

    assert json.loads(capsys.readouterr().out) == [{"name": "alice", "address": made["address"]}]
    assert len(load_wallet(own_home, NETWORK, "alice")) == 32
    assert run_main("wallet", "new", "alice") == 3


def test_command_without_a_network_ends_with_3_and_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("offers") == 3
    shown = capsys.readouterr().err

    assert shown.startswith("error: no network is set")
    assert "try: " in shown


def test_command_with_the_rpc_down_ends_with_4_and_json(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    NETWORK.save(own_home)

    assert run_main("balance", "--json") == 4
    assert json.loads(capsys.readouterr().out)["error"] == "RpcUnreachableError"


@pytest.mark.parametrize("arguments", [("no-such-command",), ("lease", "close"), ("why",)])
def test_command_used_wrongly_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run_main(*arguments) == 2


def test_receipt_verify_of_a_damaged_file_refuses(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = own_home / "receipt.json"
    file.write_text("{}")

    assert run_main("receipt", "verify", str(file), "--rpc", "http://127.0.0.1:1") == 2
    assert run_main("receipt", "verify", str(own_home / "none.json")) == 2
