"""`millpond deploy`, from a source checkout and from Brownie: the same planner, journal and address book.

    python scripts/deploy.py plan|apply|status --rpc URL [OPTIONS]      # as `millpond deploy`
    brownie run deploy [plan|apply|status] --network NAME               # the same, on Brownie's network

Under Brownie, MILLPOND_DEPLOY holds further options, for example "--wallet operator --test-token". Nothing named is `apply`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Brownie's entry."""
    apply()


def plan() -> None:
    _under_brownie("plan")


def apply() -> None:
    _under_brownie("apply")


def status() -> None:
    _under_brownie("status")


def _under_brownie(action: str) -> None:
    """Brownie's own environment has no Millpond, so the project's does the work on Brownie's network."""
    from brownie import network, web3

    url = web3.provider.endpoint_uri
    options = shlex.split(os.environ.get("MILLPOND_DEPLOY", ""))
    print(f"{action} on {network.show_active()} at {url}", flush=True)
    command = [str(ROOT / ".venv/bin/python"), "-m", "millpond", "deploy", action, "--rpc", url, *options]
    code = subprocess.run(command, check=False).returncode
    if code:
        raise SystemExit(code)


def _as_command() -> None:
    from millpond.cli import main as millpond

    millpond(["deploy", *sys.argv[1:]])


if __name__ == "__main__":
    _as_command()
