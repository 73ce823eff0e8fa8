"""A container that prints much, one line per write: nothing of it is lost between the engine and the attempt's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond_worker.agent.logs import AttemptLog
from millpond_worker.launch.docker import DockerLauncher
from millpond_worker.launch.port import ContainerSpec, Limits

LINES = 200_000


@pytest.mark.docker
async def test_two_hundred_thousand_lines_arrive_whole(tmp_path: Path) -> None:
    launcher = DockerLauncher("logs", tmp_path)
    if any(finding.level == "fail" for finding in await launcher.check()):
        pytest.skip("no Docker engine that may be used")
    kept = AttemptLog()
    spec = ContainerSpec("lease-of-logs", "0x0", "millpond-task:1", Limits(2000, 256), task="t", attempt=1)
    try:
        command = ["python3", "-u", "-c", f"for i in range({LINES}): print('line', i)"]
        outcome = await launcher.run_cold(spec, command, 50.0, kept.add)
    finally:
        await launcher.wipe(spec.lease)
        await launcher.close()
    assert kept.bytes(outcome.log_bytes) == b"".join(b"line %d\n" % i for i in range(LINES))
