"""`millpond-worker status` and `drain`: talk to the running worker."""

from __future__ import annotations

import time
from typing import Any

import click

from millpond_worker import control
from millpond_worker.cli.shared import home_of, home_option, json_option, show_json, table
from millpond_worker.errors import WorkerNotRunningError
from millpond_worker.home import Home, is_running, read_json

ASK_S = 15.0
POLL_S = 0.5


OVER = ("clean",)


@click.command("status", help="What the running worker does: leases, tasks, offers, stake, connection.")
@home_option
@json_option
@click.option("--all", "is_all", is_flag=True, help="Ended leases too; --json always has them.")
def status_command(folder: str | None, as_json: bool, is_all: bool) -> None:
    home = home_of(folder)
    status = running_status(home)
    if as_json:
        show_json(status)
        return
    node = (
        "connected to its node" if status["is_connected"] else f"not connected: {status['last_error'] or 'no node yet'}"
    )
    click.echo(
        f"worker {status['worker']} ({status['launcher']}), {node}{', draining' if status['is_draining'] else ''}"
    )
    if status["warning"]:
        click.echo(f"warning: {status['warning']}")
    for device in status["devices"]:
        click.echo(f"device {device['name']}, free {device['free_share']} per mille, {device['free_memory_mib']} MiB")
    _show_stake(status)
    tasks = ", ".join(f"{count} {name}" for name, count in status["tasks"].items() if count) or "none"
    click.echo(f"tasks: {tasks}; offers: {len(status['offers'])}; reports waiting: {status['reports_waiting']}")
    _show_policy(status)
    _show_leases(status, is_all=is_all)


def _show_policy(status: dict[str, Any]) -> None:
    """Prices offered now, the hours, and what is on its way to the chain. Status files of older workers have no policy."""
    policy = status.get("policy")
    if policy is None:
        return
    for offer in status["offers"]:
        price = _amount(status, int(offer["price_per_second"]) * 3600)
        click.echo(
            f"offer {offer['share']} per mille, {offer['memory_mib']} MiB at {price}/h, until {_when(offer['deadline'])}"
        )
    if policy["next_change"]:
        click.echo(
            f"new leases: {'accepted until' if policy['is_open'] else 'not before'} {_when(policy['next_change'])}"
        )
    if policy["cancelling"]:
        click.echo("cheaper offers signed before are being cancelled on chain")
    if status["needs_restart"]:
        click.echo(f"changed in worker.toml, taken up at the next start: {', '.join(status['needs_restart'])}")


def _when(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def _show_stake(status: dict[str, Any]) -> None:
    from millpond_worker.stake import STAKE_REMEDY

    stake = status["stake"]
    if stake is None:
        return
    left, dearest = int(stake["left"]), int(stake["dearest_lease"])
    click.echo(
        f"stake left for new leases: {_amount(status, left)}; the dearest lease takes {_amount(status, dearest)}"
    )
    if left < dearest:
        click.echo(f"warning: too little stake is left: {STAKE_REMEDY}")


def _show_leases(status: dict[str, Any], *, is_all: bool) -> None:
    shown = [item for item in status["leases"] if is_all or item["state"] not in OVER]
    if shown:
        columns = ("lease", "state", "share", "MiB", "voucher", "unpaid s", "renter")
        table(columns, [_lease_row(status, item) for item in shown])
    hidden = len(status["leases"]) - len(shown)
    if hidden:
        click.echo(
            f"{hidden} ended {'lease' if hidden == 1 else 'leases'}: --all shows {'it' if hidden == 1 else 'them'}"
        )


def _lease_row(status: dict[str, Any], item: dict[str, Any]) -> tuple[Any, ...]:
    voucher = _amount(status, int(item["voucher"]))
    return (
        item["lease"],
        item["state"],
        item["share"],
        item["memory_mib"],
        voucher,
        item["unpaid_seconds"],
        item["renter"],
    )


def _amount(status: dict[str, Any], value: int) -> str:
    from millpond.protocol.units import format_amount

    return f"{format_amount(value, status['token']['decimals'])} {status['token']['symbol']}"


@click.command("drain", help="Take no new leases; the worker ends when the last one has.")
@home_option
@json_option
@click.option("--wait/--no-wait", default=True, help="Wait until the worker has ended (default).")
@click.option("--timeout", "timeout_s", default=0.0, metavar="SECONDS", help="Wait at most so long; 0 for ever.")
def drain_command(folder: str | None, as_json: bool, wait: bool, timeout_s: float) -> None:
    home = home_of(folder)
    running_status(home)
    answer = control.ask(home, "drain", ASK_S)
    is_over = _wait(home, timeout_s, as_json=as_json) if wait else False
    if as_json:
        show_json({**answer, "has_ended": is_over})
    else:
        click.echo("drained" if is_over else f"draining: {answer.get('leases', 0)} leases still run")


def running_status(home: Home) -> dict[str, Any]:
    """Raises `WorkerNotRunningError`."""
    status = read_json(home.status)
    if not is_running(home) or not isinstance(status, dict):
        raise WorkerNotRunningError(f"no worker runs in {home.folder}", home=str(home.folder))
    return status


def _wait(home: Home, timeout_s: float, *, as_json: bool) -> bool:
    began, shown = time.monotonic(), -1
    while is_running(home):
        status = read_json(home.status) or {}
        live = sum(item["state"] in ("preparing", "starting", "ready", "unpaid") for item in status.get("leases", []))
        if live != shown and not as_json:
            click.echo(f"waiting for {live} leases")
            shown = live
        if timeout_s and time.monotonic() - began > timeout_s:
            return False
        time.sleep(POLL_S)
    return True
