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
from millpond.errors import ConfigError, NodeError
from millpond.settings import home_folder

if TYPE_CHECKING:
    from millpond.dev.stack import StackConfig

DETACH_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0


class StackRunningError(ConfigError):
    remedy_text = "Stop it with `millpond dev down`, or use another MILLPOND_HOME."


class StackSlowError(NodeError):
    remedy_text = "Read the log files below MILLPOND_HOME/dev/logs, and try again when the machine is less busy."


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
@json_option
def dev_up(
    workers: int, launcher: str, chain_port: int, node_port: int, reset: bool, detach: bool, as_json: bool
) -> None:
    """Start chain, node and workers, deploy what is missing, and keep them running. State is kept over restarts."""
    from millpond.dev.stack import StackConfig

    home = home_folder()
    _refuse_second(home)
    if reset:
        _forget(home)
    if detach:
        _detach(home, workers, launcher, chain_port, node_port, is_quiet=as_json)
        if as_json:
            _show_status(home)
        return
    config = StackConfig(home, workers, launcher, chain_port, node_port)
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(config, as_json))


@dev_command.command("down")
@json_option
def dev_down(as_json: bool) -> None:
    """Stop a detached stack; its state stays."""
    home = home_folder()
    pid = _running_pid(home)
    if pid is not None:
        _stop(home, pid)
    if as_json:
        show_json({"was_running": pid is not None})
    else:
        click.echo("no stack is running" if pid is None else "stopped")


def _stop(home: Path, pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _running_pid(home) == pid:
        if time.monotonic() > deadline:
            raise StackRunningError(f"process {pid} is still stopping after {STOP_TIMEOUT_S:g} s", pid=pid)
        time.sleep(0.1)


@dev_command.command("status")
@json_option
def dev_status(as_json: bool) -> None:
    """Show whether a stack runs, and where its parts are."""
    from millpond.settings import load_network

    home = home_folder()
    if as_json:
        _show_status(home)
        return
    pid, network = _running_pid(home), load_network(home)
    click.echo(f"{'running, process ' + str(pid) if pid else 'not running'}; state in {home / 'dev'}")
    click.echo(f"chain {network.rpc_url}  node {network.node_url}  pool {network.controller}")


def _show_status(home: Path) -> None:
    from millpond.settings import load_network

    pid = _running_pid(home)
    show_json({"running": pid is not None, "pid": pid, "network": load_network(home), "home": str(home)})


async def _serve(config: StackConfig, as_json: bool) -> None:
    from millpond.dev.stack import DevStack

    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    for name in (signal.SIGTERM, signal.SIGINT):
        if me is not None:
            loop.add_signal_handler(name, me.cancel)
    pid_file = _pid_file(config.home)
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    pid_file.write_text(json.dumps({"pid": os.getpid()}))
    try:
        async with DevStack(config, _say_to_stderr if as_json else click.echo) as stack:
            if as_json:
                _show_status(config.home)
            else:
                _say_ready(config.home)
            sys.stdout.flush()
            await stack.watch()
    finally:
        pid_file.unlink(missing_ok=True)


def _say_to_stderr(line: str) -> None:
    click.echo(line, err=True)


def _say_ready(home: Path) -> None:
    """Without a terminal nobody can press Ctrl-C: a detached stack is stopped by command."""
    how = "Ctrl-C stops it" if sys.stdin.isatty() else "`millpond dev down` stops it"
    click.echo(f"ready      export MILLPOND_HOME={home}   ({how})")


def _detach(home: Path, workers: int, launcher: str, chain_port: int, node_port: int, *, is_quiet: bool) -> None:
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
    try:
        text = _wait_ready(child, log)
    except BaseException:
        child.terminate()
        raise
    click.echo(text.rstrip(), err=is_quiet or child.returncode is not None)
    if child.returncode is not None:
        sys.exit(child.returncode or 1)


def _wait_ready(child: subprocess.Popen[bytes], log: Path) -> str:
    """What the stack said until it was ready, or ended."""
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    while True:
        has_ended, text = child.poll() is not None, log.read_text(errors="replace")
        if has_ended or "\nready " in text:
            return text
        if time.monotonic() > deadline:
            raise StackSlowError(f"the stack is not ready after {DETACH_TIMEOUT_S:g} s; {log} ends:\n{text[-500:]}")
        time.sleep(0.1)


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
