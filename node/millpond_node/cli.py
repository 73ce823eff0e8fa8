"""`millpond-node`: runs a pool's node, and says how it does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from millpond._commands import HELP, run
from millpond.protocol.errors import NodeError

MODULES = ("starlette", "uvicorn", "websockets")
STATUS_TIMEOUT_S = 5.0


class NodeUnreachableError(NodeError):
    remedy_text = "Start it with `millpond-node up`, and check host and port in node.toml."


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    run(cli, "millpond-node", arguments)


@click.group(context_settings=HELP)
def cli() -> None:
    """The pool operator's process: queue, scheduler, REST API, settlement."""


_home = click.option("--home", type=click.Path(path_type=Path), help="Folder with node.toml and the node's state.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


@cli.command()
@_home
@_json
@click.option("--verbose", is_flag=True, help="Log more.")
def up(home: Path | None, as_json: bool, verbose: bool) -> None:
    """Run the node until it is stopped."""
    from millpond._extras import require_extra

    require_extra("node", MODULES)
    import logging

    from millpond_node import server
    from millpond_node.config import default_home, load_config

    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
    config = load_config(home or default_home())
    if as_json:
        click.echo(json.dumps({"url": config.public_url, "controller": config.controller, "chain_id": config.chain_id}))
    server.run(config)


@cli.command()
@_home
@_json
def status(home: Path | None, as_json: bool) -> None:
    """Ask a running node how it does."""
    from millpond_node.config import default_home, load_config

    config = load_config(home or default_home())
    said = _ask(config.public_url)
    if as_json:
        click.echo(json.dumps(said))
        return
    for name, value in said.items():
        click.echo(f"{name:<12} {value}")


def _ask(url: str) -> dict[str, Any]:
    import httpx

    try:
        answer = httpx.get(f"{url}/v1/health", timeout=STATUS_TIMEOUT_S)
        said: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NodeUnreachableError(f"the node at {url} does not answer: {error}", url=url) from None
    return {"url": url, **said}
