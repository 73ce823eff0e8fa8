"""`status` and `withdraw` as a person reads them: tokens with their symbol, live leases first, what stake is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millpond_worker import control
from millpond_worker.cli.money import withdraw_command
from millpond_worker.cli.running import status_command
from millpond_worker.home import Home, HomeLock

LEASE = {"share": 600, "memory_mib": 512, "voucher": "1500000", "unpaid_seconds": 3, "renter": "0xr"}
STATUS: dict[str, Any] = {
    "worker": "0xw",
    "launcher": "process",
    "is_connected": True,
    "last_error": "",
    "is_draining": False,
    "warning": "",
    "devices": [],
    "offers": [],
    "tasks": {},
    "reports_waiting": 0,
    "token": {"symbol": "MOCK", "decimals": 6},
    "stake": {"left": "5000000", "dearest_lease": "2000000"},
    "leases": [{**LEASE, "lease": "0xlive", "state": "ready"}, {**LEASE, "lease": "0xold", "state": "clean"}],
}


def shown(folder: Path, status: dict[str, Any], *arguments: str) -> str:
    home = Home(folder)
    with HomeLock(home):
        home.status.write_text(json.dumps(status))
        done = CliRunner().invoke(status_command, ["--home", str(folder), *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_status_shows_live_leases_and_how_many_have_ended(tmp_path: Path) -> None:
    said = shown(tmp_path, STATUS)
    assert "0xlive" in said
    assert "0xold" not in said
    assert "1 ended lease: --all shows it" in said
    assert "1.5 MOCK" in said


def test_status_with_all_shows_ended_leases(tmp_path: Path) -> None:
    assert "0xold" in shown(tmp_path, STATUS, "--all")


def test_status_says_what_stake_is_left(tmp_path: Path) -> None:
    said = shown(tmp_path, STATUS)
    assert "stake left for new leases: 5 MOCK; the dearest lease takes 2 MOCK" in said
    assert "too little" not in said


def test_status_with_too_little_stake_says_what_to_do(tmp_path: Path) -> None:
    said = shown(tmp_path, STATUS | {"stake": {"left": "1", "dearest_lease": "2000000"}})
    assert "too little stake is left: stake more with `millpond-worker init --stake`" in said


def test_status_before_the_chain_answered_says_nothing_of_stake(tmp_path: Path) -> None:
    assert "stake" not in shown(tmp_path, STATUS | {"stake": None})


def test_withdraw_prints_the_token_amount_with_its_symbol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"amount": "1500000", "symbol": "MOCK", "decimals": 6, "payout": "0xp", "tx": "0xt", "gas_used": 1}
    monkeypatch.setattr(control, "ask", lambda *_: sent)
    with HomeLock(Home(tmp_path)):
        done = CliRunner().invoke(withdraw_command, ["--home", str(tmp_path)])
    assert done.output == "paid 1.5 MOCK to 0xp in 0xt (1 gas)\n"
