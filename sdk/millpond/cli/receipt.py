"""`receipt get`, `receipt verify`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from millpond.cli._show import json_option, show_json, wallet_option
from millpond.errors import InputError
from millpond.protocol.ids import bytes32
from millpond.settings import home_folder, load_network

MAX_BUNDLE_BYTES = 1 << 20


@click.group("receipt")
def receipt_command() -> None:
    """Fetch and verify receipts of tasks."""


@receipt_command.command("get")
@click.argument("task")
@click.option("--attempt", default=1, show_default=True)
@wallet_option
@json_option
def receipt_get(task: str, attempt: int, wallet: str | None, as_json: bool) -> None:
    """Print all that a stranger needs to verify the receipt of TASK, as JSON."""
    from millpond.cli._connect import connect
    from millpond.protocol import wire

    wanted = bytes32(task)
    with connect(wallet) as client:
        bundle = client.receipt(wanted, attempt)
    click.echo(wire.write(bundle).decode())


@receipt_command.command("verify")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--rpc", "rpc_url", metavar="URL", help="Any RPC of the receipt's chain (default: this home's network).")
@json_option
def receipt_verify(file: Path, rpc_url: str | None, as_json: bool) -> None:
    """Verify the receipt in FILE against the chain: signature, worker, lease, Merkle proof, root. Needs no node and no wallet."""
    from millpond.chain.verify import verify_receipt
    from millpond.protocol import wire
    from millpond.protocol.views import ReceiptBundle

    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read: {error.strerror}", remedy="Give the file that `millpond receipt get` wrote."
        ) from None
    bundle = wire.read(ReceiptBundle, data, MAX_BUNDLE_BYTES)
    report = asyncio.run(verify_receipt(bundle, rpc_url or load_network(home_folder()).rpc_url))
    if as_json:
        show_json(report)
        return
    click.echo("valid: every check below was made against the chain")
    receipt = bundle.signed.receipt
    click.echo(f"  task     {receipt.task}  attempt {receipt.attempt}")
    click.echo(f"  lease    {receipt.lease}")
    click.echo(f"  worker   {bundle.signed.worker}")
    click.echo(f"  root     {bundle.root}  ({bundle.count} receipts)")
