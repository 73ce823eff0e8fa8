"""`dev up`, `dev down`, `dev status`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli._show import json_option, show_json
from millpond.errors import ConfigError
from millpond.settings import home_folder

if TYPE_CHECKING:
    from millpond.dev.stack import StackConfig

DETACH_TIMEOUT_S = 240.0


class StackRunningError(ConfigError):
    remedy_text = "Stop it with `millpond dev down`, or use another MILLPOND_HOME."


@click.group("dev")
def dev_command() -> None:
    """A whole development stack on this machine."""


@dev_command.command("up")
@click.option("--workers", default=1, show_default=True, help="How many workers.")
@click.option("--launcher", type=click.Choice(["auto", "docker", "process"]), default="auto", show_default=True)
@click.option("--chain-port", default=8545, show_default=True, help="0 takes a free one.")
@click.option("--node-port", default=8440, show_default=True, help="0 takes a free one.")
@click.option("--reset", is_flag=True, help="Forget the chain, node and workers of earlier runs first.")
@click.option("--detach", "-d", is_flag=True, help="Return once all is ready; stop it with `millpond dev down`.")
def dev_up(workers: int, launcher: str, chain_port: int, node_port: int, reset: bool, detach: bool) -> None:
    """Start chain, node and workers, deploy what is missing, and keep them running. State is kept over restarts."""
    from millpond.dev.stack import StackConfig

    home = home_folder()
    _refuse_second(home)
    if reset:
        _forget(home)
    if detach:
        _detach(home, workers, launcher, chain_port, node_port)
        return
    config = StackConfig(home, workers, launcher, chain_port, node_port)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(config))


@dev_command.command("down")
def dev_down() -> None:
    """Stop a detached stack; its state stays."""
    home = home_folder()
    pid = _running_pid(home)
    if pid is None:
        click.echo("no stack is running")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while _running_pid(home) is not None and time.monotonic() < deadline:
        time.sleep(0.2)
    click.echo("stopped" if _running_pid(home) is None else f"process {pid} is still stopping")


@dev_command.command("status")
@json_option
def dev_status(as_json: bool) -> None:
    """Show whether a stack runs, and where its parts are."""
    from millpond.settings import load_network

    home = home_folder()
    pid = _running_pid(home)
    network = load_network(home)
    if as_json:
        show_json({"running": pid is not None, "pid": pid, "network": network, "home": str(home)})
        return
    click.echo(f"{'running, process ' + str(pid) if pid else 'not running'}; state in {home / 'dev'}")
    click.echo(f"chain {network.rpc_url}  node {network.node_url}  pool {network.controller}")


async def _serve(config: StackConfig) -> None:
    from millpond.dev.stack import DevStack

    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    for name in (signal.SIGTERM, signal.SIGINT):
        if me is not None:
            loop.add_signal_handler(name, me.cancel)
    pid_file = _pid_file(config.home)
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    pid_file.write_text(json.dumps({"pid": os.getpid()}))
    try:
        async with DevStack(config, click.echo) as stack:
            click.echo(f"ready      export MILLPOND_HOME={config.home}   (Ctrl-C stops)")
            sys.stdout.flush()
            await stack.watch()
    finally:
        pid_file.unlink(missing_ok=True)


def _detach(home: Path, workers: int, launcher: str, chain_port: int, node_port: int) -> None:
    log = home / "dev" / "logs" / "stack.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["dev", "up", "--workers", str(workers), "--launcher", launcher]
    arguments += ["--chain-port", str(chain_port), "--node-port", str(node_port)]
    with log.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "millpond", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if "\nready " in text or child.poll() is not None:
            click.echo(text.rstrip())
            break
        time.sleep(0.2)
    if child.poll() is not None:
        sys.exit(child.returncode)


def _forget(home: Path) -> None:
    import shutil

    folder = home / "dev"
    if folder.exists():
        shutil.rmtree(folder)
    shutil.rmtree(home / "outbox", ignore_errors=True)


def _refuse_second(home: Path) -> None:
    pid = _running_pid(home)
    if pid is not None:
        raise StackRunningError(f"a stack of {home} runs already as process {pid}", pid=pid)


def _running_pid(home: Path) -> int | None:
    try:
        pid = int(json.loads(_pid_file(home).read_text())["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid


def _pid_file(home: Path) -> Path:
    return home / "dev" / "stack.pid"
