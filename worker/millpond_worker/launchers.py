"""Which launcher runs the renters' code: docker where an engine is reachable, else, when told `auto`, processes with a warning."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.hashing import sha256
from millpond.protocol.ids import Address
from millpond_worker.config import WorkerConfig
from millpond_worker.errors import SetupError
from millpond_worker.home import Home
from millpond_worker.launch.port import Finding, Launcher


@dataclass(frozen=True, slots=True)
class Chosen:
    """The launcher, and what a person must hear about the choice. `allow_renters` is None where any renter is served."""

    launcher: Launcher
    allow_renters: frozenset[Address] | None
    warning: str = ""


async def choose_launcher(config: WorkerConfig, home: Home, operator: Address) -> Chosen:
    """Raises `SetupError` when docker was asked for and cannot be used."""
    if config.launcher == "process":
        return _process(config, home, operator, "")
    docker = open_docker(config, home, operator)
    failed = [finding for finding in await docker.check() if finding.level == "fail"]
    if not failed:
        return Chosen(docker, config.allow_renters or None)
    await docker.close()
    if config.launcher == "docker":
        raise SetupError(
            f"the docker launcher cannot be used: {failed[0].message}", remedy=failed[0].remedy, findings=_plain(failed)
        )
    return _process(config, home, operator, failed[0].message)


def open_docker(config: WorkerConfig, home: Home, operator: Address) -> Launcher:
    from millpond_worker.launch.docker import DockerLauncher

    return DockerLauncher(_label(home, operator), home.folder, is_old_runtime_allowed=config.allow_old_runtime)


def _process(config: WorkerConfig, home: Home, operator: Address, reason: str) -> Chosen:
    from millpond_worker.launch.process import ProcessLauncher

    launcher = ProcessLauncher(_label(home, operator), home.folder, allowed_renters=config.allow_renters)
    because = f"docker cannot be used ({reason}); " if reason else ""
    served = (
        f"it serves {len(config.allow_renters)} renters by name"
        if config.allow_renters
        else "it serves nobody, since allow_renters is empty"
    )
    warning = f"{because}the process launcher runs tasks without isolation, for development only: {served}"
    return Chosen(launcher, config.allow_renters, warning)


def _label(home: Home, operator: Address) -> str:
    """Marks this worker's containers: two homes with one key, as on two development chains, must not take each other's for leftovers."""
    return sha256(f"{operator} {home.folder.resolve()}".encode()).hex()[:12]


def _plain(findings: list[Finding]) -> list[str]:
    return [f"{finding.subject}: {finding.message}" for finding in findings]
