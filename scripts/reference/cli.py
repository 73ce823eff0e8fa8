"""The page of all commands, from the click commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

import click

PROGRAMS = {
    "millpond": "millpond.cli._main",
    "millpond-node": "millpond_node.cli",
    "millpond-worker": "millpond_worker.cli.main",
}
HEAD = """# Commands

Written by `scripts/generate_reference.py` from the commands; `COMMAND --help` shows the same.

Every command ends with 0 when it did what was asked, and else with the exit code of its [error](error_codes.md).
With `--json` standard output is one JSON document, also of an error.
"""


def page() -> str:
    return HEAD + "".join(_program(name, module) for name, module in PROGRAMS.items())


def _program(name: str, module: str) -> str:
    command: click.Command = import_module(module).cli
    context = click.Context(command, info_name=name)
    return f"\n## {name}\n" + "".join(_section(item) for item in _walk(context))


def _walk(context: click.Context) -> Iterator[click.Context]:
    """The command, then those below it, depth first."""
    yield context
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _walk(click.Context(command, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    command = context.command
    level = "#" * (2 + context.command_path.count(" "))
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    head = "" if context.parent is None else f"\n{level} {context.command_path}\n"
    return f"{head}\n```\n{usage}\n```\n\n{_help(command)}\n{_options(context)}"


def _help(command: click.Command) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").replace("\f", "")
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(_escaped(part) for part in paragraphs)


def _options(context: click.Context) -> str:
    records = [param.get_help_record(context) for param in context.command.get_params(context)]
    rows = [record for record in records if record and record[1] and not record[0].endswith(("--help", "--version"))]
    if not rows:
        return ""
    lines = [f"| `{name.replace('|', ' or ')}` | {_escaped(' '.join(text.split()))} |" for name, text in rows]
    return "\n| Option | Meaning |\n|---|---|\n" + "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
