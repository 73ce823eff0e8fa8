"""Deploys the core contracts, by the code that `millpond dev up` uses; repeating it changes nothing.

    python scripts/deploy.py plan|apply|verify --rpc URL [--keystore FILE] [--owner ADDRESS] [--book FILE] [--development]
    brownie run deploy --network NAME      # the same, on Brownie's network; MILLPOND_DEPLOY holds further options

The keystore's password comes from MILLPOND_WALLET_PASSWORD or is asked for. Without a keystore the sender is Anvil's first account,
which works on chain 31337 only. The address book is build/deployments/CHAIN_ID.json unless named.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.chain.address_book import AddressBook, DeploymentSettings
    from millpond.chain.eth import Eth
    from millpond.chain.keys import Wallet

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/deployments"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("plan", "apply", "verify"))
    parser.add_argument("--rpc", required=True, metavar="URL")
    parser.add_argument("--keystore", type=Path, metavar="FILE")
    parser.add_argument("--owner", metavar="ADDRESS", help="who lists tokens (default: the sender)")
    parser.add_argument("--book", type=Path, metavar="FILE")
    parser.add_argument(
        "--development", action="store_true", help="add a token that anyone may mint (chain 31337 only)"
    )
    return parser.parse_args(arguments)


def sender(keystore: Path | None, chain_id: int) -> Wallet:
    from millpond.chain.keys import development_wallet, load_key

    if keystore is None:
        return development_wallet(0, chain_id)
    password = os.environ.get("MILLPOND_WALLET_PASSWORD")
    wallet = load_key(keystore, getpass.getpass("Password: ") if password is None else password)
    wallet.check_chain(chain_id)
    return wallet


async def act(options: argparse.Namespace) -> None:
    from millpond.chain.address_book import AddressBook, DeploymentSettings, verify_book
    from millpond.chain.deployment import plan
    from millpond.chain.eth import Eth
    from millpond.chain.rpc import Rpc
    from millpond.protocol.ids import address

    async with Rpc(options.rpc) as rpc:
        eth = Eth(rpc)
        chain_id = await eth.chain_id()
        book_file = options.book or FOLDER / f"{chain_id}.json"
        if options.action == "verify":
            await verify_book(eth, AddressBook.load(book_file))
            print(f"{book_file}: every contract is this release's")
            return
        wallet = sender(options.keystore, chain_id)
        settings = DeploymentSettings(address(options.owner) if options.owner else wallet.address)
        for step in await plan(eth, settings):
            print(f"{step.name:<13} {step.address}  {'there' if step.is_done else 'to deploy'}")
        if options.action == "apply":
            await deploy(eth, wallet, settings, book_file, options.development)


async def deploy(eth: Eth, wallet: Wallet, settings: DeploymentSettings, book_file: Path, is_development: bool) -> None:
    from millpond.chain.deployment import apply, apply_development
    from millpond.chain.outbox import SqliteOutbox
    from millpond.chain.transactor import Transactor

    outbox = SqliteOutbox(book_file.with_suffix(".outbox.db"))
    try:
        async with Transactor(eth, wallet, outbox) as transactor:
            book = await apply(transactor, settings, earlier_book(book_file))
            if is_development:
                book = await apply_development(transactor, book)
            book.save(book_file)
            for row in transactor.rows():
                print(f"{row.label:<24} {row.gas_used:>10,} gas")
    finally:
        outbox.close()
    print(f"wrote {book_file}")


def earlier_book(file: Path) -> AddressBook | None:
    from millpond.chain.address_book import AddressBook

    return AddressBook.load(file) if file.exists() else None


def run(arguments: list[str]) -> int:
    from millpond.protocol.errors import MillpondError

    try:
        asyncio.run(act(parse(arguments)))
    except MillpondError as error:
        print(f"{error}\n{error.remedy}", file=sys.stderr)
        return error.exit_code
    return 0


def main() -> None:
    """Brownie's entry: its own environment has no Millpond, so the project's does the work on Brownie's network."""
    from brownie import network, web3

    url = web3.provider.endpoint_uri
    python = ROOT / ".venv/bin/python"
    extra = shlex.split(os.environ.get("MILLPOND_DEPLOY", ""))
    print(f"Deploying to {network.show_active()} at {url}")
    subprocess.run([str(python), __file__, "apply", "--rpc", url, *extra], check=True)


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
