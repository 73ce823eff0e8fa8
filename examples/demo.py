"""The whole of Millpond on one machine: a pool, two workers, three rented slices, thirty tasks, a crash, receipts, money. Run it by `make demo`.

    python examples/demo.py --out demo-out

Starts a development stack of its own, rents two unequal slices of one device and one of another, and runs the sweep of
`digits_sweep.py` on them. One worker is killed (SIGKILL) in the middle: its tasks run again elsewhere, and it comes back. Then
everything is read back from the chain. Leaves in the folder: `demo.png`, `demo-report.json`, `receipt.json`, and the stack's logs.
Exits 0 only when every check of the report holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import millpond
from _demo import stranger, tables
from _demo.accident import Accident
from _demo.earnings import withdraw_earnings
from _demo.engine import choose_launcher
from _demo.history import read_history
from _demo.ledger import slices
from _demo.picture import draw
from _demo.renter import Rented, rent_and_run
from _demo.report import Report, Run, make_report
from _demo.runner import running_stack
from millpond.chain.address_book import AddressBook
from millpond.dev.accounts import Account, wallet
from millpond.dev.stack import DevStack, StackConfig, address_book
from millpond.protocol.errors import MillpondError
from millpond.protocol.units import format_amount
from millpond.settings import Network

WORKERS = 2


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the files go, where the lines go, and when it began (monotonic seconds)."""

    folder: Path
    out: Console
    began: float

    def title(self, text: str) -> None:
        self.out.print(f"[bold]{text}[/]  [dim]{time.monotonic() - self.began:.0f} s[/]")


def fresh_home(folder: Path) -> Path:
    """A new home for the stack; what an earlier demo left there is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    for name in ("demo.png", "demo-report.json", "receipt.json", "receipt.changed.json"):
        (folder / name).unlink(missing_ok=True)
    return home


def run(demo: Demo, launcher: str) -> Report:
    """Everything between starting the stack and ending it."""
    config = StackConfig(fresh_home(demo.folder), workers=WORKERS, launcher=launcher, chain_port=0, node_port=0)
    demo.title("Start chain, node and two workers; deploy the contracts and a pool")
    with running_stack(config, demo.out) as running:
        network = network_of(running.stack)
        accident = Accident(running.kill, running.restart, WORKERS, demo.out)
        demo.title("Rent three slices and train thirty networks")
        with millpond.Client(network=network, home=config.home) as client:
            rented = rent_and_run(client, network.rpc_url, accident, demo.out)
        demo.title("Read the chain back")
        report = settle_and_report(demo, network, rented, address_book(config.home))
    tables.show(report, rented.pool.token_symbol, rented.pool.token_decimals, demo.out)
    draw(rented.points, subtitle(report), demo.folder / "demo.png")
    return report


def network_of(stack: DevStack) -> Network:
    assert stack.network is not None
    return stack.network


def settle_and_report(demo: Demo, network: Network, rented: Rented, book: Path) -> Report:
    """Pays the provider out, lets a stranger verify a receipt, and reads all blocks."""
    renter, pool, decimals = wallet(Account.RENTER).address, network.controller, rented.pool.token_decimals
    withdrawn = asyncio.run(withdraw_earnings(network.rpc_url, rented.pool, WORKERS))
    demo.out.print(f"  providers withdrew {format_amount(withdrawn, decimals)} {rented.pool.token_symbol}")
    receipt = demo.folder / "receipt.json"
    stranger.write_bundle(rented.bundles[-1], receipt)
    is_convinced, text = stranger.verify(network.rpc_url, pool, receipt)
    demo.out.print(text.rstrip(), markup=False)
    is_noticed = stranger.is_change_noticed(network.rpc_url, pool, receipt)
    history = asyncio.run(read_history(network.rpc_url, AddressBook.load(book), pool, renter))
    result = Run(
        workers=rented.workers,
        killed=rented.killed,
        tasks=len(rented.results),
        succeeded=rented.succeeded,
        attested=attested(rented),
        retried=rented.retried,
        best_accuracy=max(point.accuracy for point in rented.points),
        launcher=rented.launcher,
        device_names=rented.devices,
        refusal=rented.refusal,
        is_stranger_convinced=is_convinced,
        is_change_noticed=is_noticed,
        withdrawn=withdrawn,
        wall_seconds=time.monotonic() - demo.began,
    )
    return make_report(result, history, slices(history, rented.tasks_by_lease), pool, renter)


def attested(rented: Rented) -> int:
    """Receipts whose proofs were checked, as long as the node counts as many."""
    counted = rented.job.attested if rented.job is not None else 0
    return min(counted, len({bundle.signed.receipt.task for bundle in rented.bundles}))


def subtitle(report: Report) -> str:
    shares = " and ".join(f"{row.share / 10:g} %" for row in report.slices)
    return (
        f"{report.run.tasks} tasks on {shares} of {', '.join(report.run.device_names)}, launcher {report.run.launcher}"
    )


def finish(demo: Demo, report: Report) -> int:
    """Writes the report; the exit code."""
    path = demo.folder / "demo-report.json"
    path.write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    demo.out.print()
    demo.title(f"{'Done' if report.is_sound else 'NOT SOUND'}: {path.parent / 'demo.png'}, {path}")
    return 0 if report.is_sound else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="The whole of Millpond on one machine.")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for picture, report and logs")
    parser.add_argument("--launcher", choices=["auto", "docker", "process"], default="auto", help="where tasks run")
    options = parser.parse_args()
    os.environ.pop("MILLPOND_WALLET", None)  # the demo's renter is the development wallet, whoever runs it
    demo = Demo(options.out.resolve(), tables.console(), time.monotonic())
    launcher, reason = choose_launcher() if options.launcher == "auto" else (options.launcher, "as asked for")
    demo.out.print(f"tasks run by the {launcher} launcher: {reason}")
    try:
        report = run(demo, launcher)
    except MillpondError as error:
        demo.out.print(f"[bold red]{error.code}[/]: ", end="")
        demo.out.print(
            f"{error.message}\n{error.remedy}\nLogs: {demo.folder / 'home' / 'dev' / 'logs'}",
            markup=False,
            soft_wrap=True,
        )
        return error.exit_code
    return finish(demo, report)


if __name__ == "__main__":
    sys.exit(main())
