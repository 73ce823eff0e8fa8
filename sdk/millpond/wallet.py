"""Which key a renter signs with: a keystore of this home, or the public development wallet on chain 31337."""

from __future__ import annotations

import os
from pathlib import Path

from millpond.errors import SettingsError
from millpond.settings import Network

DEV_RENTER_INDEX = 3
PASSWORD_ENV = "MILLPOND_WALLET_PASSWORD"


def wallet_path(home: Path, name: str) -> Path:
    return home / "wallets" / f"{name}.json"


def list_wallets(home: Path) -> list[str]:
    return sorted(path.stem for path in (home / "wallets").glob("*.json"))


def load_wallet(home: Path, network: Network, name: str | None = None, password: str | None = None) -> bytes:
    """The private key of wallet `name` (default MILLPOND_WALLET), opened by `password` (default MILLPOND_WALLET_PASSWORD).

    Without a name the development chain has its own wallet; any other chain raises `SettingsError`.
    """
    from millpond.chain.keys import development_wallet, load_key

    name = name or os.environ.get("MILLPOND_WALLET", "")
    if not name and network.is_development:
        return development_wallet(DEV_RENTER_INDEX, network.chain_id).key
    if not name:
        known = ", ".join(list_wallets(home)) or "none yet"
        raise SettingsError(
            f"no wallet is chosen for chain {network.chain_id}; wallets here: {known}",
            remedy="Make one with `millpond wallet new NAME` and set MILLPOND_WALLET=NAME.",
        )
    path = wallet_path(home, name)
    if not path.exists():
        raise SettingsError(f"there is no wallet {name!r} at {path}", remedy="List them with `millpond wallet ls`.")
    wallet = load_key(path, _password(name, password))
    wallet.check_chain(network.chain_id)
    return wallet.key


def _password(name: str, password: str | None) -> str:
    given = os.environ.get(PASSWORD_ENV) if password is None else password
    if given is None:
        raise SettingsError(f"the wallet {name!r} needs a password", remedy=f"Set {PASSWORD_ENV}.")
    return given
