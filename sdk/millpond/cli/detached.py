"""`results` and `attach`: what a renter who was away comes back with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, plain, show_settlement, wallet_option
from millpond.cli._terminate import ending_with_terminate
from millpond.errors import InputError, LogMissingError
from millpond.protocol.ids import bytes32
from millpond.protocol.messages import AttemptStatus, TaskResult

if TYPE_CHECKING:
    from millpond.client import Client


@click.command("results")
@click.argument("job")
@click.option("--after", default=0, metavar="CURSOR", show_default=True, help="Only what came behind this result.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until all tasks have ended.")
@click.option("--log", "with_log", is_flag=True, help="Also print what each task wrote.")
@click.option("--out", type=click.Path(path_type=Path), help="Put what each task left in /out into OUT/NUMBER.")
@wallet_option
@json_option
def results_command(
    job: str, after: int, follow: bool, with_log: bool, out: Path | None, wallet: str | None, as_json: bool
) -> None:
    """Print how the tasks of JOB ended, in the order in which they did; with --json one document per line.

    The first column is the cursor: --after CURSOR goes on behind it.
    """
    wanted = bytes32(job)
    if after < 0:
        raise InputError(f"--after {after} is below 0", remedy="Give the cursor of the last result you have seen.")
    with connect(wallet) as client:
        for result in client.results(wanted, after, follow=follow):
            log = _log(client, result) if with_log else b""
            if as_json:
                click.echo(json.dumps(plain(result) | ({"log": log.decode(errors="replace")} if with_log else {})))
            else:
                click.echo(f"{result.cursor:>6}  {result.job}/{result.index}  {status_of(result)}")
                click.echo(log, nl=False)
            if out is not None and result.signed is not None and result.signed.output_cid:
                _fetch(client, result.signed.output_cid, out / str(result.index))
        view = client.job(wanted)
    left = view.queued + view.running
    if left and not as_json:
        click.echo(f"{left} of {view.tasks} tasks have not ended; --follow waits for them", err=True)


@click.command("attach")
@click.argument("lease")
@click.option("--job", metavar="JOB", help="Close once the tasks of JOB have ended; without it, at Ctrl-C.")
@wallet_option
@json_option
def attach_command(lease: str, job: str | None, wallet: str | None, as_json: bool) -> None:
    """Take up LEASE, which another command left: pay it from here, then close it at the end.

    Needs the home folder (MILLPOND_HOME) the lease was opened from, which has its session key.
    """
    wanted, awaited = bytes32(lease), None if job is None else bytes32(job)
    with connect(wallet) as client, ending_with_terminate():
        with client.attach(wanted) as leases:
            click.echo(f"lease {wanted} is paid from here", err=True)
            try:
                _wait(client, awaited)
            except KeyboardInterrupt:
                if awaited is not None:
                    click.echo("interrupted; closing the lease", err=True)
                    raise
        show_settlement(leases.settlements[0], client.pool, as_json=as_json)


def status_of(result: TaskResult) -> str:
    """One word, and what the task said when it failed."""
    word = "lost" if result.signed is None else AttemptStatus(result.signed.receipt.status).name.lower()
    said = result.failure
    return word if said is None else f"{word}  {said.type}: {said.message}"


def _wait(client: Client, job: str | None) -> None:
    from threading import Event

    if job is None:
        Event().wait()
        return
    for result in client.results(bytes32(job), follow=True):
        click.echo(f"{result.cursor:>6}  {result.job}/{result.index}  {status_of(result)}", err=True)


def _log(client: Client, result: TaskResult) -> bytes:
    try:
        return client.log(result)
    except LogMissingError as error:
        click.echo(f"warning: {error.message}", err=True)
        return b""


def _fetch(client: Client, cid: str, target: Path) -> None:
    if target.exists():
        raise InputError(f"{target} exists already", remedy="Give a folder that does not have this task's output yet.")
    target.parent.mkdir(parents=True, exist_ok=True)
    client.fetch_path(cid, target)
