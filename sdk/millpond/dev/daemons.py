"""How the stack's daemons are set up: the node's settings file, and the arguments of `millpond-worker init`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from millpond.chain import devnet
from millpond.dev.accounts import Account, provider_accounts, wallet
from millpond.dev.bootstrap import Pool
from millpond.settings import Network

NODE_ENTRY = "millpond_node.cli:main"
WORKER_ENTRY = "millpond_worker.cli:main"
FINALITY = 2
DEVICE_PRICE = "3.60/h"
Settings = dict[str, str | int | float]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Worker number `number` (from 0) of `count` on this machine; they share its cores and memory evenly."""

    home: Path
    number: int
    count: int
    launcher: str


def node_settings(network: Network, pool: Pool, port: int) -> Settings:
    """Keys of node.toml."""
    return {
        "rpc_url": network.rpc_url,
        "chain_id": network.chain_id,
        "controller": network.controller,
        "addresses": str(pool.book),
        "dev_key": int(Account.NODE),
        "host": devnet.HOST,
        "port": port,
        "finality": FINALITY,
    }


def init_arguments(plan: WorkerPlan, network: Network, pool: Pool) -> list[str]:
    """Arguments of `millpond-worker init`: two unequal offers of one device."""
    owner, key, payout = provider_accounts(plan.number)
    arguments = ["init", "--home", str(plan.home), "--rpc-url", network.rpc_url, "--chain-id", str(network.chain_id)]
    arguments += ["--controller", network.controller, "--addresses", str(pool.book), "--node-url", network.node_url]
    arguments += ["--owner-dev-key", str(owner), "--dev-key", str(key), "--payout", wallet(payout).address]
    arguments += ["--launcher", plan.launcher, "--allow-renter", wallet(Account.RENTER).address]
    arguments += ["--finality", str(FINALITY), "--price", DEVICE_PRICE]
    return arguments + (_part_of_machine(plan) if plan.count > 1 else [])


def write_settings(path: Path, settings: Settings) -> None:
    """Writes a flat TOML table; JSON's strings and numbers are TOML's too."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))


def _part_of_machine(plan: WorkerPlan) -> list[str]:
    cores = max(1, (os.cpu_count() or 1) // plan.count)
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // plan.count >> 20
    return ["--device-label", plan.home.name, "--cores", str(cores), "--memory", f"{memory_mib}MiB"]
