"""Commands' way to a client: asks for the wallet's password where nothing else gives it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from millpond.settings import home_folder, load_network
from millpond.wallet import PASSWORD_ENV, wallet_path

if TYPE_CHECKING:
    from millpond.client import Client


def connect(wallet: str | None) -> Client:
    """Settings and password come before the heavy imports, so that a mistake in them shows at once."""
    load_network(home_folder())
    password = ask_password(wallet)
    from millpond.client import Client

    return Client(wallet=wallet, password=password)


def ask_password(wallet: str | None) -> str | None:
    """The password of a keystore, asked for on a terminal; None where it is not needed or comes from the environment."""
    name = wallet or os.environ.get("MILLPOND_WALLET", "")
    if not name or os.environ.get(PASSWORD_ENV) is not None or not sys.stdin.isatty():
        return None
    if not wallet_path(home_folder(), name).exists():
        return None
    answer: str = click.prompt(f"Password of wallet {name}", hide_input=True, err=True)
    return answer
