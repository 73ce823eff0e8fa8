"""`pool create`, `pool ls`, `pool show`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from millpond.cli._operator import (
    chain_options,
    connected,
    sender_of,
    sending_options,
    signer_of,
    site_of,
    transactor_config,
)
from millpond.cli._show import json_option, plain, show_json, table, wallet_option
from millpond.protocol.units import format_amount

if TYPE_CHECKING:
    from millpond.chain.deploy.pools import PoolGoal, PoolPlan, PoolView
    from millpond.chain.deployment import CoreContracts
    from millpond.chain.eth import Eth


@click.group("pool")
def pool_command() -> None:
    """Make, list and show pools."""


@pool_command.command("create")
@click.argument("file", type=click.Path(path_type=Path))
@chain_options
@sending_options
@click.option("--dry-run", is_flag=True, help="Show the pool's address and what is left to do; send nothing.")
@wallet_option
@json_option
def pool_create(
    file: Path,
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    wait_s: float,
    finality: int | None,
    max_fee: float | None,
    dry_run: bool,
    wallet: str | None,
    as_json: bool,
) -> None:
    """Make the pool that FILE describes, on a deployment that is verified first. Repeating it changes nothing."""
    say: Callable[[str], None] = (lambda line: click.echo(line, err=True)) if as_json else click.echo
    limits = (finality, max_fee)
    report = asyncio.run(_create(file, rpc_url, chain_id, folder, wait_s, limits, dry_run, wallet, say))
    if as_json:
        show_json(report)
        return
    left = ", ".join(report["steps"])
    if dry_run:
        click.echo(f"pool {report['pool']}: " + (f"to do: {left}" if left else "nothing is left to do"))
        return
    click.echo(f"pool {report['pool']} on chain {report['chain_id']}" + ("" if left else " was there already"))
    click.echo(
        f"export MILLPOND_RPC_URL={report['rpc']} MILLPOND_CHAIN_ID={report['chain_id']} MILLPOND_POOL={report['pool']}"
    )


async def _create(
    file: Path,
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    wait_s: float,
    limits: tuple[int | None, float | None],
    is_dry: bool,
    wallet: str | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    from millpond.chain.deploy.pool_file import load_pool_file
    from millpond.chain.deploy.pools import apply_pool, plan_pool
    from millpond.chain.transactor import Transactor

    described = load_pool_file(file)
    async with connected(rpc_url, chain_id) as eth:
        chain = await eth.chain_id()
        core = _core(eth, folder, chain)
        goal = described.goal(await _decimals(eth, described.token), file.parent)
        if is_dry:
            _check_owner(goal, wallet, chain)
            return _report(chain, eth, await plan_pool(core, goal))
        signer = signer_of(wallet, chain)
        with site_of(folder, chain).opened() as (_, outbox):
            async with Transactor(eth, signer, outbox, transactor_config(*limits)) as transactor:
                return _report(chain, eth, await apply_pool(transactor, core, goal, wait_s, say))


def _check_owner(goal: PoolGoal, wallet: str | None, chain_id: int) -> None:
    from millpond.chain.deploy.pools import check_owner

    sender = sender_of(wallet, chain_id)
    if sender is not None:
        check_owner(goal, sender)


def _report(chain: int, eth: Eth, plan: PoolPlan) -> dict[str, Any]:
    return {
        "chain_id": chain,
        "rpc": eth.rpc.url,
        "pool": plan.address,
        "is_there": plan.is_there,
        "steps": [name for name, _ in plan.steps],
    }


def _core(eth: Eth, folder: Path | None, chain_id: int) -> CoreContracts:
    from millpond.chain.deployment import CoreContracts

    return CoreContracts(eth, site_of(folder, chain_id).load())


async def _decimals(eth: Eth, token: Any) -> int:
    from millpond.chain.deploy.errors import PoolFileError
    from millpond.chain.deploy.status import describe_token

    _, decimals = await describe_token(eth, token)
    if decimals is None:
        raise PoolFileError(
            f"the token {token} does not tell its decimals: is it an ERC-20 token of this chain?", field="token"
        )
    return decimals


@pool_command.command("ls")
@chain_options
@json_option
def pool_ls(rpc_url: str | None, chain_id: int | None, folder: Path | None, as_json: bool) -> None:
    """List the pools of the deployment."""
    pools = asyncio.run(_list(rpc_url, chain_id, folder))
    if as_json:
        show_json(pools)
    elif pools:
        print_pools(pools)
    else:
        click.echo("no pools yet; make one with `millpond pool create pool.yaml`")


async def _list(rpc_url: str | None, chain_id: int | None, folder: Path | None) -> list[PoolView]:
    from millpond.chain.address_book import verify_book
    from millpond.chain.deploy.pools import list_pools

    async with connected(rpc_url, chain_id) as eth:
        core = _core(eth, folder, await eth.chain_id())
        await verify_book(eth, core.book)
        return await list_pools(core)


def print_pools(pools: Sequence[PoolView]) -> None:
    table(
        "pools",
        ("pool", "owner", "node", "token", "state"),
        [(pool.address, pool.owner, pool.node, pool.token, _state(pool)) for pool in pools],
    )


def _state(pool: PoolView) -> str:
    if not pool.paused_until:
        return "running"
    return time.strftime("paused until %Y-%m-%d %H:%M UTC", time.gmtime(pool.paused_until))


@pool_command.command("show")
@click.argument("pool")
@chain_options
@json_option
def pool_show(pool: str, rpc_url: str | None, chain_id: int | None, folder: Path | None, as_json: bool) -> None:
    """Show the rules, owner, node and state of POOL."""
    shown = asyncio.run(_show(pool, rpc_url, chain_id, folder))
    if as_json:
        show_json(shown)
        return
    view, params = shown["pool"], shown["params"]
    rows = [(name, value) for name, value in plain(view).items() if name != "paused_until"]
    rows += [("state", _state(view)), *_rules(params, shown["symbol"], shown["decimals"])]
    table("pool", ("what", "value"), [(name.replace("_", " "), str(value)) for name, value in rows])


def _rules(params: Any, symbol: str, decimals: int) -> list[tuple[str, str]]:
    return [
        ("fee", _percent(params.feePpm)),
        ("burn", _percent(params.burnPpm)),
        ("treasury", params.treasury),
        ("slasher", params.slasher),
        ("exposure", _percent(params.exposurePpm)),
        ("slash cap", _percent(params.slashCapPpm)),
        ("least stake", f"{format_amount(params.minProvision, decimals)} {symbol}"),
        *(
            (name, f"{seconds} s")
            for name, seconds in (
                ("longest lease", params.maxDuration),
                ("claim window", params.claimWindow),
                ("dispute window", params.disputeWindow),
                ("thaw", params.thawPeriod),
                ("deposit", params.depositSeconds),
                ("grace", params.grace),
            )
        ),
    ]


def _percent(ppm: int) -> str:
    return f"{format_amount(ppm, 4)} %"


async def _show(pool: str, rpc_url: str | None, chain_id: int | None, folder: Path | None) -> dict[str, Any]:
    from millpond.chain.address_book import verify_book
    from millpond.chain.deploy.pools import view_pool
    from millpond.chain.deploy.status import describe_token
    from millpond.errors import InputError
    from millpond.protocol.ids import address

    where = address(pool)
    async with connected(rpc_url, chain_id) as eth:
        core = _core(eth, folder, await eth.chain_id())
        await verify_book(eth, core.book)
        if not await core.factory.is_pool(where):
            raise InputError(f"{where} is no pool of this deployment", remedy="List them with `millpond pool ls`.")
        view, params = await view_pool(core, where), await core.pool(where).params()
        symbol, decimals = await describe_token(eth, view.token)
        return {"pool": view, "params": params, "symbol": symbol or "tokens", "decimals": decimals or 0}
