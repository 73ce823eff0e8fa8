"""Shows the report as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from millpond.protocol.units import format_amount

if TYPE_CHECKING:
    from _demo.report import Report

PLAIN_WIDTH = 160


def console() -> Console:
    """Cuts nothing where the output is no terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=PLAIN_WIDTH, highlight=False)


def show(report: Report, symbol: str, decimals: int, out: Console) -> None:
    """Slices, money, gas and checks."""
    out.print()
    out.print(slice_table(report, symbol, decimals))
    out.print()
    out.print(money_table(report, symbol, decimals))
    out.print()
    out.print(gas_table(report))
    out.print()
    for words, holds in report.checks().items():
        out.print(f"  {'[green]ok[/]    ' if holds else '[bold red]FAILED[/]'}  {words}")


def slice_table(report: Report, symbol: str, decimals: int) -> Table:
    table = _table("Slices", "lease", "device", "share", "memory", "tasks", "seconds", f"earned ({symbol})")
    for row in report.slices:
        table.add_row(
            f"{row.lease[:10]}...", f"{row.device[:10]}...", f"{row.share / 10:g} %", f"{row.memory_mib} MiB", str(row.tasks), str(row.seconds),
            format_amount(row.earned, decimals),
        )  # fmt: skip
    earned = sum(row.earned for row in report.slices)
    tasks, seconds = sum(row.tasks for row in report.slices), sum(row.seconds for row in report.slices)
    table.add_section()
    table.add_row("all", "", "", "", str(tasks), str(seconds), format_amount(earned, decimals))
    return table


def money_table(report: Report, symbol: str, decimals: int) -> Table:
    money = report.money
    table = _table("Money, from Escrow's events", "", symbol, "base units")
    rows = {
        "deposited by the renter": money.deposited,
        "paid to the provider": money.paid,
        "fees to the pool": money.fees,
        "burnt": money.burnt,
        "refunded to the renter": money.refunded,
    }
    for name, amount in rows.items():
        table.add_row(name, format_amount(amount, decimals), str(amount))
    return table


def gas_table(report: Report) -> Table:
    table = _table("Gas, from every block", "operation", "count", "min", "mean", "max")
    for name, row in report.gas.items():
        refused = f" ({row.refused} refused)" if row.refused else ""
        table.add_row(name + refused, str(row.count), f"{row.least:,}", f"{row.mean:,}", f"{row.most:,}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table
