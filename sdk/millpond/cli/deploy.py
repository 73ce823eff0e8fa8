"""`deploy plan`, `deploy apply`, `deploy status`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from millpond.cli._operator import (
    chain_options,
    connected,
    fee_policy,
    no_wallet,
    sender_of,
    sending_options,
    signer_of,
    site_of,
    transactor_config,
)
from millpond.cli._show import json_option, show_json, table, wallet_option
from millpond.protocol.errors import ChainError
from millpond.protocol.units import format_amount

if TYPE_CHECKING:
    from millpond.chain.address_book import AddressBook
    from millpond.chain.deploy.execute import Deployer
    from millpond.chain.deploy.look import Estimate
    from millpond.chain.deploy.planner import Goal, Step
    from millpond.chain.deploy.status import Status
    from millpond.protocol.ids import Address

F = TypeVar("F", bound=Callable[..., Any])
COIN_DECIMALS = 18
EXIT_DIFFERS = ChainError.exit_code


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that say what shall be deployed."""

    owner: str | None
    burn_sink: str | None
    challenge_window: str
    salt: str | None
    tokens: tuple[str, ...]
    has_test_token: bool

    def goal(self, sender: Address) -> Goal:
        """Raises `IdError`, `UnitError`."""
        from millpond.chain.address_book import BURN_SINK, DEFAULT_SALT, DeploymentSettings
        from millpond.chain.deploy.planner import Goal
        from millpond.protocol.ids import address, bytes32
        from millpond.protocol.units import parse_duration

        settings = DeploymentSettings(
            owner=address(self.owner) if self.owner else sender,
            burn_sink=address(self.burn_sink) if self.burn_sink else BURN_SINK,
            challenge_window=parse_duration(self.challenge_window),
            salt=bytes32(self.salt) if self.salt else DEFAULT_SALT,
        )
        return Goal(settings, tuple(address(token) for token in self.tokens), self.has_test_token)


def _goal_options(function: F) -> F:
    for option in (
        click.option("--test-token", "has_test_token", is_flag=True, help="Add a token that anyone may mint, listed."),
        click.option("--list", "tokens", multiple=True, metavar="TOKEN", help="Put a token on the allow-list."),
        click.option("--salt", metavar="BYTES32", help="Another set of addresses than this release's."),
        click.option("--challenge-window", default="7d", show_default=True, help="How long receipts can be disputed."),
        click.option("--burn-sink", metavar="ADDRESS", help="Where burnt fees go (default: 0x…dEaD)."),
        click.option("--owner", metavar="ADDRESS", help="Who lists tokens (default: the wallet's address)."),
    ):
        function = option(function)
    return function


@click.group("deploy")
def deploy_command() -> None:
    """Put the contracts on a chain, and compare them with it.

    The same release with the same options gives the same addresses on every chain. State lies in MILLPOND_HOME/deployments/CHAIN_ID.
    """


@deploy_command.command("plan")
@chain_options
@_goal_options
@click.option("--max-fee", type=float, metavar="GWEI", help="Most that a transaction offers per gas.")
@wallet_option
@json_option
def deploy_plan(
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    max_fee: float | None,
    wallet: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what `apply` would do and cost. Sends nothing and needs no password."""
    report = asyncio.run(_plan(rpc_url, chain_id, folder, max_fee, wallet, Wanted(**options)))
    if as_json:
        show_json(report)
    else:
        _print_plan(report)


async def _plan(
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    max_fee: float | None,
    wallet: str | None,
    wanted: Wanted,
) -> dict[str, Any]:
    from millpond.chain.deploy.journal import check_same
    from millpond.chain.deploy.look import estimate, look
    from millpond.chain.deploy.planner import plan
    from millpond.protocol.ids import address

    async with connected(rpc_url, chain_id) as eth:
        chain = await eth.chain_id()
        sender = sender_of(wallet, chain) or (address(wanted.owner) if wanted.owner else None)
        if sender is None:
            raise no_wallet(chain)
        goal = wanted.goal(sender)
        known = site_of(folder, chain).known()
        sight = await look(eth, goal)
        if known is not None and known.genesis == sight.genesis:
            check_same(known.contracts, goal)
        steps = plan(goal, sight, sender)
        cost = await estimate(eth, steps, sender, fee_policy(max_fee))
        return _plan_report(chain, sender, goal, steps, cost)


def _plan_report(chain: int, sender: Address, goal: Goal, steps: list[Step], cost: Estimate) -> dict[str, Any]:
    gas = {quote.name: quote for quote in cost.quotes}
    rows = [
        {
            "name": step.name,
            "kind": step.kind.value,
            "address": step.address,
            "is_done": step.is_done,
            "gas": gas[step.name].gas if step.name in gas else 0,
            "is_measured": step.name in gas and gas[step.name].is_measured,
            "value": gas[step.name].value if step.name in gas else 0,
        }
        for step in steps
    ]
    return {
        "chain_id": chain,
        "sender": sender,
        "roles": {"Tokens.owner": goal.settings.owner},
        "parameters": {
            "burn_sink": goal.settings.burn_sink,
            "challenge_window": goal.settings.challenge_window,
            "salt": goal.settings.salt,
        },
        "steps": rows,
        "to_do": sum(not step.is_done for step in steps),
        "gas": cost.gas,
        "gas_price": cost.gas_price,
        "cost_expected": cost.expected,
        "cost_at_most": cost.at_most,
        "balance": cost.balance,
        "missing": cost.missing,
    }


def _print_plan(report: dict[str, Any]) -> None:
    click.echo(f"chain {report['chain_id']}, sender {report['sender']}")
    click.echo(f"roles: {_pairs(report['roles'])}")
    click.echo(f"parameters: {_pairs(report['parameters'])}")
    rows = [(row["name"], row["address"], _gas_of(row)) for row in report["steps"]]
    table("steps", ("step", "address", "gas"), rows)
    if not report["to_do"]:
        click.echo("nothing is left to do")
        return
    price = format_amount(report["gas_price"], 9)
    click.echo(
        f"{report['to_do']} to do: {report['gas']:,} gas; about {_coin(report['cost_expected'])} of the chain's coin at {price} gwei, "
        f"at most {_coin(report['cost_at_most'])}; the sender has {_coin(report['balance'])}"
    )
    if report["missing"]:
        click.echo(f"missing: send {_coin(report['missing'] + 10**12 - 1)} to {report['sender']} first")


def _gas_of(row: dict[str, Any]) -> str:
    if row["is_done"]:
        return "there"
    return f"{row['gas']:,}" + ("" if row["is_measured"] else " at most")


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())


def _coin(wei: int) -> str:
    return format_amount(wei, COIN_DECIMALS)


@deploy_command.command("apply")
@chain_options
@_goal_options
@sending_options
@click.option("--replace", "is_replacing", is_flag=True, help="Forget this folder's deployment with other options.")
@wallet_option
@json_option
def deploy_apply(
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    wait_s: float,
    finality: int | None,
    max_fee: float | None,
    is_replacing: bool,
    wallet: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Do what is left of the plan, wait until it is final, write the address book.

    Killed at any moment, the same command goes on where it stopped. Contracts that are there already are compared and taken over.
    """
    from millpond.chain.deploy.execute import ApplyOptions

    apply_options = ApplyOptions(wait_s, is_final_awaited=True, is_replacing=is_replacing)
    say: Callable[[str], None] = (lambda line: click.echo(line, err=True)) if as_json else click.echo
    report = asyncio.run(
        _apply(rpc_url, chain_id, folder, wallet, Wanted(**options), apply_options, (finality, max_fee), say)
    )
    if as_json:
        show_json(report)
        return
    click.echo(
        f"paid {_coin(report['cost'])} of the chain's coin for {report['gas_used']:,} gas; wrote {report['book']}"
    )


async def _apply(
    rpc_url: str | None,
    chain_id: int | None,
    folder: Path | None,
    wallet: str | None,
    wanted: Wanted,
    options: Any,
    limits: tuple[int | None, float | None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    from millpond.chain.deploy.execute import Deployer
    from millpond.chain.deploy.execute import fee_policy as fee_policy_of
    from millpond.chain.transactor import Transactor

    async with connected(rpc_url, chain_id) as eth:
        chain = await eth.chain_id()
        signer, site = signer_of(wallet, chain), site_of(folder, chain)
        with site.opened() as (journal, outbox):
            goal, known = wanted.goal(signer.address), None if options.is_replacing else site.known()
            config = transactor_config(*limits)
            if limits[1] is None:
                config = replace(config, fees=await fee_policy_of(eth, goal, journal, signer.address))
            async with Transactor(eth, signer, outbox, config) as transactor:
                deployer = Deployer(transactor, journal, options, say)
                book = await deployer.apply(goal, known, site.book)
                return await _apply_report(deployer, book, site.book)


async def _apply_report(deployer: Deployer, book: AddressBook, path: Path) -> dict[str, Any]:
    receipts = await deployer.receipts()
    return {
        "chain_id": book.chain_id,
        "contracts": book.contracts,
        "block": book.block,
        "book": str(path),
        "transactions": {name: receipt.tx_hash for name, receipt in receipts.items()},
        "gas_used": sum(receipt.gas_used for receipt in receipts.values()),
        "cost": sum(receipt.cost for receipt in receipts.values()),
    }


@deploy_command.command("status")
@chain_options
@json_option
def deploy_status(rpc_url: str | None, chain_id: int | None, folder: Path | None, as_json: bool) -> None:
    """Compare the address book with the chain. Ends with 0 when all is as released, with 4 when anything differs."""
    found = asyncio.run(_status(rpc_url, chain_id, folder))
    if as_json:
        show_json({"is_clean": found.is_clean, "status": found})
    else:
        _print_status(found)
    if not found.is_clean:
        sys.exit(EXIT_DIFFERS)


async def _status(rpc_url: str | None, chain_id: int | None, folder: Path | None) -> Status:
    from millpond.chain.deploy.status import status

    async with connected(rpc_url, chain_id) as eth:
        return await status(eth, site_of(folder, await eth.chain_id()).load())


def _print_status(found: Status) -> None:
    from millpond.cli.pool import print_pools

    click.echo(f"chain {found.chain_id}, block {found.block}")
    table(
        "contracts",
        ("contract", "address", "state", "bytes", "roles"),
        [(item.name, item.address, item.state, item.size, _pairs(dict(item.roles))) for item in found.contracts],
    )
    if found.tokens:
        table(
            "allow-list",
            ("id", "token", "symbol", "decimals", "deposits"),
            [
                (item.id, item.address, item.symbol or "?", item.decimals, "open" if item.is_listed else "blocked")
                for item in found.tokens
            ],
        )
    if found.pools:
        print_pools(found.pools)
    for note in found.notes:
        click.echo(f"note: {note}")
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    click.echo("all is as released" if found.is_clean else f"{len(found.problems)} problems")
