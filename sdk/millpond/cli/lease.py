"""`lease ls`, `lease close`."""

from __future__ import annotations

import time

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, show_json, show_settlement, table, wallet_option
from millpond.protocol.ids import bytes32
from millpond.protocol.units import format_amount
from millpond.protocol.views import LeaseState

ENDED = (LeaseState.CLOSING, LeaseState.CLOSED)


@click.group("lease")
def lease_command() -> None:
    """List and close leases."""


@lease_command.command("ls")
@click.option("--all", "show_all", is_flag=True, help="Closed ones too.")
@wallet_option
@json_option
def lease_ls(show_all: bool, wallet: str | None, as_json: bool) -> None:
    """List the wallet's leases."""
    with connect(wallet) as client:
        pool = client.pool
        views = [view for view in client.leases() if show_all or view.state != LeaseState.CLOSED]
    if as_json:
        show_json(views)
        return
    if not views:
        click.echo("no leases")
        return
    now, rows = int(time.time()), []
    for view in views:
        offer = view.offer.offer
        left = f"{max(0, view.ends_at - now)} s" if view.ends_at and view.state not in ENDED else ""
        rows.append(
            (
                view.lease,
                view.state,
                offer.share,
                offer.memoryMiB,
                left,
                format_amount(view.voucher, pool.token_decimals),
                view.message,
            )
        )
    table("leases", ("lease", "state", "share ‰", "MiB", "left", f"paid {pool.token_symbol}", "message"), rows)


@lease_command.command("close")
@click.argument("lease")
@wallet_option
@json_option
def lease_close(lease: str, wallet: str | None, as_json: bool) -> None:
    """Pay the last second of LEASE, close it, and wait for its settlement."""
    wanted = bytes32(lease)
    with connect(wallet) as client:
        pool = client.pool
        settlement = client.close_lease(wanted)
    show_settlement(settlement, pool, as_json=as_json)
