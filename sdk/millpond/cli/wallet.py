"""`wallet new`, `wallet ls`."""

from __future__ import annotations

import os

import click

from millpond.cli._show import json_option, show_json, table
from millpond.errors import SettingsError
from millpond.settings import home_folder
from millpond.wallet import PASSWORD_ENV, list_wallets, wallet_path


@click.group("wallet")
def wallet_command() -> None:
    """Make and list wallets."""


@wallet_command.command("new")
@click.argument("name")
@json_option
def wallet_new(name: str, as_json: bool) -> None:
    """Make a key in a keystore file that only you can read."""
    from millpond.chain.keys import new_wallet, save_wallet

    if not name.replace("-", "").replace("_", "").isalnum():
        raise SettingsError(f"{name!r} is no name for a wallet", remedy="Use letters, digits, - and _.")
    password = os.environ.get(PASSWORD_ENV)
    if password is None:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    wallet, path = new_wallet(), wallet_path(home_folder(), name)
    save_wallet(wallet, path, password)
    if as_json:
        show_json({"name": name, "address": wallet.address, "path": str(path)})
        return
    click.echo(f"{wallet.address}  {path}")
    click.echo(
        f"Use it with MILLPOND_WALLET={name}. Whoever has this file and its password has your money; nobody can restore either."
    )


@wallet_command.command("ls")
@json_option
def wallet_ls(as_json: bool) -> None:
    """List the wallets of this home."""
    from millpond.chain.keys import keystore_address

    home = home_folder()
    rows = [(name, keystore_address(wallet_path(home, name)) or "") for name in list_wallets(home)]
    if as_json:
        show_json([{"name": name, "address": owner} for name, owner in rows])
    elif rows:
        table("wallets", ("name", "address"), rows)
    else:
        click.echo("no wallets; make one with `millpond wallet new NAME`")
