"""`millpond-worker up`."""

from __future__ import annotations

import asyncio
import logging

import click

from millpond_worker.cli.shared import home_of, home_option, json_option
from millpond_worker.home import Home, HomeLock
from millpond_worker.loop import loop_factory


@click.command("up", help="Run the worker until it is stopped (SIGTERM) or has drained.")
@home_option
@json_option
@click.option("--verbose", is_flag=True, help="Log more.")
def up_command(folder: str | None, as_json: bool, verbose: bool) -> None:
    home = home_of(folder)
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx", "httpcore", "websockets", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.INFO if verbose else logging.WARNING)
    with HomeLock(home), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run(home, as_json=as_json))


async def _run(home: Home, *, as_json: bool) -> None:
    from millpond_worker.app import App
    from millpond_worker.assemble import assemble
    from millpond_worker.cli.shared import show_json
    from millpond_worker.config import load_config

    assembled = await assemble(load_config(home), home)
    parts = assembled.parts
    if assembled.warning:
        logging.getLogger("millpond_worker").warning("%s", assembled.warning)
    if as_json:
        show_json(
            {"worker": parts.identity.wallet.address, "launcher": parts.launcher.kind, "warning": assembled.warning}
        )
    else:
        click.echo(f"worker {parts.identity.wallet.address}: launcher {parts.launcher.kind}")
        for info in parts.devices.values():
            click.echo(f"  device {info.name}, {info.memory_mib} MiB")
    await App(home, assembled).run()
