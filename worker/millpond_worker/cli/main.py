"""The provider's commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from millpond._commands import HELP, LazyGroup, run
from millpond._extras import require_extra

NEEDED = ("aiodocker", "psutil", "websockets")
COMMANDS = {
    "doctor": ("doctor", "Check this machine, its keys and its standing on chain."),
    "drain": ("running", "Take no new leases; end when the last one has."),
    "earnings": ("money", "What was earned, is owed, and was withdrawn."),
    "exit": ("exit", "Leave the pool and get everything out."),
    "init": ("init", "Register, stake, join a pool, and write worker.toml."),
    "price": ("price", "Set the price of a whole device, and offer at it."),
    "reload": ("price", "Let the running worker take up a changed worker.toml."),
    "status": ("running", "What the running worker does."),
    "up": ("up", "Run the worker."),
    "withdraw": ("money", "Pay what Escrow owes to the payout address."),
}


@click.group(
    cls=LazyGroup,
    package="millpond_worker.cli",
    table=COMMANDS,
    before=partial(require_extra, "worker", NEEDED),
    context_settings=HELP,
)
@click.version_option(package_name="millpond")
def cli() -> None:
    """Rent out slices of this machine's devices in an on-chain pool.

    State lives in --home (default: $MILLPOND_HOME/worker). Every command takes --json. Exit codes: 0 done, 2 wrong input, 3 settings
    or findings, 4 chain, 5 storage, 6 launcher, 7 node.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    run(cli, "millpond-worker", arguments)
