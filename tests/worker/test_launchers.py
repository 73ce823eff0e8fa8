"""Which launcher is chosen when Docker answers, is away, or was asked for; and what a person hears of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from millpond.chain.keys import development_wallet
from millpond_worker import launchers
from millpond_worker.config import parse_config
from millpond_worker.errors import SetupError
from millpond_worker.home import Home
from millpond_worker.launch.port import Finding
from millpond_worker.launchers import Chosen, choose_launcher

OPERATOR, RENTER = (development_wallet(index, 31337).address for index in (11, 12))
CONFIG = parse_config(
    {
        "rpc_url": "http://127.0.0.1:1",
        "chain_id": 31337,
        "controller": "0x" + "11" * 20,
        "addresses": "addresses.json",
        "provider": "0x" + "22" * 20,
        "dev_key": 11,
        "offers": [{"share": 600, "memory": "64MiB", "price": "0.36/h"}],
    }
)


async def choose(home: Path, launcher: str, **changes: Any) -> Chosen:
    return await choose_launcher(dataclasses.replace(CONFIG, launcher=launcher, **changes), Home(home), OPERATOR)


@pytest.fixture
def no_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    socket = f"{tmp_path}/no.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    return socket


class Engine:
    """Stands for a docker launcher whose check says what a test wants."""

    kind = "docker"

    def __init__(self, *findings: Finding) -> None:
        self.findings, self.is_closed = list(findings), False

    async def check(self) -> list[Finding]:
        return self.findings

    async def close(self) -> None:
        self.is_closed = True


def offer_engine(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> Engine:
    engine = Engine(*findings)
    monkeypatch.setattr(launchers, "open_docker", lambda *_: engine)
    return engine


async def test_docker_asked_for_and_not_running_is_refused_with_how_to_start_it(tmp_path: Path, no_docker: str) -> None:
    with pytest.raises(SetupError) as caught:
        await choose(tmp_path, "docker")

    assert no_docker in caught.value.message
    assert (caught.value.exit_code, "systemctl start docker" in caught.value.remedy) == (3, True)
    assert caught.value.fields["findings"]


async def test_auto_without_docker_runs_processes_and_says_so_with_the_reason(tmp_path: Path, no_docker: str) -> None:
    chosen = await choose(tmp_path, "auto")
    await chosen.launcher.close()

    assert (chosen.launcher.kind, chosen.allow_renters) == ("process", frozenset())
    assert no_docker in chosen.warning
    assert "without isolation" in chosen.warning
    assert "serves nobody" in chosen.warning


async def test_process_asked_for_serves_only_the_renters_it_names(tmp_path: Path) -> None:
    chosen = await choose(tmp_path, "process", allow_renters=frozenset({RENTER}))
    await chosen.launcher.close()

    assert chosen.allow_renters == {RENTER}
    assert "serves 1 renters by name" in chosen.warning


async def test_docker_that_answers_is_taken_without_a_warning_and_serves_any_renter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = offer_engine(monkeypatch, Finding("warn", "rootless", "better so"))
    chosen = await choose(tmp_path, "auto")

    assert (chosen.launcher, chosen.allow_renters, chosen.warning) == (engine, None, "")
    assert not engine.is_closed


async def test_docker_that_is_unsafe_is_closed_and_its_first_fault_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = offer_engine(monkeypatch, Finding("fail", "runc", "too old", "Update runc."), Finding("fail", "b", "c"))
    with pytest.raises(SetupError, match="too old") as caught:
        await choose(tmp_path, "docker")

    assert caught.value.remedy == "Update runc."
    assert caught.value.fields["findings"] == ["runc: too old", "b: c"]
    assert engine.is_closed


async def test_containers_of_two_homes_with_one_key_are_told_apart(tmp_path: Path) -> None:
    labels = {launchers._label(Home(tmp_path / name), OPERATOR) for name in ("a", "b")}

    assert len(labels) == 2
    assert launchers._label(Home(tmp_path / "x" / ".." / "a"), OPERATOR) in labels
