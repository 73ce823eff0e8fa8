import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from millpond.chain.errors import DevelopmentKeyError, KeystoreError
from millpond.chain.keys import development_wallet, new_wallet, save_wallet
from millpond.protocol.ids import address
from millpond_worker.config import KeyConfig, load_config, parse_config
from millpond_worker.errors import WorkerConfigError, WorkerRunningError
from millpond_worker.home import Home, HomeLock, is_running
from millpond_worker.keys import open_key
from millpond_worker.settings_file import save_config

POOL = "0x" + "11" * 20
OFFER = {"share": 600, "memory": "2GiB", "price": "0.36/h"}
GIVEN: dict[str, Any] = {
    "rpc_url": "http://127.0.0.1:8545",
    "chain_id": 31337,
    "controller": POOL,
    "addresses": "addresses.json",
    "provider": "0x" + "22" * 20,
    "dev_key": 11,
    "offers": [OFFER],
}


def test_parse_config_of_the_needed_settings_fills_in_the_rest() -> None:
    config = parse_config(GIVEN)

    assert (config.controller, config.launcher, config.finality) == (address(POOL), "auto", 2)
    [offer] = config.offers
    assert (offer.share, offer.memory_mib, offer.price, offer.notice) == (600, 2048, "0.36/h", 600)


@pytest.mark.parametrize("name", ["rpc_url", "chain_id", "controller", "addresses", "provider", "offers"])
def test_parse_config_without_a_needed_setting_names_it(name: str) -> None:
    with pytest.raises(WorkerConfigError, match=name):
        parse_config({key: value for key, value in GIVEN.items() if key != name})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": "red"}, "colour is no setting"),
        ({"launcher": "podman"}, "launcher: one of auto, docker, process"),
        ({"controller": "0x12"}, "controller: not an address"),
        ({"chain_id": True}, "chain_id: a whole number"),
        ({"key": "operator.json"}, "exactly one of"),
        ({"dev_key": 100}, "dev_key: a whole number from 0 to 99"),
        ({"offers": [{**OFFER, "share": 1001}]}, "offer 1: share: a whole number from 1 to 1000"),
        ({"offers": [OFFER, {**OFFER, "memory": "much"}]}, "offer 2: memory"),
        ({"offers": [{**OFFER, "discount": 1}]}, "offer 1: discount is no setting"),
        ({"offers": []}, "offers: write at least one"),
        ({"allow_renters": ["0x12"]}, "allow_renters: not an address"),
    ],
)
def test_parse_config_of_a_wrong_value_says_which_and_why(change: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkerConfigError) as caught:
        parse_config({**GIVEN, **change})

    assert says in caught.value.message


def test_parse_config_of_several_mistakes_names_them_all() -> None:
    with pytest.raises(WorkerConfigError) as caught:
        parse_config({**GIVEN, "launcher": "podman", "device": "tpu"})

    assert len(caught.value.fields["problems"]) == 2


def test_load_config_of_a_saved_one_is_equal(tmp_path: Path) -> None:
    home = Home(tmp_path)
    config = dataclasses.replace(parse_config(GIVEN), allow_renters=frozenset({address(POOL)}), uuids=("a", "b"))
    save_config(config, home.config)

    assert load_config(home) == config


def test_load_config_where_there_is_none_tells_of_init(tmp_path: Path) -> None:
    with pytest.raises(WorkerConfigError) as caught:
        load_config(Home(tmp_path))

    assert "millpond-worker init" in caught.value.remedy


@pytest.mark.parametrize("text", ["not = [toml", "\udcff"])
def test_load_config_of_a_damaged_file_refuses(tmp_path: Path, text: str) -> None:
    (tmp_path / "worker.toml").write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(WorkerConfigError, match="cannot be read"):
        load_config(Home(tmp_path))


def test_lock_held_by_another_process_names_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom millpond_worker.home import Home, HomeLock\n"
        "with HomeLock(Home(Path(sys.argv[1]))):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert is_running(Home(tmp_path))
        with pytest.raises(WorkerRunningError) as caught, HomeLock(Home(tmp_path)):
            pass
        assert caught.value.fields["process"] == str(child.pid)
    finally:
        child.kill()
        child.communicate()

    with HomeLock(Home(tmp_path)):
        assert is_running(Home(tmp_path))
    assert not is_running(Home(tmp_path))


def test_open_key_of_a_development_account_off_its_chain_refuses(tmp_path: Path) -> None:
    with pytest.raises(DevelopmentKeyError):
        open_key(KeyConfig(dev_key=11), Home(tmp_path), 1)
    assert open_key(KeyConfig(dev_key=11), Home(tmp_path), 31337) == development_wallet(11, 31337)


def test_open_key_of_a_keystore_needs_a_private_password_file(tmp_path: Path) -> None:
    wallet = new_wallet()
    save_wallet(wallet, tmp_path / "operator.json", "secret")
    password = tmp_path / "operator.password"
    password.write_text("secret\n")
    key = KeyConfig(keystore="operator.json", password_file="operator.password")

    password.chmod(0o644)
    with pytest.raises(WorkerConfigError, match="can be read by others"):
        open_key(key, Home(tmp_path), 1)
    password.chmod(0o600)
    assert open_key(key, Home(tmp_path), 1).address == wallet.address
    password.write_text("wrong")
    with pytest.raises(KeystoreError, match="password"):
        open_key(key, Home(tmp_path), 1)
