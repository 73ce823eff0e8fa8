"""`millpond-worker doctor`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from millpond_worker.cli.shared import home_of, home_option, json_option, show_json
from millpond_worker.doctor import FAIL, Check, examine
from millpond_worker.errors import SetupError
from millpond_worker.home import Home

SIGNS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command(
    "doctor",
    help="Check this machine, its keys, and its standing on chain. Exits with 3 when something must be mended before `up`; "
    "with --for init, before `init`, which mends much itself.",
)
@home_option
@json_option
@click.option("--for", "step", type=click.Choice(["init", "up"]), default="up", show_default=True)
def doctor_command(folder: str | None, as_json: bool, step: str) -> None:
    found = asyncio.run(_examine(home_of(folder), as_json=as_json))
    failed = [check for check in found if check.level == FAIL and not (step == "init" and _is_mended_by_init(check))]
    if as_json:
        show_json({"is_ok": not failed, "findings": [asdict(check) for check in found]})
        raise SystemExit(SetupError.exit_code if failed else 0)
    if failed:
        names = ", ".join(check.id for check in failed)
        raise SetupError(f"to be mended: {names}", remedy="Follow the remedies above, from the top.", findings=names)


def _is_mended_by_init(check: Check) -> bool:
    return check.remedy.startswith("Run `millpond-worker init`")


async def _examine(home: Home, *, as_json: bool) -> list[Check]:
    found = []
    async for check in examine(home):
        found.append(check)
        if not as_json:
            _show(check)
    return found


def _show(check: Check) -> None:
    needed = f" (needed: {check.needed})" if check.needed and check.level != "ok" else ""
    click.echo(f"{SIGNS[check.level]}  {check.id:<10} {check.measured}{needed}")
    if check.remedy:
        click.echo(f"                 try: {check.remedy}")
