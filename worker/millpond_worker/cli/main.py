"""The group of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from millpond._extras import require_extra
from millpond.protocol.errors import MillpondError

NEEDED = ("aiodocker", "psutil", "websockets")
COMMANDS = {
    "doctor": ("doctor", "Check this machine, its keys and its standing on chain."),
    "drain": ("running", "Take no new leases; end when the last one has."),
    "earnings": ("money", "What was earned, is owed, and was withdrawn."),
    "init": ("init", "Register, stake, join a pool, and write worker.toml."),
    "status": ("running", "What the running worker does."),
    "up": ("up", "Run the worker."),
    "withdraw": ("money", "Pay what Escrow owes to the payout address."),
}


class LazyGroup(click.Group):
    """Knows names and one-line helps by heart."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        require_extra("worker", NEEDED)
        command = getattr(import_module(f"millpond_worker.cli.{COMMANDS[cmd_name][0]}"), f"{cmd_name}_command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millpond")
def cli() -> None:
    """Rent out slices of this machine's devices in an on-chain pool.

    State lives in --home (default: $MILLPOND_HOME/worker). Every command takes --json. Exit codes: 0 done, 2 wrong input, 3 settings
    or findings, 4 chain, 5 storage, 6 launcher, 7 node.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        cli.main(args=given, prog_name="millpond-worker", standalone_mode=False)
    except MillpondError as error:
        show_error(error, is_json="--json" in given)
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


def show_error(error: MillpondError, *, is_json: bool) -> None:
    """What is wrong, why, and what to do."""
    if is_json:
        import json

        click.echo(json.dumps(error.as_dict(), default=str))
        return
    click.echo(f"error: {error.message}", err=True)
    if error.remedy:
        click.echo(f"  try: {error.remedy}", err=True)
