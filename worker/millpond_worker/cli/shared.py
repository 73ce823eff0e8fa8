"""Options that commands share, and how they show things."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from millpond_worker.home import Home, default_home

F = TypeVar("F", bound=Callable[..., Any])


def home_option(function: F) -> F:
    return click.option(
        "--home", "folder", metavar="DIR", help="The worker's folder (default: $MILLPOND_HOME/worker)."
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(function)


def home_of(folder: str | None) -> Home:
    return Home(Path(folder).expanduser().absolute()) if folder else default_home()


def show_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Plain columns, nothing cut."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [
        max(len(column), *(len(row[i]) for row in cells)) if cells else len(column) for i, column in enumerate(columns)
    ]
    for row in (columns, *cells):
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
