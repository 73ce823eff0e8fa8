"""`millpond-worker exit`."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import Any

import click

from millpond_worker import control
from millpond_worker.cli.shared import home_of, home_option, json_option, show_json
from millpond_worker.config import KeyConfig, WorkerConfig, load_config
from millpond_worker.errors import WorkerConfigError
from millpond_worker.home import Home, HomeLock, is_running, write_json

ASK_S = 15.0


@click.command(
    "exit",
    help="Leave the pool and get everything out: no new leases, close, collect, release, take the devices out, thaw and withdraw. "
    "Does what is due now and says what waits until when; run it again, or --wait. Repeatable at every step.",
)
@home_option
@json_option
@click.option("--owner-key", default="", metavar="FILE", help="Keystore of the provider's owner.")
@click.option("--owner-password-file", default="", metavar="FILE")
@click.option("--owner-dev-key", type=int, help="Public development account in place of --owner-key.")
@click.option("--to", default="", metavar="ADDRESS", help="Where the stake goes (default: the owner).")
@click.option("--notice", "gives_notice", is_flag=True, help="Give running leases the notice that was promised them.")
@click.option("--wait", is_flag=True, help="Stay until everything is out.")
@click.option(
    "--poll", "poll_s", default=5.0, show_default=True, metavar="SECONDS", help="Pause between looks with --wait."
)
def exit_command(
    folder: str | None,
    as_json: bool,
    owner_key: str,
    owner_password_file: str,
    owner_dev_key: int | None,
    to: str,
    gives_notice: bool,
    wait: bool,
    poll_s: float,
) -> None:
    home = home_of(folder)
    config = load_config(home)
    owner = KeyConfig(owner_key, owner_password_file, owner_dev_key)
    if bool(owner_key) == (owner_dev_key is not None):
        raise WorkerConfigError(
            "the owner's key is needed", remedy="Give exactly one of --owner-key FILE and --owner-dev-key NUMBER."
        )
    did: list[dict[str, Any]] = []
    with HomeLock(home, home.exit_lock):
        write_json(home.exit, {"gives_notice": gives_notice})
        while True:
            waits = asyncio.run(_pass(home, config, owner, to, did, gives_notice=gives_notice, as_json=as_json))
            if not wait or not waits:
                break
            _show_waits(waits, as_json=as_json)
            time.sleep(poll_s)
        if not waits:
            home.exit.unlink(missing_ok=True)
    _show(did, waits, as_json=as_json)


async def _pass(
    home: Home,
    config: WorkerConfig,
    owner: KeyConfig,
    to: str,
    did: list[dict[str, Any]],
    *,
    gives_notice: bool,
    as_json: bool,
) -> list[dict[str, Any]]:
    """One go: everything that is due now. What waits afterwards."""
    from millpond.chain.eth import Eth
    from millpond.chain.outbox import SqliteOutbox
    from millpond.chain.rpc import Rpc
    from millpond.chain.transactor import Transactor
    from millpond.protocol.ids import address
    from millpond_worker.assemble import chosen_devices, device_ids, open_gpu
    from millpond_worker.exit import Leaver, leave, what_waits
    from millpond_worker.init import finish_earlier
    from millpond_worker.keys import open_key
    from millpond_worker.standing import open_contracts

    wallet = open_key(owner, home, config.chain_id)
    if wallet.address != config.provider:
        raise WorkerConfigError(f"the key is {wallet.address}'s, the provider is {config.provider}")
    devices = list(device_ids(config, chosen_devices(config, open_gpu(config))))
    who = Leaver(config.provider, address(to) if to else config.provider, devices, gives_notice)
    is_live = _drain(home, gives_notice=gives_notice)
    with nullcontext() if is_live else HomeLock(home):
        ties = [] if is_live else await _settle(home, config, who)
        async with Rpc(config.rpc_url, chain_id=config.chain_id) as rpc:
            outbox = SqliteOutbox(home.exit_transactions)
            try:
                async with Transactor(Eth(rpc), wallet, outbox) as transactor:
                    await finish_earlier(transactor)
                    found = await open_contracts(transactor.eth, config.controller)
                    async for done in leave(found, transactor, who, ties):
                        did.append({"step": done.step, "tx": done.tx, "gas_used": done.gas_used})
                        if not as_json:
                            click.echo(f"  {done.step}: {done.tx} ({done.gas_used} gas)")
                    waits = await what_waits(found, who, ties)
            finally:
                outbox.close()
    shown = [{"step": item.step, "until": item.until, "why": item.why} for item in waits]
    if is_live:
        shown.insert(0, {"step": "drain", "until": 0, "why": "the worker still runs, until its last lease has ended"})
    return shown


def _drain(home: Home, *, gives_notice: bool) -> bool:
    """Tells a running worker to take nothing new; whether one runs."""
    if not is_running(home):
        return False
    control.ask(home, "leave" if gives_notice else "drain", ASK_S)
    return True


async def _settle(home: Home, config: WorkerConfig, who: Any) -> list[Any]:
    from millpond_worker.assemble import open_chain
    from millpond_worker.exit import kept_rows, settle_leases
    from millpond_worker.machine.model import Terms

    rows = kept_rows(home)
    if not rows:
        return []
    chain = open_chain(config, home)
    try:
        pool = await chain.pool()
        terms = Terms(
            *(pool.chain_id, pool.controller, pool.escrow, config.provider, frozenset(), pool.grace),
            *(pool.claim_window, pool.dispute_window),
        )
        return await settle_leases(chain, terms, rows, who)
    finally:
        await chain.close()


def _show(did: list[dict[str, Any]], waits: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json({"is_out": not waits, "did": did, "waits": waits})
    elif waits:
        _show_waits(waits, as_json=False)
        click.echo("run the same command again then, or with --wait")
    else:
        click.echo("everything is out")


def _show_waits(waits: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        return
    for item in waits:
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(item["until"])) if item["until"] else "it ends"
        click.echo(f"  {item['step']} waits until {until}: {item['why']}")
