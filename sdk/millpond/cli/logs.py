"""`logs`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

import click

from millpond.cli._show import wallet_option
from millpond.protocol.ids import Bytes32, bytes32


@click.command("logs")
@click.argument("job")
@click.option("--task", metavar="ID", help="Only this task's.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more.")
@wallet_option
def logs_command(job: str, task: str | None, follow: bool, wallet: str | None) -> None:
    """Print what the tasks of JOB printed, as far as the node still keeps it."""
    asyncio.run(print_logs(bytes32(job), None if task is None else bytes32(task), wallet, follow=follow))


async def print_logs(job: Bytes32, task: Bytes32 | None, wallet: str | None, *, follow: bool) -> None:
    from millpond._asyncclient import AsyncClient

    async with await AsyncClient.connect(wallet=wallet) as client:
        expected: dict[tuple[str, int, str], int] = {}
        async with aclosing(client.api.logs(job, task, 0, follow=follow)) as stream:
            async for chunk in stream:
                place = (chunk.task, chunk.attempt, chunk.stream)
                gap = chunk.offset - expected.get(place, 0)
                if gap > 0:
                    click.echo(f"[{gap} bytes missing]", err=True)
                expected[place] = chunk.offset + len(chunk.data)
                out = sys.stderr.buffer if chunk.stream == "stderr" else sys.stdout.buffer
                out.write(chunk.data)
                out.flush()
