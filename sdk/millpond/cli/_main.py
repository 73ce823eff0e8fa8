"""The renter's commands."""

from __future__ import annotations

from collections.abc import Sequence

import click

from millpond._commands import HELP, LazyGroup, run

COMMANDS = {
    "attach": ("detached", "Take up a lease that another command left, pay it, close it at the end."),
    "balance": ("money", "What the wallet and Escrow hold."),
    "deploy": ("deploy", "Put the contracts on a chain, and compare them with it."),
    "dev": ("dev", "A whole development stack on this machine."),
    "fund": ("money", "Move money from the wallet into Escrow."),
    "lease": ("lease", "List and close leases."),
    "logs": ("logs", "What a job's tasks printed."),
    "offers": ("offers", "What can be rented now, and at what price."),
    "pool": ("pool", "Make, list and show pools."),
    "receipt": ("receipt", "Fetch and verify receipts of tasks."),
    "results": ("detached", "How the tasks of a job ended."),
    "run": ("run", "Rent a vGPU, run one command in a container, close."),
    "wallet": ("wallet", "Make and list wallets."),
    "why": ("why", "Why a request waits."),
    "withdraw": ("money", "Take free money out of Escrow."),
}


@click.group(cls=LazyGroup, package="millpond.cli", table=COMMANDS, context_settings=HELP)
@click.version_option(package_name="millpond")
def cli() -> None:
    """Rent fractions of GPUs from on-chain pools.

    State lives in MILLPOND_HOME. Every command takes --json. Exit codes: 0 done, 2 wrong input, 3 settings, 4 chain, 5 storage,
    6 launcher, 7 node, 8 the task failed.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    run(cli, "millpond", arguments)
