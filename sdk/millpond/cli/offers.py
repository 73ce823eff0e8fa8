"""`offers`."""

from __future__ import annotations

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, show_json, table, wallet_option
from millpond.protocol.units import format_amount

MODES = ("cpu", "timeslice", "mps", "mig", "remote", "whole")


@click.command("offers")
@wallet_option
@json_option
def offers_command(wallet: str | None, as_json: bool) -> None:
    """List what can be rented now, cheapest first."""
    with connect(wallet) as client:
        views, pool = client.offers(), client.pool
    views = sorted(views, key=lambda view: (view.price, view.hash))
    if as_json:
        show_json(views)
        return
    if not views:
        click.echo("no offers: no worker of this pool is online")
        return
    rows = []
    for view in views:
        offer = view.signed.offer
        state = "offline" if not view.is_online else "free" if view.is_free else "taken"
        price = format_amount(view.price * 3600, pool.token_decimals)
        mode = MODES[offer.mode] if offer.mode < len(MODES) else str(offer.mode)
        rows.append(
            (
                view.device.name,
                view.device.kind,
                mode,
                offer.isolation,
                offer.share,
                offer.memoryMiB,
                price,
                "-" if view.score is None else view.score,
                "-" if view.proof_age_s is None else f"{view.proof_age_s} s",
                state,
                view.launcher,
            )
        )
    columns = (
        "device",
        "kind",
        "mode",
        "class",
        "share ‰",
        "MiB",
        f"{pool.token_symbol}/h",
        "score",
        "proof",
        "state",
        "launcher",
    )
    table(f"offers of pool {pool.controller}", columns, rows)
    if all(view.score is None and view.proof_age_s is None for view in views):
        click.echo("score and age of proof are unknown: this pool keeps no reputation and measures no devices yet")
