"""The renter: funds, rents, runs the sweep of `digits_sweep.py` through the loss of a worker, waits for the receipts, closes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import digits_sweep
import millpond
from _demo.accident import Accident
from _demo.third import biggest, try_third
from digits_sweep import Point
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import AttemptStatus, TaskResult
from millpond.protocol.receipts import check_bundle
from millpond.protocol.units import format_amount
from millpond.protocol.views import JobView, PoolView, ReceiptBundle

WANTED = (millpond.Vgpu(share=500), millpond.Vgpu(share=300), millpond.Vgpu(share=500))
"""Two unequal slices fill one device; the last finds room on the other only."""
DURATION_S = 900
ATTEST_TIMEOUT_S = 60.0
POLL_S = 0.5
PLAIN_STEP = 5


@dataclass(slots=True)
class Rented:
    """What the renter ends with."""

    pool: PoolView
    launcher: str = ""
    devices: tuple[str, ...] = ()
    workers: int = 0
    killed: str = ""
    refusal: str = ""
    points: list[Point] = field(default_factory=list)
    results: list[TaskResult] = field(default_factory=list)
    job: JobView | None = None
    bundles: list[ReceiptBundle] = field(default_factory=list)

    @property
    def tasks_by_lease(self) -> Counter[Bytes32]:
        return Counter(bundle.signed.receipt.lease for bundle in self.bundles)

    @property
    def retried(self) -> int:
        """Attempts beyond the first of their task, by the receipts."""
        return sum(bundle.signed.receipt.attempt - 1 for bundle in self.bundles)

    @property
    def succeeded(self) -> int:
        """By the receipts, which the workers signed."""
        return sum(bundle.signed.receipt.status == AttemptStatus.SUCCEEDED for bundle in self.bundles)


class Board:
    """Live progress: a bar for the job and for each slice; a line every few tasks where the output is no terminal."""

    def __init__(self, leases: millpond.LeaseSet, total: int, out: Console) -> None:
        self._names = {
            lease.id: f"slice {number} of {lease.share / 10:g} %" for number, lease in enumerate(leases, start=1)
        }
        self._counts: Counter[Bytes32] = Counter()
        self._total, self._out = total, out
        columns = (TextColumn("  {task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bars = Progress(*columns, console=out, disable=not out.is_terminal)
        self._all = self.bars.add_task("all tasks", total=total)
        self._lines = {lease: self.bars.add_task(name, total=total) for lease, name in self._names.items()}

    def arrived(self, result: TaskResult) -> None:
        lease = result.signed.receipt.lease if result.signed is not None else None
        self.bars.advance(self._all)
        if lease in self._lines:
            self._counts[lease] += 1
            self.bars.advance(self._lines[lease])
        done = result.cursor
        if not self._out.is_terminal and (done % PLAIN_STEP == 0 or done == self._total):
            parts = ", ".join(f"{name}: {self._counts[key]}" for key, name in self._names.items())
            self._out.print(f"  {done:>3} of {self._total} tasks ended  ({parts})")


def rent_and_run(client: millpond.Client, rpc_url: str, accident: Accident, out: Console) -> Rented:
    """The whole of the renter's part. Raises the errors of `millpond`."""
    done = Rented(client.pool)
    offers = [view for view in client.offers() if view.is_online]
    done.launcher = "+".join(sorted({view.launcher for view in offers}))
    done.devices = tuple(sorted({view.device.name for view in offers}))
    done.workers = len({view.provider for view in offers})
    _fund(client, out)
    with client.rent(*WANTED, duration=DURATION_S) as leases:
        views = [lease.view for lease in leases]
        for view in views:
            offer = view.offer.offer
            out.print(
                f"  leased  {view.lease[:10]}...  {offer.share / 10:g} % and {offer.memoryMiB} MiB of {offer.device[:10]}..."
            )
        full = Counter(view.offer.offer.device for view in views).most_common(1)[0][0]
        error = asyncio.run(try_third(rpc_url, client.pool, biggest(offers, full), DURATION_S))
        done.refusal = f"{error.code}: {error.message}" if error is not None else ""
        out.print(f"  a third slice of the full device is refused on chain: {done.refusal or 'NOT REFUSED'}")
        accident.choose([view for view in views if view.offer.offer.device != full])
        _sweep(client, leases, accident, done, out)
        accident.repair()
        done.killed = accident.name
        done.job = _wait_attested(leases)
        done.bundles = _receipts(client, done.results)
        out.print(f"  {done.job.attested} receipts attested; closing")
    return done


def _fund(client: millpond.Client, out: Console) -> None:
    """Exactly what the leases can cost."""
    most, symbol, decimals = (
        client.quote(*WANTED, duration=DURATION_S),
        client.pool.token_symbol,
        client.pool.token_decimals,
    )
    client.fund(most)
    out.print(f"  funded  Escrow with {format_amount(most, decimals)} {symbol}, the most that the leases can cost")


def _sweep(client: millpond.Client, leases: millpond.LeaseSet, accident: Accident, done: Rented, out: Console) -> None:
    board = Board(leases, len(digits_sweep.HIDDEN) * len(digits_sweep.RATES), out)

    def arrived(result: TaskResult) -> None:
        done.results.append(result)
        board.arrived(result)
        accident.arrived(result)

    with board.bars:
        done.points = digits_sweep.sweep(client, leases, on_result=arrived)


def _wait_attested(leases: millpond.LeaseSet) -> JobView:
    """Waits until the chain has a root over every receipt; returns the job as it is then, or after a minute."""
    deadline = time.monotonic() + ATTEST_TIMEOUT_S
    while True:
        job = leases.last_job()
        if job is None or job.attested >= job.tasks or time.monotonic() > deadline:
            assert job is not None
            return job
        time.sleep(POLL_S)


def _receipts(client: millpond.Client, results: list[TaskResult]) -> list[ReceiptBundle]:
    """Every task's receipt with its proof, each checked."""
    signed = [result.signed for result in results if result.signed is not None]
    bundles = [client.receipt(item.receipt.task, item.receipt.attempt) for item in signed]
    for bundle in bundles:
        check_bundle(bundle)
    return bundles
