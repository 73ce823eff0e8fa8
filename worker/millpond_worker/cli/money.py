"""`millpond-worker earnings` and `withdraw`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from millpond.protocol.errors import ChainError
from millpond_worker import control
from millpond_worker.cli.shared import home_of, home_option, json_option, show_json, table
from millpond_worker.home import Home, HomeLock, is_running

WITHDRAW_S = 120.0


@click.command("earnings", help="What was earned: in leases by the vouchers kept, owed in Escrow, withdrawn.")
@home_option
@json_option
def earnings_command(folder: str | None, as_json: bool) -> None:
    asyncio.run(_earnings(home_of(folder), as_json=as_json))


async def _earnings(home: Home, *, as_json: bool) -> None:
    from millpond.chain.address_book import AddressBook
    from millpond.chain.eth import Eth
    from millpond.chain.rpc import Rpc
    from millpond.protocol.units import format_amount
    from millpond_worker.config import load_config
    from millpond_worker.earnings import kept_leases, read_earnings
    from millpond_worker.standing import open_contracts

    config = load_config(home)
    kept = kept_leases(home)
    async with Rpc(config.rpc_url, chain_id=config.chain_id) as rpc:
        found = await open_contracts(Eth(rpc), config.controller)
        book = AddressBook.load(home.path(config.addresses))
        earned = await read_earnings(found, book, config.provider, kept)
    leases = [
        {"lease": item.lease, "state": item.state, "voucher": str(item.voucher), "collected": str(item.collected)}
        for item in earned.leases
    ]
    totals = {"in_leases": earned.in_leases, "owed": earned.owed, "withdrawn": earned.withdrawn}
    if as_json:
        amounts = {name: str(value) for name, value in totals.items()}
        show_json(
            {
                "token": found.params.token,
                "symbol": found.symbol,
                "decimals": found.decimals,
                "payout": earned.payout,
                **amounts,
                "leases": leases,
            }
        )
        return
    click.echo(f"payout {earned.payout}")
    for name, value in totals.items():
        click.echo(
            f"  {name.replace('_', ' '):<10} {format_amount(value, found.decimals, found.decimals)} {found.symbol}"
        )
    if leases:
        rows = [
            (item.lease, item.state, *(format_amount(sum_, found.decimals) for sum_ in (item.voucher, item.collected)))
            for item in earned.leases
        ]
        table(("lease", "state", f"voucher {found.symbol}", "collected"), rows)


@click.command("withdraw", help="Pay what Escrow owes to the payout address.")
@home_option
@json_option
def withdraw_command(folder: str | None, as_json: bool) -> None:
    home = home_of(folder)
    if is_running(home):
        sent: dict[str, Any] = control.ask(home, "withdraw", WITHDRAW_S)
    else:
        with HomeLock(home):
            sent = asyncio.run(_withdraw(home))
    if "error" in sent:
        raise ChainError(sent["message"], remedy=sent["remedy"], **sent.get("fields", {}))
    if as_json:
        show_json(sent)
    else:
        from millpond.protocol.units import format_amount

        amount = format_amount(int(sent["amount"]), sent["decimals"], sent["decimals"])
        click.echo(f"paid {amount} {sent['symbol']} to {sent['payout']} in {sent['tx']} ({sent['gas_used']} gas)")


async def _withdraw(home: Home) -> dict[str, Any]:
    from millpond_worker.assemble import open_chain
    from millpond_worker.config import load_config

    config = load_config(home)
    chain = open_chain(config, home)
    try:
        return (await chain.withdraw(config.provider)).as_dict()
    finally:
        await chain.close()
