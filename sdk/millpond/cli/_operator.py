"""What the operator's commands share: which chain, which wallet, which folder of deployments."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from millpond.cli._connect import ask_password
from millpond.errors import SettingsError
from millpond.settings import DEV_CHAIN_ID, home_folder, load_network
from millpond.wallet import PASSWORD_ENV, list_wallets, wallet_path

if TYPE_CHECKING:
    from millpond.chain.deploy.site import Site
    from millpond.chain.eth import Eth
    from millpond.chain.fees import FeePolicy
    from millpond.chain.keys import Wallet
    from millpond.chain.transactor import TransactorConfig
    from millpond.protocol.ids import Address

F = TypeVar("F", bound=Callable[..., Any])
DEPLOYER_INDEX = 0
GWEI = 10**9


def chain_options(function: F) -> F:
    for option in (
        click.option("--dir", "folder", type=click.Path(path_type=Path), help="Folder of deployments."),
        click.option("--chain-id", type=int, metavar="N", help="Refuse any other chain."),
        click.option(
            "--rpc",
            "rpc_url",
            envvar="MILLPOND_RPC_URL",
            metavar="URL",
            help="RPC of the chain (default: this home's network).",
        ),
    ):
        function = option(function)
    return function


def sending_options(function: F) -> F:
    for option in (
        click.option("--max-fee", type=float, metavar="GWEI", help="Most that a transaction offers per gas."),
        click.option("--finality", type=click.IntRange(0), metavar="BLOCKS", help="Blocks until a block is final."),
        click.option(
            "--wait", "wait_s", default=1800.0, show_default=True, metavar="SECONDS", help="Longest wait for a block."
        ),
    ):
        function = option(function)
    return function


@asynccontextmanager
async def connected(rpc_url: str | None, chain_id: int | None) -> AsyncIterator[Eth]:
    """The chain; raises `RpcUnreachableError`, `WrongChainError`, `SettingsError` where nothing names an RPC."""
    url = rpc_url or _saved_url()
    from millpond.chain.eth import Eth
    from millpond.chain.rpc import Rpc

    async with Rpc(url, chain_id=chain_id) as rpc:
        yield Eth(rpc)


def _saved_url() -> str:
    try:
        return load_network(home_folder()).rpc_url
    except SettingsError as error:
        raise SettingsError(error.message, remedy="Give --rpc URL, or set MILLPOND_RPC_URL.") from None


def site_of(folder: Path | None, chain_id: int) -> Site:
    """The chain's folder; a development stack's address book stands in where there is none."""
    from millpond.chain.deploy.site import Site

    home = home_folder()
    earlier = home / "dev" / "addresses.json" if folder is None and chain_id == DEV_CHAIN_ID else None
    return Site(folder or home / "deployments", chain_id, earlier)


def sender_of(name: str | None, chain_id: int) -> Address | None:
    """The wallet's address, without its password; None where no wallet is chosen and the chain has none of its own."""
    from millpond.chain.keys import development_wallet, keystore_address

    path = _keystore(name)
    if path is not None:
        return keystore_address(path)
    return development_wallet(DEPLOYER_INDEX, chain_id).address if chain_id == DEV_CHAIN_ID else None


def signer_of(name: str | None, chain_id: int) -> Wallet:
    """The opened wallet; the public development key on chain 31337 only. Raises `SettingsError`, `KeystoreError`."""
    from millpond.chain.keys import development_wallet, load_key

    path = _keystore(name)
    if path is None:
        if chain_id == DEV_CHAIN_ID:
            return development_wallet(DEPLOYER_INDEX, chain_id)
        raise no_wallet(chain_id)
    given = os.environ.get(PASSWORD_ENV)
    password = given if given is not None else ask_password(path.stem)
    if password is None:
        raise SettingsError(f"the wallet {path.stem!r} needs a password", remedy=f"Set {PASSWORD_ENV}.")
    wallet = load_key(path, password)
    wallet.check_chain(chain_id)
    return wallet


def no_wallet(chain_id: int) -> SettingsError:
    known = ", ".join(list_wallets(home_folder())) or "none yet"
    return SettingsError(
        f"no wallet is chosen for chain {chain_id}; wallets here: {known}",
        remedy="Make one with `millpond wallet new NAME`, then give --wallet NAME or set MILLPOND_WALLET=NAME.",
    )


def transactor_config(finality: int | None, max_fee: float | None) -> TransactorConfig:
    from millpond.chain.transactor import TransactorConfig

    return TransactorConfig(finality=finality, fees=fee_policy(max_fee))


def fee_policy(max_fee: float | None) -> FeePolicy:
    from millpond.chain.fees import FeePolicy

    if max_fee is None:
        return FeePolicy()
    if max_fee <= 0:
        raise SettingsError("--max-fee must be above zero", remedy="Give gwei per gas, for example --max-fee 50.")
    return FeePolicy(cap=int(max_fee * GWEI), urgent_cap=int(max_fee * GWEI))


def _keystore(name: str | None) -> Path | None:
    name = name or os.environ.get("MILLPOND_WALLET", "")
    if not name:
        return None
    path = wallet_path(home_folder(), name)
    if not path.exists():
        raise SettingsError(f"there is no wallet {name!r} at {path}", remedy="List them with `millpond wallet ls`.")
    return path
