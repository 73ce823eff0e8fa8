"""`run`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from millpond.cli._show import json_option, show_json, wallet_option
from millpond.client import Client
from millpond.errors import InputError
from millpond.protocol.messages import TaskResult
from millpond.protocol.units import format_amount, parse_duration, parse_price
from millpond.vgpu import Vgpu


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
    pairs = dict(_pair(item, "--file") for item in files)
    with Client(wallet=wallet) as client:
        decimals = client.pool.token_decimals
        seconds = parse_duration(duration)
        highest = None if price is None else parse_price(price, decimals)
        quote = client.quote(Vgpu.parse(wanted), duration=seconds, price=highest)
        _confirm(client, quote, yes or as_json)
        inputs = {name: client.store_path(Path(path)) for name, path in pairs.items()}
        with client.rent(Vgpu.parse(wanted), duration=seconds, price=highest) as leases:
            result = leases.command(
                command,
                image=image,
                inputs=inputs,
                env=dict(_pair(item, "--env") for item in env),
                time_limit_s=parse_duration(time_limit),
            )
            _print_log(client, result)
            if out is not None and result.signed is not None and result.signed.output_cid:
                client.fetch_path(result.signed.output_cid, out)
        settlement = leases.settlements[0]
        cost = settlement.paid + settlement.fee + settlement.burnt
        symbol = client.pool.token_symbol
    if as_json:
        show_json({"result": result, "settlement": settlement})
    else:
        click.echo(
            f"cost {format_amount(cost, decimals)} {symbol}, refunded {format_amount(settlement.refunded, decimals)}",
            err=True,
        )
    leases.raise_for(result)


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


def _print_log(client: Client, result: TaskResult) -> None:
    if result.signed is not None and result.signed.log_cid:
        sys.stdout.flush()
        sys.stdout.buffer.write(client.fetch(result.signed.log_cid))
        sys.stdout.buffer.flush()
