"""What is asked of the Engine API, and what its answers about itself mean. Pure: no engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millpond_worker.launch.docker_check import findings_of, numbers, vulnerable_runtime
from millpond_worker.launch.docker_config import (
    EnvironmentNameError,
    ImageFacts,
    cold_config,
    environment,
    image_facts,
    limits_from,
    warm_config,
)
from millpond_worker.launch.port import ContainerSpec, Limits
from millpond_worker.launch.spool import Owner, Room

IMAGE = ImageFacts(
    "ab" * 32, ("PATH=/bin", "LD_PRELOAD=/evil.so", "PYTHONPATH=/x", "NVIDIA_VISIBLE_DEVICES=all"), ("/data",)
)
SPEC = ContainerSpec("lease-1", "0x1", "image:1", Limits(600, 512, 32, 64, 10, 99), task="t", attempt=3, env={"A": "b"})


def room() -> Room:
    return Room(Path("/state/lease-1"), Owner(700_001, 700_002, True))


def warm(**changes: Any) -> dict[str, Any]:
    import dataclasses

    return warm_config("worker-1", dataclasses.replace(SPEC, **changes), IMAGE, room(), Path("/state/runner"))


def test_warm_config_is_hardened() -> None:
    host = warm()["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Runtime"] == "runc"
    assert not host.get("Privileged")
    assert warm()["User"] == "700001:700002"
    assert warm()["Image"] == f"sha256:{'ab' * 32}"


def test_warm_config_carries_the_limits() -> None:
    host = warm()["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 512 << 20
    assert host["CpuQuota"] / host["CpuPeriod"] == 0.6
    assert host["PidsLimit"] == 99
    assert "size=32m" in host["Tmpfs"]["/tmp"]


def test_config_mounts_everything_but_out_read_only() -> None:
    mounts = {mount["Target"]: mount["ReadOnly"] for mount in warm()["HostConfig"]["Mounts"]}
    assert [target for target, is_read_only in mounts.items() if not is_read_only] == ["/out"]


def test_config_volumes_of_the_image_become_small_and_temporary() -> None:
    assert "size=1m" in warm()["HostConfig"]["Tmpfs"]["/data"]


def test_cold_config_has_no_runner_and_keeps_the_images_entry() -> None:
    config = cold_config("worker-1", SPEC, IMAGE, room(), ["sh"])
    assert config["Cmd"] == ["sh"]
    assert "Entrypoint" not in config
    assert {mount["Target"] for mount in config["HostConfig"]["Mounts"]} == {"/in", "/out"}
    assert "Cmd" not in cold_config("worker-1", SPEC, IMAGE, room(), [])


def test_labels_name_worker_lease_task_and_attempt_and_bring_limits_back() -> None:
    labels = cold_config("worker-1", SPEC, IMAGE, room(), [])["Labels"]
    found = {name: labels[f"millpond.{name}"] for name in ("worker", "kind", "lease", "task", "attempt")}
    assert found == {"worker": "worker-1", "kind": "cold", "lease": "lease-1", "task": "t", "attempt": "3"}
    assert limits_from(labels) == SPEC.limits


def test_S06_gpu_comes_by_cdi_only() -> None:
    assert "DeviceRequests" not in warm()["HostConfig"]
    requests = warm(gpus=("nvidia.com/gpu=GPU-1",))["HostConfig"]["DeviceRequests"]
    assert requests == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}]


def test_S05_environment_of_the_image_is_scrubbed() -> None:
    found = environment(SPEC, IMAGE)
    assert {"LD_PRELOAD", "PYTHONPATH", "NVIDIA_VISIBLE_DEVICES"} <= set(found)
    assert "A=b" in found
    assert not [entry for entry in found if entry.startswith(("LD_PRELOAD=", "PATH"))]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "NVIDIA_X", "PYTHONPATH", "MILLPOND_IN", "A=B", ""])
def test_environment_dangerous_name_is_refused(name: str) -> None:
    import dataclasses

    with pytest.raises(EnvironmentNameError) as caught:
        environment(dataclasses.replace(SPEC, env={name: "x"}), IMAGE)
    assert caught.value.fields["name"] == name


@pytest.mark.parametrize(("milli", "threads"), [(100, "1"), (1000, "1"), (1001, "2"), (4000, "4")])
def test_environment_threads_follow_the_cores(milli: int, threads: str) -> None:
    import dataclasses

    assert f"OMP_NUM_THREADS={threads}" in environment(dataclasses.replace(SPEC, limits=Limits(milli, 64)), IMAGE)


def test_image_facts_without_config_are_empty() -> None:
    assert image_facts({"Id": "sha256:" + "cd" * 32}) == ImageFacts("cd" * 32, (), ())


# CHECKS


def version(
    runc: str, commit: str = "", engine: str = "25.0.1", extra: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    components = [{"Name": "runc", "Version": runc, "Details": {"GitCommit": commit}}, *extra]
    return {"Version": engine, "Components": components}


GOOD = {
    "MemoryLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "SwapLimit": True,
    "SecurityOptions": ["name=seccomp"],
}


@pytest.mark.parametrize(
    ("text", "found"), [("1.1.12", (1, 1, 12)), ("v1.2", (1, 2, 0)), ("1.1.5+ds1", (1, 1, 5)), ("?", ())]
)
def test_numbers_of_a_version(text: str, found: tuple[int, ...]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize("runc", ["1.1.11", "1.0.0-rc95", "1.1.5+ds1"])
def test_S07_old_runc_is_vulnerable(runc: str) -> None:
    assert "CVE-2024-21626" in vulnerable_runtime(version(runc))


@pytest.mark.parametrize(("runc", "commit"), [("1.1.12", ""), ("1.3.0", ""), ("1.1.5+ds1", "1.1.5+ds1-1+deb12u1")])
def test_S07_new_or_patched_runc_is_not(runc: str, commit: str) -> None:
    assert vulnerable_runtime(version(runc, commit)) == ""


@pytest.mark.parametrize(("toolkit", "is_bad"), [("1.17.7", True), ("1.17.8", False)])
def test_S05_old_toolkit_is_vulnerable(toolkit: str, is_bad: bool) -> None:
    extra = ({"Name": "nvidia-container-toolkit", "Version": toolkit},)
    assert bool(vulnerable_runtime(version("1.2.0", extra=extra))) is is_bad


def test_findings_good_engine_has_only_ok() -> None:
    assert {finding.level for finding in findings_of(version("1.2.0"), GOOD)} == {"ok"}


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"PidsLimit": False}, "fail"),
        ({"SecurityOptions": []}, "fail"),
        ({"SwapLimit": False}, "warn"),
        ({"MemoryLimit": False}, "fail"),
    ],
)
def test_findings_missing_wall_is_found_with_a_remedy(change: dict[str, Any], level: str) -> None:
    found = [finding for finding in findings_of(version("1.2.0"), GOOD | change) if finding.level != "ok"]
    assert [finding.level for finding in found] == [level]
    assert found[0].remedy
