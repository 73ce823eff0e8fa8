"""Where this machine keeps Millpond's state, and which chain, pool and wallet a renter uses."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from millpond.errors import SettingsError
from millpond.protocol.ids import Address, address

DEV_CHAIN_ID = 31337
NETWORK_FILE = "network.json"


def home_folder() -> Path:
    """`$MILLPOND_HOME`, or `~/.config/millpond`."""
    given = os.environ.get("MILLPOND_HOME")
    return Path(given).expanduser() if given else Path.home() / ".config" / "millpond"


@dataclass(frozen=True, slots=True)
class Network:
    """One pool on one chain. `node_url` empty: found on chain, where the node announces it. `rpc_url`: one, or several with commas."""

    rpc_url: str
    chain_id: int
    controller: Address
    node_url: str = ""

    @property
    def is_development(self) -> bool:
        return self.chain_id == DEV_CHAIN_ID

    def save(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = home / (NETWORK_FILE + ".tmp")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")
        temporary.replace(home / NETWORK_FILE)


def load_network(home: Path) -> Network:
    """What `network.json` says, overridden by MILLPOND_RPC_URL, MILLPOND_CHAIN_ID, MILLPOND_POOL, MILLPOND_NODE_URL; raises `SettingsError`."""
    env = os.environ
    saved = _saved(home)
    if saved is None and not {"MILLPOND_RPC_URL", "MILLPOND_CHAIN_ID", "MILLPOND_POOL"} <= env.keys():
        raise SettingsError(f"no network is set: {home / NETWORK_FILE} does not exist and MILLPOND_RPC_URL is not set")
    base = saved or Network("", 0, address("0x" + "00" * 20))
    try:
        return replace(
            base,
            rpc_url=env.get("MILLPOND_RPC_URL", base.rpc_url),
            chain_id=int(env.get("MILLPOND_CHAIN_ID", base.chain_id)),
            controller=address(env.get("MILLPOND_POOL", base.controller)),
            node_url=env.get("MILLPOND_NODE_URL", base.node_url),
        )
    except ValueError:
        raise SettingsError(f"MILLPOND_CHAIN_ID must be a number, not {env['MILLPOND_CHAIN_ID']!r}") from None


def _saved(home: Path) -> Network | None:
    path = home / NETWORK_FILE
    try:
        data = json.loads(path.read_text())
        urls = data["rpc_url"]
        return Network(
            ",".join(map(str, urls)) if isinstance(urls, list) else str(urls),
            int(data["chain_id"]),
            address(data["controller"]),
            str(data.get("node_url", "")),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}", remedy="Delete it and run `millpond dev up` again."
        ) from error
