"""`logs`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import click

from millpond.cli._connect import connect
from millpond.cli._show import json_option, plain, show_json, wallet_option
from millpond.protocol.ids import Bytes32, bytes32, task_id
from millpond.protocol.link import Log


@click.command("logs")
@click.argument("job")
@click.option("--task", metavar="ID|NUMBER", help="Only this task's; by its id or its number in the job, from 0.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until the tasks end.")
@wallet_option
@json_option
def logs_command(job: str, task: str | None, follow: bool, wallet: str | None, as_json: bool) -> None:
    """Print what the tasks of JOB printed, as far as the node still keeps it."""
    wanted, chosen = bytes32(job), None if task is None else _task(bytes32(job), task)
    shown: list[Log] = []
    show = shown.append if as_json else Printer()
    with connect(wallet) as client:
        count = client.job(wanted).tasks
        tasks: Sequence[Bytes32] = [task_id(wanted, i) for i in range(count)] if chosen is None else [chosen]
        for i, item in enumerate(tasks):
            if len(tasks) > 1 and not as_json:
                click.echo(f"--- task {i}", err=True)
            client.logs(wanted, item, show, follow=follow)
    if as_json:
        show_json([{**plain(item), "data": item.data.decode(errors="replace")} for item in shown])


def _task(job: Bytes32, text: str) -> Bytes32:
    return task_id(job, int(text)) if text.isdigit() else bytes32(text)


class Printer:
    """Writes each chunk to its own stream, and says where bytes are missing."""

    def __init__(self) -> None:
        self._expected: Counter[tuple[str, int, str]] = Counter()

    def __call__(self, chunk: Log) -> None:
        place = (chunk.task, chunk.attempt, chunk.stream)
        gap = chunk.offset - self._expected[place]
        if gap > 0:
            click.echo(f"[{gap} bytes missing]", err=True)
        self._expected[place] = chunk.offset + len(chunk.data)
        out = sys.stderr.buffer if chunk.stream == "stderr" else sys.stdout.buffer
        out.write(chunk.data)
        out.flush()
