"""`why`."""

from __future__ import annotations

import time

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, show_json, wallet_option
from millpond.protocol.ids import bytes32
from millpond.protocol.views import RequestState


@click.command("why")
@click.argument("request")
@wallet_option
@json_option
def why_command(request: str, wallet: str | None, as_json: bool) -> None:
    """Tell why REQUEST waits: how many offers each filter removed, and what would help."""
    wanted = bytes32(request)
    with connect(wallet) as client:
        why = client.why(wanted)
    if as_json:
        show_json(why)
        return
    click.echo(f"{why.state}: {why.message}")
    click.echo(f"{why.considered} offers considered, {why.fitting} fit")
    for item in why.filters:
        if item.removed:
            click.echo(f"  {item.filter:<16} removed {item.removed:>4}   {item.remedy}")
    if why.nearest:
        click.echo(f"would fit with {' and '.join(change.text for change in why.nearest)}")
    if why.deadline is not None:
        click.echo(f"{why.next} in {max(0, why.deadline - int(time.time()))} s at the latest")
    if why.state == RequestState.QUEUED:
        click.echo(f"expected wait: {_wait(why.expected_wait_s)}")


def _wait(seconds: int | None) -> str:
    """What the ends of other leases say, and nothing else."""
    return "unknown" if seconds is None else "none" if not seconds else f"{seconds} s at most"
