"""`run`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli._connect import connect
from millpond.cli._live import LivePrinter
from millpond.cli._show import json_option, show_json, wallet_option
from millpond.cli._terminate import ending_with_terminate
from millpond.errors import InputError, LogMissingError
from millpond.protocol.messages import TaskResult
from millpond.protocol.units import format_amount, parse_duration, parse_price
from millpond.vgpu import Vgpu

if TYPE_CHECKING:
    from millpond._leaseset import LeaseSet
    from millpond.client import Client
    from millpond.protocol.views import Why

DURATION_S = 600
TIME_LIMIT_S = 300
MARGIN_S = 600
"""How much longer than it is paid ahead a detached lease may last: the time to come back in."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to run. `files` by their names under /in."""

    command: Sequence[str]
    image: str
    files: dict[str, Path]
    env: dict[str, str]
    limit_s: float

    def store(self, client: Client) -> dict[str, str]:
        """Puts the files into the node's store; their CIDs."""
        return {name: client.store_path(path) for name, path in self.files.items()}


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--image", default="", help="Container image; the pool's task image by default.")
@click.option(
    "--vgpu", "wanted", default="250", show_default=True, metavar="SHARE[:MEMORY]", help="For example 500:1GiB."
)
@click.option(
    "--file", "files", multiple=True, metavar="NAME=PATH", help="A file or folder to appear as /in/NAME; repeatable."
)
@click.option("--env", "env", multiple=True, metavar="NAME=VALUE", help="Environment of the command; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to put what the command leaves in /out.")
@click.option("--duration", help="Longest lease.  [default: 10m, or 10m more than --detach]")
@click.option("--time-limit", help="Longest run of the command.  [default: 5m, or what --detach says]")
@click.option(
    "--detach",
    metavar="DURATION",
    help="Do not wait: leave the node the vouchers for this long, while the command runs.",
)
@click.option("--price", metavar="AMOUNT[/h]", help="Highest price; the cheapest fitting offer's by default.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before spending.")
@wallet_option
@json_option
def run_command(
    command: tuple[str, ...],
    image: str,
    wanted: str,
    files: tuple[str, ...],
    env: tuple[str, ...],
    out: Path | None,
    duration: str | None,
    time_limit: str | None,
    detach: str | None,
    price: str | None,
    yes: bool,
    wallet: str | None,
    as_json: bool,
) -> None:
    """Rent a vGPU, run COMMAND in a container there, print what it prints, fetch /out, close the lease.

    Write -- before a command with options of its own:  millpond run --vgpu 500:1GiB -- python3 -c 'print(1)'
    """
    if out is not None and out.exists():
        raise InputError(f"{out} exists already", remedy="Give a folder that does not exist yet.")
    vgpu, ahead_s = Vgpu.parse(wanted), 0 if detach is None else parse_duration(detach)
    seconds = parse_duration(duration) if duration else ahead_s + MARGIN_S if ahead_s else DURATION_S
    _check_detach(ahead_s, seconds, out)
    limit_s = parse_duration(time_limit) if time_limit else ahead_s or TIME_LIMIT_S
    order = _Order(command, image, _paths(files), dict(_pair(item, "--env") for item in env), limit_s)
    with connect(wallet) as client, ending_with_terminate():
        highest = None if price is None else parse_price(price, client.pool.token_decimals)
        _confirm(client, client.quote(vgpu, duration=seconds, price=highest), yes or as_json)
        with client.rent(vgpu, duration=seconds, price=highest, on_wait=_show_wait) as leases:
            if ahead_s:
                _leave(client, leases, order, ahead_s, as_json=as_json)
                return
            result, log = _attend(client, leases, order, out, as_json=as_json)
        settlement, pool = leases.settlements[0], client.pool
    if as_json:
        show_json({"result": result, "log": log.decode(errors="replace"), "settlement": settlement})
    else:
        cost, refunded = settlement.paid + settlement.fee + settlement.burnt, settlement.refunded
        shown = [format_amount(amount, pool.token_decimals) for amount in (cost, refunded)]
        click.echo(f"job   {result.job}\ntask  {result.task}", err=True)
        click.echo(f"cost  {shown[0]} {pool.token_symbol}, refunded {shown[1]}", err=True)
    leases.raise_for(result)


def _attend(
    client: Client, leases: LeaseSet, order: _Order, out: Path | None, *, as_json: bool
) -> tuple[TaskResult, bytes]:
    """Runs the command, shows what it writes, and fetches what it leaves; the result and all it wrote."""
    click.echo(f"lease {next(iter(leases)).id}", err=True)
    with LivePrinter() as printer:
        try:
            result = leases.command(
                order.command,
                image=order.image,
                inputs=order.store(client),
                env=order.env,
                time_limit_s=order.limit_s,
                on_log=None if as_json else printer.show,
            )
        except KeyboardInterrupt:
            click.echo("interrupted; closing the lease", err=True)
            raise
        log = _log(client, result)
        if not as_json:
            printer.finish(log)
    if out is not None and result.signed is not None and result.signed.output_cid:
        client.fetch_path(result.signed.output_cid, out)
    return result, log


def _leave(client: Client, leases: LeaseSet, order: _Order, ahead_s: int, *, as_json: bool) -> None:
    """Submits the command, leaves the vouchers with the node, and says how to come back."""
    lease = next(iter(leases)).id
    handle = leases.spawn_command(
        order.command, image=order.image, inputs=order.store(client), env=order.env, time_limit_s=order.limit_s
    )
    most, until = leases.detach(ahead_s), int(time.time()) + ahead_s
    if as_json:
        ids = {"lease": lease, "job": handle.job, "task": handle.task, "handle": handle.id}
        show_json({**ids, "paid_ahead": most, "until": until})
        return
    amount = f"{format_amount(most, client.pool.token_decimals)} {client.pool.token_symbol}"
    click.echo(f"lease {lease}\njob   {handle.job}\ntask  {handle.task}")
    click.echo(f"paid  {amount} at most: while it runs, until {time.strftime('%H:%M:%S', time.localtime(until))}")
    click.echo("come back with", err=True)
    click.echo(f"  millpond results {handle.job} --follow --log", err=True)
    click.echo(f"  millpond attach {lease} --job {handle.job}", err=True)
    click.echo(f"  millpond lease close {lease}", err=True)


def _show_wait(why: Why) -> None:
    click.echo(f"waits {why.message}\n      millpond why {why.request} tells more", err=True)


def _check_detach(ahead_s: int, seconds: int, out: Path | None) -> None:
    if ahead_s > seconds:
        raise InputError(
            f"--detach {ahead_s} s is longer than the lease of {seconds} s", remedy="Give a longer --duration, or none."
        )
    if ahead_s and out is not None:
        raise InputError(
            "--out is of a command that is waited for", remedy="Fetch it later: millpond results JOB --out FOLDER."
        )


def _paths(files: Sequence[str]) -> dict[str, Path]:
    paths = {name: Path(path) for name, path in (_pair(item, "--file") for item in files)}
    for path in paths.values():
        if not path.exists():
            raise InputError(f"--file: {path} does not exist", remedy="Give a file or folder of this machine.")
    return paths


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"{option} {text!r} is not NAME=VALUE", remedy=f"Write {option} NAME=VALUE.")
    return name, value


def _confirm(client: Client, most: int, is_agreed: bool) -> None:
    text = f"{format_amount(most, client.pool.token_decimals)} {client.pool.token_symbol}"
    if is_agreed or not sys.stdin.isatty():
        click.echo(f"costs at most {text}", err=True)
        return
    click.confirm(f"This costs at most {text}. Go on?", abort=True, err=True)


def _log(client: Client, result: TaskResult) -> bytes:
    """A log that is lost does not make a task fail that succeeded."""
    try:
        return client.log(result)
    except LogMissingError as error:
        click.echo(f"warning: {error.message}", err=True)
        return b""
