"""The node's settings: `node.toml` in its home folder."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from millpond.protocol.errors import InputError
from millpond.protocol.ids import Address, address
from millpond_node.errors import NodeConfigError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of all queues and of every caller's part. Rates are requests per second, `burst` requests, `seconds` how long a client may take."""

    rate_per_signer: float = 200.0
    burst_per_signer: float = 400.0
    rate_per_address: float = 1000.0
    burst_per_address: float = 2000.0
    rate_global: float = 4000.0
    burst_global: float = 8000.0
    connections: int = 4096
    connections_per_address: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    stall_seconds: float = 30.0
    open_requests: int = 10_000
    open_requests_per_renter: int = 256
    open_tasks: int = 200_000
    open_task_mib: int = 1024
    jobs_per_renter: int = 1024
    followers: int = 256
    followers_per_signer: int = 64
    log_kib_per_task: int = 256
    log_mib: int = 64
    block_store_mib: int = 32_768
    block_party_mib: int = 8192
    block_request_mib: int = 256
    block_ttl_s: int = 7 * 86_400
    workers: int = 1024


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One pool's node. Times in seconds. `key` names a keystore file, `dev_key` an account of the development chain.

    `rpc_url` holds one URL or several with commas; the file may write them as a list.
    """

    home: Path
    rpc_url: str
    chain_id: int
    controller: Address
    addresses: str = ""
    key: str = ""
    key_password_file: str = ""
    dev_key: int | None = None
    host: str = "127.0.0.1"
    port: int = 8440
    url: str = ""
    finality: int | None = None
    task_image: str = "millpond-task:1"
    start_block: int = 0
    batch_seconds: float = 2.0
    batch_receipts: int = 4096
    job_retention_s: int = 86_400
    orphan_seconds: int = 600
    announce_ttl_s: int = 3600
    limits: Limits = field(default_factory=Limits)

    @property
    def public_url(self) -> str:
        return self.url or f"http://{self.host}:{self.port}"

    @property
    def journal_path(self) -> Path:
        return self.home / "journal.sqlite3"

    @property
    def outbox_path(self) -> Path:
        return self.home / "transactions.sqlite3"

    @property
    def blocks_path(self) -> Path:
        return self.home / "blocks"

    def path(self, text: str) -> Path:
        """A path of the settings: relative ones start at the home folder."""
        return self.home / Path(text).expanduser()


def default_home() -> Path:
    """`$MILLPOND_HOME/node`, or `~/.config/millpond/node`."""
    root = os.environ.get("MILLPOND_HOME")
    return Path(root).expanduser() / "node" if root else Path.home() / ".config" / "millpond" / "node"


def load_config(home: Path) -> NodeConfig:
    """Reads `node.toml`; raises `NodeConfigError` naming what is wrong."""
    path = home / "node.toml"
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise NodeConfigError(f"there is no {path}", path=str(path)) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NodeConfigError(f"{path} cannot be read: {error}", path=str(path)) from None
    return parse_config(data, home)


def parse_config(data: dict[str, Any], home: Path) -> NodeConfig:
    """Settings from a table; unknown keys and values of a wrong kind are refused."""
    values = dict(data)
    if isinstance(values.get("rpc_url"), list) and all(isinstance(item, str) for item in values["rpc_url"]):
        values["rpc_url"] = ",".join(values["rpc_url"])
    limits = Limits(**_checked(values.pop("limits", {}), Limits, "limits."))
    known = _checked(values, NodeConfig, "")
    missing = [name for name in ("rpc_url", "chain_id", "controller") if name not in known]
    if missing:
        raise NodeConfigError(f"node.toml lacks {', '.join(missing)}", missing=missing)
    if (known.get("dev_key") is None) == (not known.get("key")):
        raise NodeConfigError(
            "node.toml must name exactly one of `key` (a keystore file) and `dev_key` (a development account)"
        )
    try:
        known["controller"] = address(known["controller"])
    except InputError as error:
        raise NodeConfigError(f"controller: {error}") from None
    return NodeConfig(home=home, limits=limits, **known)


_KINDS = {"str": str, "Address": str, "int": int, "int | None": int, "float": (int, float)}


def _checked(data: dict[str, Any], kind: type, prefix: str) -> dict[str, Any]:
    kinds = {item.name: _KINDS.get(str(item.type)) for item in fields(kind)}
    for name, value in data.items():
        expected = kinds.get(name)
        if expected is None:
            raise NodeConfigError(f"node.toml: unknown key {prefix}{name}", key=prefix + name)
        if isinstance(value, bool) or not isinstance(value, expected):  # type: ignore[arg-type]
            raise NodeConfigError(
                f"node.toml: {prefix}{name} has a value of the wrong kind: {value!r}", key=prefix + name
            )
    return data
