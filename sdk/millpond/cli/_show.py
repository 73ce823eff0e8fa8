"""How commands show things: tables and plain lines for people, one JSON document for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from millpond.protocol.typed import TypedStruct
from millpond.protocol.units import format_amount

if TYPE_CHECKING:
    from millpond._settlement import Settlement
    from millpond.protocol.views import PoolView

F = TypeVar("F", bound=Callable[..., Any])
JSON_SAFE_INT = 2**53


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(function)


def wallet_option(function: F) -> F:
    return click.option("--wallet", metavar="NAME", help="Which wallet signs (default: MILLPOND_WALLET).")(function)


def show_json(value: Any) -> None:
    click.echo(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """JSON-ready: bytes as hex, integers beyond 53 bits as decimal strings."""
    if isinstance(value, TypedStruct):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(getattr(value, key)) for key in field_names(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= JSON_SAFE_INT:
        return str(value)
    return value


def show_settlement(settlement: Settlement, pool: PoolView, *, as_json: bool) -> None:
    """What became of a lease's earmark."""
    if as_json:
        show_json(settlement)
        return
    for label in ("earmark", "paid", "fee", "burnt", "refunded"):
        amount = format_amount(getattr(settlement, label), pool.token_decimals)
        click.echo(f"{label:<9} {amount} {pool.token_symbol}")
    if not settlement.is_settled:
        click.echo(
            "the worker has not settled yet; what no voucher takes comes back after the claim window at the latest"
        )


def field_names(value: Any) -> list[str]:
    return [item.name for item in fields(value)]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns of numbers line up at the right; nothing is cut when the output is not a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    view = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[i], int | float) or _is_number(str(row[i])) for row in rows)
        view.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        view.add_row(*(Text(str(cell)) for cell in row))
    console.print(view)


def _is_number(text: str) -> bool:
    head = text.split(" ", maxsplit=1)[0].replace(",", "").replace(".", "", 1)
    return head.isdigit()


def short(identifier: str) -> str:
    """Enough of an id to tell it from others; commands accept the whole one."""
    return identifier[:12] + "…"
