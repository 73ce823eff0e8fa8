"""`lease ls`, `lease close`, `lease top`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, plain, show_json, show_settlement, table, wallet_option
from millpond.cli._top import COLUMNS, Row, cells_of, row_of
from millpond.protocol.ids import Bytes32, bytes32
from millpond.protocol.units import format_amount
from millpond.protocol.usage import LeaseUsage
from millpond.protocol.views import LeaseState

if TYPE_CHECKING:
    from millpond.client import Client

ENDED = (LeaseState.CLOSING, LeaseState.CLOSED)


@click.group("lease")
def lease_command() -> None:
    """List, watch and close leases."""


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
        left = f"{max(0, view.deadline - now)} s" if view.deadline is not None else ""
        rows.append(
            (
                view.lease,
                view.state,
                offer.share,
                offer.memoryMiB,
                left,
                view.next,
                format_amount(view.voucher, pool.token_decimals),
                view.message,
            )
        )
    table("leases", ("lease", "state", "share ‰", "MiB", "left", "then", f"paid {pool.token_symbol}", "message"), rows)


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


@lease_command.command("top")
@click.argument("lease", required=False)
@click.option("--once", is_flag=True, help="Show it once, and end.")
@click.option(
    "--every", type=click.FloatRange(1, 3600), default=2.0, show_default=True, help="Seconds between drawings."
)
@wallet_option
@json_option
def lease_top(lease: str | None, once: bool, every: float, wallet: str | None, as_json: bool) -> None:
    """Show what the wallet's leases, or LEASE alone, use of their machines; until interrupted, or once with --once.

    With --json one document a line, or one in all with --once.
    """
    wanted = None if lease is None else bytes32(lease)
    with connect(wallet) as client:
        if once:
            rows = _usage_rows(client, wanted, {})
            if as_json:
                show_json([row.as_json() for row in rows])
            else:
                table("leases", COLUMNS, cells_of(rows))
            return
        _watch(client, wanted, every, as_json=as_json)


def _usage_rows(client: Client, wanted: Bytes32 | None, before: dict[Bytes32, LeaseUsage]) -> list[Row]:
    """Rows of the leases that live, or of the one wanted; `before` takes each newest measurement."""
    views = [view for view in client.leases() if view.lease == wanted or (wanted is None and view.state not in ENDED)]
    if wanted is not None and not views:
        client.usage(wanted)  # says why there is none
    rows = []
    for view in views:
        usage = client.usage(view.lease)
        rows.append(row_of(view, usage, before.get(view.lease)))
        if usage.now is not None and usage.now.at > (before[view.lease].at if view.lease in before else 0):
            before[view.lease] = usage.now
    return rows


def _watch(client: Client, wanted: Bytes32 | None, every: float, *, as_json: bool) -> None:
    before: dict[Bytes32, LeaseUsage] = {}
    try:
        while True:
            rows = _usage_rows(client, wanted, before)
            if as_json:
                click.echo(json.dumps(plain([row.as_json() for row in rows])))
            else:
                click.clear()
                table(f"leases at {time.strftime('%H:%M:%S')}", COLUMNS, cells_of(rows))
            time.sleep(every)
    except KeyboardInterrupt:
        return
