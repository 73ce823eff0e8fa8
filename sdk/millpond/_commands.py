"""What the three commands share: groups that load lazily, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from millpond.protocol.errors import InputError, MillpondError

HELP = {"help_option_names": ["-h", "--help"]}
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class UsageError(InputError):
    """The command line itself is wrong."""


class LazyGroup(click.Group):
    """Knows by heart, for each command, the module of `package` that holds it and its one-line help; loads it when it is called.

    `before` runs before a command is loaded.
    """

    def __init__(
        self,
        *arguments: Any,
        package: str,
        table: Mapping[str, tuple[str, str]],
        before: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._package = package
        self._table = table
        self._before = before

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        if self._before:
            self._before()
        command = getattr(import_module(f"{self._package}.{self._table[cmd_name][0]}"), f"{cmd_name}_command")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(self._table.items())])


def run(group: click.Group, prog_name: str, arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and ends the process: 0, the exit code of the error, 130 when interrupted, 141 when nobody reads on."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = group.main(args=given, prog_name=prog_name, standalone_mode=False)
    except MillpondError as error:
        show_error(error, is_json=_wants_json(given))
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _show_usage(error, is_json=_wants_json(given))
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_BROKEN_PIPE)
    sys.exit(code if isinstance(code, int) else 0)


def show_error(error: MillpondError, *, is_json: bool) -> None:
    """What is wrong, why, and what to do: two lines on stderr, or one JSON object on stdout."""
    if is_json:
        import json

        click.echo(json.dumps(error.as_dict(), default=str))
        return
    click.echo(f"error: {error.message}", err=True)
    if error.remedy:
        click.echo(f"  try: {error.remedy}", err=True)


def _show_usage(error: click.ClickException, *, is_json: bool) -> None:
    if not is_json:
        error.show()
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context else ""
    show_error(UsageError(error.format_message(), remedy=f"See `{path} --help`." if path else ""), is_json=True)


def _wants_json(given: Sequence[str]) -> bool:
    """What follows `--` belongs to somebody else's command."""
    own = given[: given.index("--")] if "--" in given else given
    return "--json" in own
