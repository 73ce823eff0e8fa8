"""`millpond-worker init`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from millpond_worker.cli.shared import home_of, home_option, json_option, show_json
from millpond_worker.config import DEVICES, LAUNCHERS, KeyConfig, WorkerConfig, load_config, parse_config
from millpond_worker.errors import WorkerConfigError
from millpond_worker.home import Home, HomeLock

DEFAULT_PRICE = "0.10/h"
UNEQUAL_SHARES = (600, 400)


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The command's options that are no settings of the file."""

    owner: KeyConfig
    payout: str
    stake: str
    prices: str


@click.command(
    "init",
    help="Register as provider, stake, put this machine's devices into a pool, and write worker.toml. Repeatable.",
)
@home_option
@json_option
@click.option("--rpc-url", help="RPC of the chain. Without it, the settings in worker.toml are used.")
@click.option("--chain-id", type=int)
@click.option("--controller", help="The pool's address.")
@click.option("--addresses", metavar="FILE", help="Address book of the chain's contracts.")
@click.option("--node-url", default="", help="The node's URL (default: as announced on chain).")
@click.option(
    "--owner-key", default="", metavar="FILE", help="Keystore of the provider's owner, who stakes; used here only."
)
@click.option("--owner-password-file", default="", metavar="FILE")
@click.option("--owner-dev-key", type=int, help="Public development account in place of --owner-key.")
@click.option("--key", default="", metavar="FILE", help="Keystore of the worker's own key (default: a new one).")
@click.option("--key-password-file", default="", metavar="FILE")
@click.option("--dev-key", type=int, help="Public development account in place of --key.")
@click.option(
    "--payout", default="", metavar="ADDRESS", help="Where earnings go (default: as registered, at first the owner)."
)
@click.option(
    "--stake", default="", metavar="AMOUNT", help="Stake provisioned to the pool (default: enough for every offer)."
)
@click.option("--launcher", type=click.Choice(LAUNCHERS), default="auto")
@click.option(
    "--allow-renter", "allow_renters", multiple=True, metavar="ADDRESS", help="Served by the process launcher."
)
@click.option("--task-image", default="millpond-task:1")
@click.option("--finality", type=int, default=2, help="Blocks after which a block is final.")
@click.option("--device", type=click.Choice(DEVICES), default="auto")
@click.option("--device-label", default="", help="Tells cpu devices of one machine apart.")
@click.option("--cores", type=int, help="Cores of a cpu device.")
@click.option("--memory", default="", help="Memory of a cpu device, for example 8GiB.")
@click.option("--uuid", "uuids", multiple=True, help="Only these devices.")
@click.option("--allow-old-runtime", is_flag=True, help="Accept container runtimes with known holes.")
@click.option(
    "--offer",
    "offers",
    multiple=True,
    metavar="SPEC",
    help="share=600,memory=2GiB,price=0.36/h[,disk=,max_duration=,notice=]",
)
@click.option(
    "--hours", multiple=True, metavar="HH:MM-HH:MM", help="Accept new leases only then; over midnight too. Repeatable."
)
@click.option("--time-zone", default="", metavar="ZONE", help="Of --hours, for example Europe/Berlin (default: UTC).")
@click.option("--price-floor", default="", metavar="PRICE", help="Lowest price of a whole device, for example 0.05/h.")
@click.option("--allow-image", "allow_images", multiple=True, metavar="PATTERN", help="Only these: name or sha256:...")
@click.option("--refuse-image", "refuse_images", multiple=True, metavar="PATTERN", help="Never these.")
@click.option("--refuse-renter", "refuse_renters", multiple=True, metavar="ADDRESS", help="Never these.")
@click.option("--price", default=DEFAULT_PRICE, help="Price of a whole device, where no --offer is given.")
def init_command(folder: str | None, as_json: bool, **options: Any) -> None:
    home = home_of(folder)
    with HomeLock(home):
        owner = KeyConfig(options.pop("owner_key"), options.pop("owner_password_file"), options.pop("owner_dev_key"))
        own = InitOptions(owner, options.pop("payout"), options.pop("stake"), options.pop("price"))
        asyncio.run(_init(home, own, options, as_json=as_json))


async def _init(home: Home, own: InitOptions, options: dict[str, Any], *, as_json: bool) -> None:
    from millpond.chain.eth import Eth
    from millpond.chain.outbox import SqliteOutbox
    from millpond.chain.rpc import Rpc
    from millpond.chain.transactor import Transactor
    from millpond_worker.keys import open_key
    from millpond_worker.settings_file import save_config

    config = _settings(home, own, options)
    owner = open_key(own.owner, home, config.chain_id)
    config = replace(config, provider=owner.address)
    is_new = save_config(config, home.config)
    home.exit.unlink(missing_ok=True)  # whoever joins is not leaving
    async with Rpc(config.rpc_url, chain_id=config.chain_id) as rpc:
        outbox = SqliteOutbox(home.owner_transactions)
        try:
            async with Transactor(Eth(rpc), owner, outbox) as transactor:
                await _prepare(home, config, own, transactor, as_json=as_json, is_new=is_new)
        finally:
            outbox.close()


async def _prepare(
    home: Home, config: WorkerConfig, own: InitOptions, transactor: Any, *, as_json: bool, is_new: bool
) -> None:
    from millpond.protocol.ids import address
    from millpond.protocol.units import format_amount, parse_amount
    from millpond_worker.assemble import chosen_devices, device_ids, open_gpu
    from millpond_worker.init import prepare
    from millpond_worker.keys import open_key
    from millpond_worker.plan import Plan
    from millpond_worker.standing import open_contracts, stake_for

    found = await open_contracts(transactor.eth, config.controller)
    devices = device_ids(config, chosen_devices(config, open_gpu(config)))
    operator = open_key(config.key, home, config.chain_id).address
    least = stake_for(_templates(config, devices, found), found.params)
    stake = parse_amount(own.stake, found.decimals) if own.stake else least
    payout = address(own.payout) if own.payout else None
    plan = Plan(config.provider, operator, payout, devices, stake)
    if not as_json:
        click.echo(f"{'wrote' if is_new else 'kept'} {home.config}")
        click.echo(
            f"owner {plan.owner}, worker {operator}, payout {payout}, stake {format_amount(stake, found.decimals)} {found.symbol}"
        )
    steps = []
    async for done in prepare(found, transactor, plan):
        steps.append({"step": done.step, "tx": done.tx, "gas_used": done.gas_used, "block": done.block})
        if not as_json:
            click.echo(f"  {done.step}: " + (f"{done.tx} ({done.gas_used} gas)" if done.tx else "done before"))
    if as_json:
        show_json(
            {
                "owner": plan.owner,
                "worker": operator,
                "payout": payout,
                "stake": str(stake),
                "devices": list(devices),
                "steps": steps,
            }
        )
    else:
        click.echo(f"ready: millpond-worker up --home {home.folder}")


def _templates(config: WorkerConfig, devices: Any, found: Any) -> list[Any]:
    from millpond_worker.assemble import templates_of

    return list(templates_of(config, devices, found.params.maxDuration, found.decimals))


def _settings(home: Home, own: InitOptions, options: dict[str, Any]) -> WorkerConfig:
    """From the options, else from the file that is there."""
    if not options["rpc_url"]:
        return load_config(home)
    if (own.owner.dev_key is None) == (not own.owner.keystore):
        raise WorkerConfigError(
            "the owner's key is needed", remedy="Give exactly one of --owner-key FILE and --owner-dev-key NUMBER."
        )
    data = {
        name: _plain(value)
        for name, value in options.items()
        if value not in (None, "", (), False) and name != "offers"
    }
    data["memory_mib"] = data.pop("memory", None)
    data["addresses"] = str(Path(options["addresses"] or "").expanduser().absolute()) if options["addresses"] else None
    data |= _key(home, options)
    data["provider"] = "0x" + "11" * 20  # the owner's, known once its key is open
    offers = [_offer(text) for text in options["offers"]] or _default_offers(home, own, options)
    return parse_config({name: value for name, value in data.items() if value is not None} | {"offers": offers}, "init")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _key(home: Home, options: dict[str, Any]) -> dict[str, Any]:
    """The worker's own key as given; else a new one in the home, with its password beside it."""
    if options["dev_key"] is not None:
        return {"dev_key": options["dev_key"]}
    if options["key"]:
        file = options["key_password_file"]
        absolute = {"key": str(Path(options["key"]).expanduser().absolute())}
        return absolute | ({"key_password_file": str(Path(file).expanduser().absolute())} if file else {})
    if not home.operator_key.exists():
        _new_key(home)
    return {"key": home.operator_key.name, "key_password_file": home.operator_password.name}


def _new_key(home: Home) -> None:
    from millpond.chain.keys import new_wallet, save_wallet

    password = secrets.token_urlsafe(24)
    home.operator_password.touch(mode=0o600)
    home.operator_password.write_text(password + "\n")
    save_wallet(new_wallet(), home.operator_key, password)


def _offer(text: str) -> dict[str, Any]:
    parts = [part.partition("=") for part in text.split(",")]
    if not all(sign for _, sign, _ in parts):
        raise WorkerConfigError(
            f"--offer {text!r} cannot be read", remedy="Write it like share=600,memory=2GiB,price=0.36/h."
        )
    whole = {"share", "cap_per_renter"}
    return {
        name.strip(): int(value) if name.strip() in whole and value.isdigit() else value for name, _, value in parts
    }


def _default_offers(home: Home, own: InitOptions, options: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Two unequal slices of the smallest device, each at its part of the whole device's price."""
    from decimal import Decimal

    from millpond.protocol.units import parse_memory
    from millpond_worker.devices.discover import open_devices
    from millpond_worker.devices.port import DeviceKind

    kind = None if options["device"] == "auto" else DeviceKind(options["device"])
    memory = parse_memory(options["memory"]) if options["memory"] else None
    gpu = open_devices(kind, label=options["device_label"], cores=options["cores"], memory_mib=memory)
    least = min(info.memory_mib for info in gpu.list_devices())
    gpu.close()
    amount, _, unit = own.prices.partition("/")
    return [
        {
            "share": share,
            "memory": f"{least * share // 1000}MiB",
            "price": f"{Decimal(amount) * share / 1000}/{unit or 'h'}",
        }
        for share in UNEQUAL_SHARES
    ]
