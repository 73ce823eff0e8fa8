"""The report's checks turn red one by one; the picture and the tables are drawn from made data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from _demo import engine, stranger, tables
from _demo.history import Balances
from _demo.ledger import Gas, Money, Slice
from _demo.picture import draw, grid_of
from _demo.report import Report, Run
from digits_sweep import Point
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_BYTES32, bytes32

MONEY = Money(deposited=1000, earmarked=1000, paid=97, fees=2, burnt=1, refunded=900)
DEVICE, OTHER = bytes32(keccak256(b"one")), bytes32(keccak256(b"two"))
RUN = Run(2, "worker-2", 30, 30, 30, 2, 0.97, "docker", ("CPU",), "DevicesShareFullError: full", True, True, 97, 61.26)
GAS = {"Controller.openLease": Gas(3, 10, 20, 30, 1)}
SOUND = Report(
    run=RUN, money=MONEY, gas=GAS, opened=3, closed=3, posted=30, device_kinds=["cpu"], workers_registered=2,
    slices=[
        Slice(ZERO_BYTES32, DEVICE, 500, 512, 16, 60, 60, 500),
        Slice(ZERO_BYTES32, DEVICE, 300, 256, 10, 60, 37, 400),
        Slice(ZERO_BYTES32, OTHER, 500, 512, 4, 60, 37, 400),
    ],
    balances=Balances(900, 97, 2, 1), blocks=80,
)  # fmt: skip
POINTS = [Point(h, r, 0.5 + h / 200 + r, 1.0, "numpy") for h in (4, 64) for r in (0.01, 0.1)]


def test_sound_report_has_every_promised_key() -> None:
    data = json.loads(json.dumps(SOUND.as_dict()))
    assert SOUND.is_sound
    assert {
        "workers", "leases_opened", "leases_closed", "tasks", "tasks_succeeded", "receipts_attested", "deposited", "paid",
        "fees", "burnt", "refunded", "gas", "best_accuracy", "launcher", "device_kinds", "wall_seconds",
    } <= data.keys()  # fmt: skip
    amounts = [data[name] for name in ("deposited", "paid", "fees", "burnt", "refunded")]
    assert amounts == ["1000", "97", "2", "1", "900"]
    assert data["gas"]["Controller.openLease"] == {"count": 3, "min": 10, "mean": 20, "max": 30, "refused": 1}
    assert data["wall_seconds"] == 61.3
    assert (data["workers"], data["attempts_retried"], data["worker_killed"]) == (2, 2, "worker-2")


@pytest.mark.parametrize(
    "changes",
    [
        {"money": dataclasses.replace(MONEY, refunded=899)},
        {"money": dataclasses.replace(MONEY, deposited=1001, refunded=901)},
        {"balances": Balances(900, 97, 2, 0)},
        {"balances": Balances(899, 97, 2, 1)},
        {"closed": 1},
        {"posted": 29},
        {"workers_registered": 0},
        {"slices": SOUND.slices[:1]},
        {"slices": [SOUND.slices[0], SOUND.slices[0]]},
        {"slices": [SOUND.slices[0], SOUND.slices[2]]},
        {"slices": [*SOUND.slices[:2], dataclasses.replace(SOUND.slices[2], tasks=0)]},
    ],
)
def test_report_with_one_wrong_figure_is_not_sound(changes: dict[str, Any]) -> None:
    assert not dataclasses.replace(SOUND, **changes).is_sound


@pytest.mark.parametrize(
    "changes",
    [
        {"succeeded": 29}, {"attested": 29}, {"refusal": ""}, {"is_stranger_convinced": False}, {"is_change_noticed": False},
        {"withdrawn": 96}, {"workers": 3}, {"killed": ""}, {"retried": 0}, {"tasks": 0, "succeeded": 0, "attested": 0},
    ],
)  # fmt: skip
def test_run_with_one_wrong_figure_is_not_sound(changes: dict[str, Any]) -> None:
    assert not dataclasses.replace(SOUND, run=dataclasses.replace(RUN, **changes)).is_sound


def test_tables_show_slices_money_gas_and_checks() -> None:
    out = Console(record=True, width=110)
    tables.show(SOUND, "tUSD", 6, out)
    text = out.export_text()
    assert "0.000097" in text
    assert "Controller.openLease (1 refused)" in text
    assert "ok      every task succeeded" in text
    assert "FAILED" not in text


def test_tables_show_a_failed_check() -> None:
    out = Console(record=True, width=110)
    tables.show(dataclasses.replace(SOUND, closed=1), "tUSD", 6, out)
    assert "FAILED  every opened lease is closed" in out.export_text()


def test_grid_has_rows_by_hidden_units_and_columns_by_rate() -> None:
    hidden, rates, accuracy = grid_of(list(reversed(POINTS)))
    assert (hidden, rates) == ([4, 64], [0.01, 0.1])
    assert accuracy[1][0] == POINTS[2].accuracy


def test_draw_writes_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(POINTS, "4 tasks", tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_change_byte_changes_one_hex_digit_of_the_named_value() -> None:
    text = b'{"a": "0x00ff", "resultHash": "0x00fe", "b": "0x01"}'
    assert stranger.change_byte(text, b"resultHash") == b'{"a": "0x00ff", "resultHash": "0x00ff", "b": "0x01"}'


def test_launcher_without_an_engine_is_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert engine.choose_launcher() == ("process", f"there is no Docker engine at {tmp_path}/none.sock")
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert engine.choose_launcher()[0] == "process"


@pytest.mark.parametrize(("status", "launcher"), [(200, "docker"), (404, "process"), (500, "process")])
def test_launcher_follows_what_the_engine_says_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, launcher: str
) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    answer = httpx.MockTransport(lambda request: httpx.Response(status))
    monkeypatch.setattr(httpx, "HTTPTransport", lambda uds: answer)
    assert engine.choose_launcher()[0] == launcher


def test_launcher_with_a_dead_socket_is_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker.sock").touch()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    launcher, reason = engine.choose_launcher()
    assert launcher == "process"
    assert "does not answer" in reason
