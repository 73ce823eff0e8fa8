"""The group of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from millpond.protocol.errors import MillpondError

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


class LazyGroup(click.Group):
    """Knows names and one-line helps by heart."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"millpond.cli.{COMMANDS[cmd_name][0]}"), f"{cmd_name}_command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millpond")
def cli() -> None:
    """Rent fractions of GPUs from on-chain pools.

    State lives in MILLPOND_HOME. Every command takes --json. Exit codes: 0 done, 2 wrong input, 3 settings, 4 chain, 5 storage,
    6 launcher, 7 node, 8 the task failed.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        cli.main(args=given, prog_name="millpond", standalone_mode=False)
    except MillpondError as error:
        _show(error, is_json="--json" in given)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    sys.exit(0)


def _show(error: MillpondError, *, is_json: bool) -> None:
    if is_json:
        import json

        click.echo(json.dumps(error.as_dict(), default=str))
        return
    click.echo(f"error: {error.message}", err=True)
    if error.remedy:
        click.echo(f"  try: {error.remedy}", err=True)
