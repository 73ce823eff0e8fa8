"""`run`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli._connect import connect
from millpond.cli._live import LivePrinter
from millpond.cli._show import json_option, show_json, wallet_option
from millpond.errors import InputError, LogMissingError
from millpond.protocol.messages import TaskResult
from millpond.protocol.units import format_amount, parse_duration, parse_price
from millpond.vgpu import Vgpu

if TYPE_CHECKING:
    from millpond.client import Client


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
@click.option("--duration", default="10m", show_default=True, help="Longest lease.")
@click.option("--time-limit", default="5m", show_default=True, help="Longest run of the command.")
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
    duration: str,
    time_limit: str,
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
    vgpu, seconds, limit_s = Vgpu.parse(wanted), parse_duration(duration), parse_duration(time_limit)
    paths, variables = _paths(files), dict(_pair(item, "--env") for item in env)
    with connect(wallet) as client, _ending_with_terminate():
        decimals, symbol = client.pool.token_decimals, client.pool.token_symbol
        highest = None if price is None else parse_price(price, decimals)
        _confirm(client, client.quote(vgpu, duration=seconds, price=highest), yes or as_json)
        with client.rent(vgpu, duration=seconds, price=highest) as leases, LivePrinter() as printer:
            click.echo(f"lease {next(iter(leases)).id}", err=True)
            on_log = None if as_json else printer.show
            try:
                inputs = {name: client.store_path(path) for name, path in paths.items()}
                result = leases.command(
                    command, image=image, inputs=inputs, env=variables, time_limit_s=limit_s, on_log=on_log
                )
            except KeyboardInterrupt:
                click.echo("interrupted; closing the lease", err=True)
                raise
            log = _log(client, result)
            if not as_json:
                printer.finish(log)
            if out is not None and result.signed is not None and result.signed.output_cid:
                client.fetch_path(result.signed.output_cid, out)
        settlement = leases.settlements[0]
    if as_json:
        show_json({"result": result, "log": log.decode(errors="replace"), "settlement": settlement})
    else:
        cost = settlement.paid + settlement.fee + settlement.burnt
        click.echo(f"job   {result.job}\ntask  {result.task}", err=True)
        click.echo(
            f"cost  {format_amount(cost, decimals)} {symbol}, refunded {format_amount(settlement.refunded, decimals)}",
            err=True,
        )
    leases.raise_for(result)


@contextmanager
def _ending_with_terminate() -> Iterator[None]:
    """A polite kill closes the lease just as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
