import json
from pathlib import Path

import pytest

from millpond_worker.cli import main
from millpond_worker.config import load_config, parse_config
from millpond_worker.home import Home
from millpond_worker.reload import changed
from millpond_worker.settings_file import save_config

ADDRESS = "0x" + "11" * 20
GIVEN = {
    "rpc_url": "http://127.0.0.1:1",
    "chain_id": 31337,
    "controller": ADDRESS,
    "addresses": "addresses.json",
    "provider": "0x" + "22" * 20,
    "dev_key": 11,
    "price_floor": "1/h",
    "hours": ["22:00-06:00", "12:00-13:30"],
    "time_zone": "Europe/Berlin",
    "allow_images": ["pytorch/*"],
    "refuse_images": ["sha256:ab*"],
    "refuse_renters": [ADDRESS],
    "offers": [
        {"share": 600, "memory": "1GiB", "price": "2/h", "tick": "5s"},
        {"share": 400, "memory": "512MiB", "price": "1/h"},
    ],
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    save_config(parse_config(GIVEN), made.config)
    return made


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_settings_of_the_policy_are_written_and_read_back(home: Home) -> None:
    assert load_config(home) == parse_config(GIVEN)


def test_price_of_a_whole_device_is_parted_by_share(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("price", "4.00/h", "--home", str(home.folder), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "offers": [{"share": 600, "price": "2.4/h"}, {"share": 400, "price": "1.6/h"}],
        "is_running": False,
    }
    assert [offer.price for offer in load_config(home).offers] == ["2.4/h", "1.6/h"]


def test_price_of_one_offer_leaves_the_other(home: Home) -> None:
    assert run("price", "9/h", "--share", "400", "--home", str(home.folder)) == 0
    assert [offer.price for offer in load_config(home).offers] == ["2/h", "9/h"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("0.5/h",), "below this provider's floor"),
        (("4/h", "--share", "500"), "no offer has the share 500"),
        (("much",), "much"),
    ],
)
def test_price_that_cannot_be_writes_nothing(
    home: Home, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = home.config.read_text()
    assert run("price", *arguments, "--home", str(home.folder)) != 0
    assert says in capsys.readouterr().err
    assert home.config.read_text() == before


def test_reload_without_a_worker_says_so(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reload", "--home", str(home.folder)) == 3
    assert "no worker answered" in capsys.readouterr().err


def test_exit_without_the_owners_key_changes_nothing(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("exit", "--home", str(home.folder)) == 3
    assert "the owner's key is needed" in capsys.readouterr().err
    assert not home.exit.exists()


def test_changed_names_the_settings_that_differ() -> None:
    new = parse_config(GIVEN | {"finality": 5, "price_floor": "1.1/h"})
    assert changed(parse_config(GIVEN), new) == ("finality", "price_floor")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hours": ["6-7"]}, "hours: a time like 06:30"),
        ({"time_zone": "Moon/Base"}, "time_zone: no such time zone"),
        ({"offers": [{"share": 600, "memory": "1GiB", "price": "1/h", "tick": "0s"}]}, "tick: from 1 s"),
        ({"allow_images": [""]}, "allow_images: it is empty"),
    ],
)
def test_wrong_policy_is_named(change: dict[str, object], says: str) -> None:
    from millpond_worker.errors import WorkerConfigError

    with pytest.raises(WorkerConfigError, match=says):
        parse_config(GIVEN | change)
