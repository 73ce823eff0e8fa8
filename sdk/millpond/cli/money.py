"""`balance`, `fund`, `withdraw`."""

from __future__ import annotations

import time

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, show_json, wallet_option
from millpond.errors import InputError
from millpond.protocol.units import format_amount, parse_amount

MOST_DECIMALS = 36


def check_amount(text: str) -> None:
    """Refuses at once what is no amount of any token."""
    if parse_amount(text, MOST_DECIMALS) == 0:
        raise InputError("the amount is zero", remedy="Give an amount above zero, for example 20 or 0.5.")


@click.command("balance")
@wallet_option
@json_option
def balance_command(wallet: str | None, as_json: bool) -> None:
    """Show what the wallet and Escrow hold."""
    with connect(wallet) as client:
        funds, pool = client.funds(), client.pool
    if as_json:
        show_json({"address": client.address, "token": pool.token, "symbol": pool.token_symbol, "funds": funds})
        return
    symbol, decimals = pool.token_symbol, pool.token_decimals
    click.echo(f"{client.address} on chain {pool.chain_id}")
    for label, amount in (
        ("wallet", funds.wallet),
        ("Escrow, free", funds.free),
        ("Escrow, leaving", funds.noticed),
        ("Escrow, owed to you", funds.owed),
    ):
        click.echo(f"  {label:<20} {format_amount(amount, decimals):>16} {symbol}")
    click.echo(f"  {'gas':<20} {format_amount(funds.gas, 18):>16} ETH")


@click.command("fund")
@click.argument("amount")
@wallet_option
@json_option
def fund_command(amount: str, wallet: str | None, as_json: bool) -> None:
    """Move AMOUNT tokens from the wallet into Escrow."""
    check_amount(amount)
    with connect(wallet) as client:
        pool = client.pool
        funds = client.fund(parse_amount(amount, pool.token_decimals))
    if as_json:
        show_json({"funds": funds})
        return
    click.echo(
        f"Escrow now holds {format_amount(funds.free, pool.token_decimals)} {pool.token_symbol} of yours, free for leases."
    )


@click.command("withdraw")
@click.argument("amount", required=False)
@click.option("--to", "target", metavar="ADDRESS", help="Pay to another address than the wallet's own.")
@wallet_option
@json_option
def withdraw_command(amount: str | None, target: str | None, wallet: str | None, as_json: bool) -> None:
    """Take AMOUNT (default: everything free) out of Escrow.

    Free money leaves 15 minutes after notice: the first call gives the notice, a later one pays. What a lease owes you is paid at once.
    """
    if amount is not None:
        check_amount(amount)
    with connect(wallet) as client:
        pool = client.pool
        base_units = None if amount is None else parse_amount(amount, pool.token_decimals)
        outcome = client.withdraw(base_units, target)
    if as_json:
        show_json(outcome)
        return
    symbol, decimals = pool.token_symbol, pool.token_decimals
    if outcome.paid:
        click.echo(f"paid {format_amount(outcome.paid, decimals)} {symbol}")
    if outcome.noticed:
        left = max(0, outcome.ready_at - int(time.time()))
        click.echo(
            f"noticed {format_amount(outcome.noticed, decimals)} {symbol}: run the same command again in {(left + 59) // 60} min"
        )
    if not outcome.paid and not outcome.noticed:
        click.echo("nothing to withdraw")
