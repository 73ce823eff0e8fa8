"""What the doctor says of the machine, the settings, the key, the devices and the launcher: good and bad, each bad one with its remedy."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millpond.chain.keys import development_wallet
from millpond_worker import assemble, doctor, doctor_chain, launchers
from millpond_worker.config import KeyConfig, WorkerConfig, parse_config
from millpond_worker.devices.cpu import CpuGpu
from millpond_worker.devices.fake import FakeDevice, FakeNvml
from millpond_worker.devices.nvml import NvmlGpu
from millpond_worker.doctor import FAIL, OK, WARN, Check, cgroup_check, disk_check, examine, python_check, skew_check
from millpond_worker.errors import SetupError
from millpond_worker.home import Home
from millpond_worker.launch.port import Finding
from millpond_worker.launchers import Chosen
from millpond_worker.settings_file import save_config

NOW = 1_700_000_000
CONFIG = parse_config(
    {
        "rpc_url": "http://127.0.0.1:1",
        "chain_id": 31337,
        "controller": "0x" + "11" * 20,
        "addresses": "addresses.json",
        "provider": "0x" + "22" * 20,
        "dev_key": 11,
        "device": "cpu",
        "launcher": "process",
        "offers": [{"share": 600, "memory": "64MiB", "price": "0.36/h"}],
    }
)


def changed(**changes: Any) -> WorkerConfig:
    return dataclasses.replace(CONFIG, **changes)


def assert_told(check: Check, level: str, measured: str, remedy: str) -> None:
    assert (check.level, measured in check.measured, remedy in check.remedy) == (level, True, True), check


def assert_good(check: Check, measured: str) -> None:
    assert (check.level, check.remedy) == (OK, ""), check
    assert measured in check.measured


# THE MACHINE


def test_python_that_is_new_enough_is_good() -> None:
    assert_good(python_check(), "3.")
    assert_good(python_check((3, 11, 0)), "3.11.0")


def test_python_that_is_too_old_fails() -> None:
    assert_told(python_check((3, 10, 9)), FAIL, "3.10.9", "Install Python 3.11")


@pytest.mark.parametrize(
    ("folders", "kind"), [(["memory"], "v1"), (["memory", "unified"], "hybrid"), (["cgroup.controllers"], "v2")]
)
def test_control_groups_of_each_kind_are_good(tmp_path: Path, folders: list[str], kind: str) -> None:
    for name in folders:
        (tmp_path / name).mkdir()
    check = cgroup_check(tmp_path)
    assert_good(check, kind)
    assert check.measured == kind


def test_no_control_groups_warns_that_limits_are_not_enforced(tmp_path: Path) -> None:
    assert_told(cgroup_check(tmp_path), WARN, "none mounted", "not enforced")


def free(monkeypatch: pytest.MonkeyPatch, mib: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=mib << 20))


def test_disk_with_room_is_good_also_for_a_folder_that_is_not_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, doctor.LEAST_DISK_MIB)
    assert_good(disk_check(tmp_path / "not" / "made"), f"1024 MiB free at {tmp_path}")
    assert not (tmp_path / "not").exists()


def test_disk_that_is_nearly_full_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, doctor.LEAST_DISK_MIB - 1)
    assert_told(disk_check(tmp_path), WARN, "1023 MiB free", "--home")


def test_folder_that_cannot_be_written_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 5000)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert_told(disk_check(tmp_path), FAIL, "cannot be written", "--home")


@pytest.mark.parametrize(
    ("head", "level", "measured", "remedy"),
    [
        (NOW - 45, OK, "45 s old", ""),
        (NOW + 30, OK, "0 s old", ""),
        (NOW - 46, WARN, "46 s old", "RPC that is not behind"),
        (NOW + 31, FAIL, "31 s behind", "time service"),
    ],
)
def test_clock_beside_the_newest_block(head: int, level: str, measured: str, remedy: str) -> None:
    check = skew_check(head, 15, lambda: float(NOW))
    assert_told(check, level, measured, remedy)
    assert (check.remedy == "") == (level == OK)


# KEY AND DEVICES


def test_key_that_opens_is_good_and_a_public_one_is_named_so(tmp_path: Path) -> None:
    check = doctor.key_check(CONFIG, Home(tmp_path))
    assert_good(check, development_wallet(11, 31337).address)
    assert "public development key" in check.measured


def test_key_that_does_not_open_fails_with_the_errors_own_remedy(tmp_path: Path) -> None:
    missing = changed(key=KeyConfig(keystore="none.json", password_file="none.password"))
    assert_told(doctor.key_check(missing, Home(tmp_path)), FAIL, "none.password", "worker.toml")
    assert_told(doctor.key_check(changed(chain_id=1), Home(tmp_path)), FAIL, "", "millpond wallet new")


def test_cpu_device_is_good() -> None:
    assert_good(doctor.device_check(CONFIG), "cpu: ")


def test_device_that_is_not_here_fails_and_says_which_are(monkeypatch: pytest.MonkeyPatch) -> None:
    check = doctor.device_check(changed(uuids=("GPU-gone",)))
    assert_told(check, FAIL, "GPU-gone", "doctor")
    assert CpuGpu().list_devices()[0].uuid in check.measured


def test_device_that_is_sick_fails_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml([FakeDevice("GPU-a", temperature=99)])
    monkeypatch.setattr(assemble, "open_gpu", lambda _: NvmlGpu(fake))
    assert_told(doctor.device_check(CONFIG), FAIL, "temperature 99 C", "uuids")
    assert not fake.is_open


def test_driver_is_let_go_also_when_a_device_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml([])
    monkeypatch.setattr(assemble, "open_gpu", lambda _: NvmlGpu(fake))
    assert_told(doctor.device_check(CONFIG), FAIL, "not on this machine", "doctor")
    assert not fake.is_open


# THE LAUNCHER


class Engine:
    """A launcher that only says what is wrong with it."""

    kind = "docker"

    def __init__(self, *findings: Finding) -> None:
        self.findings, self.is_closed = list(findings), False

    async def check(self) -> list[Finding]:
        return self.findings

    async def close(self) -> None:
        self.is_closed = True


async def launcher_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: Any) -> list[Check]:
    async def choose(*_: Any) -> Any:
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    monkeypatch.setattr(launchers, "choose_launcher", choose)
    return [check async for check in doctor._launcher(CONFIG, Home(tmp_path))]


async def test_docker_that_answers_is_good_and_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine: Any = Engine(Finding(OK, "runc", "1.2"))
    [check] = await launcher_checks(monkeypatch, tmp_path, Chosen(engine, None))
    assert_good(check, "docker")
    assert engine.is_closed


async def test_docker_with_a_fault_tells_it_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine: Any = Engine(Finding(WARN, "image", "not here", "Build it."))
    _, fault = await launcher_checks(monkeypatch, tmp_path, Chosen(engine, None))
    assert fault.id == "launcher image"
    assert_told(fault, WARN, "not here", "Build it.")


async def test_docker_asked_for_and_away_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [check] = await launcher_checks(monkeypatch, tmp_path, SetupError("no engine", remedy="Start Docker."))
    assert_told(check, FAIL, "no engine", "Start Docker.")


async def test_process_launcher_warns_that_it_is_for_development(tmp_path: Path) -> None:
    found = [check async for check in doctor._launcher(CONFIG, Home(tmp_path))]
    assert_told(found[0], WARN, "without isolation", "Install and start Docker.")


# ALL OF IT


async def test_examine_without_settings_stops_there_and_tells_of_init(tmp_path: Path) -> None:
    found = [check async for check in examine(Home(tmp_path))]
    assert [check.id for check in found] == ["python", "cgroups", "disk", "settings"]
    assert_told(found[-1], FAIL, "worker.toml", "millpond-worker init")


async def test_examine_goes_on_from_what_is_wrong_in_the_order_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> Any:
        return
        yield

    monkeypatch.setattr(doctor_chain, "chain_checks", nothing)
    home = Home(tmp_path)
    save_config(changed(uuids=("GPU-gone",)), home.config)
    found = [check async for check in examine(home)]
    assert [check.id for check in found if not check.id.startswith("launcher ")] == [
        "python", "cgroups", "disk", "settings", "key", "launcher", "devices",
    ]  # fmt: skip
    assert [check.id for check in found if check.level == FAIL] == ["devices"]


async def test_every_finding_that_is_not_good_has_a_remedy(tmp_path: Path) -> None:
    """The RPC of the settings answers nobody."""
    home = Home(tmp_path)
    save_config(changed(key=KeyConfig(keystore="none.json"), uuids=("GPU-gone",)), home.config)
    found = [check async for check in examine(home)]
    assert {check.id for check in found if check.level == FAIL} == {"key", "launcher", "devices", "rpc"}
    assert [check for check in found if check.level != OK and not check.remedy] == []
