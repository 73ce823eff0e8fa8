"""What must hold whatever crashes: watched as it happens, and asked when everything has come to rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from sim_loop import Life
from sim_world import FUNDS, PRICE, TICK

from millpond.protocol import wire
from millpond.protocol.ids import Bytes32
from millpond.protocol.link import AttemptEnded, Report, VoucherKept
from millpond.protocol.messages import AttemptStatus, Submit, TaskResult, VoucherNote
from millpond.protocol.receipts import receipt_leaf
from millpond.protocol.values import decode
from millpond.protocol.views import LeaseState
from millpond_node.machine.tasks import Stage
from millpond_worker.machine.events import LeaseStatus

if TYPE_CHECKING:
    from sim_run import Sim

LANE = "node"
SLACK_S = 2
"""Meters count whole seconds."""


class Watch:
    """Hears what leaves every process."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self.receipts: dict[tuple[str, str, int], set[bytes]] = {}
        self.acknowledged: set[Bytes32] = set()
        self.signed: Counter[str] = Counter()
        self.node_kept: Counter[str] = Counter()
        self.worker_kept: Counter[str] = Counter()
        self.kept_by: dict[tuple[str, str], int] = {}
        self.results: dict[Bytes32, TaskResult] = {}
        self.deaths: Counter[str] = Counter()
        self.wrong: list[str] = []

    def died(self, name: str) -> None:
        self.deaths[name] += 1

    def worker_says(self, life: Life, frame: bytes) -> None:
        if b'"report"' not in frame:
            return
        for message in wire.read_worker_messages(frame):
            if not isinstance(message, Report):
                continue
            if message.seq >= self._sim.disks[life.name].next_positions.get(LANE, 1):
                self.wrong.append(f"report {message.seq} of {life} left before it was on disk")
            if isinstance(message.body, AttemptEnded):
                receipt = message.body.signed.receipt
                key = (receipt.lease, receipt.task, receipt.attempt)
                self.receipts.setdefault(key, set()).add(receipt_leaf(message.body.signed))
            elif isinstance(message.body, VoucherKept):
                kept = max(self.worker_kept[message.body.lease], message.body.cumulative)
                self.worker_kept[message.body.lease] = self.kept_by[life.name, message.body.lease] = kept

    def worker_revived(self, life: Life, agent: Any) -> None:
        """What a worker promised, its next life knows of."""
        for row in agent.state.leases.values():
            if row.cumulative < self.kept_by.get((life.name, row.lease), 0):
                self.wrong.append(f"{life} has forgotten a voucher of lease {row.lease[:10]}")
        if len(agent.reports) != len(self._sim.disks[life.name].lanes.get(LANE, {})):
            self.wrong.append(f"{life} has forgotten reports that are not acknowledged")

    def node_says(self, text: str) -> None:
        """An acknowledgement must be of what is on disk: a node that dies here would ask for it again, and it is gone."""
        for message in json.loads(f"[{text.strip().replace(chr(10), ',')}]") if '"ack"' in text else []:
            for item in message if isinstance(message, list) else [message]:
                if item.get("kind") == "ack":
                    on_disk = [int(value) for value in self._sim.disks["node"].tables.get("worker", {}).values()]
                    if item["seq"] > max(on_disk, default=0):
                        self.wrong.append(f"report {item['seq']} was acknowledged before it was on disk")

    def renter_says(self, path: str, body: bytes) -> None:
        if path.endswith("/vouchers"):
            note = wire.read(VoucherNote, body)
            self.renter_signed(note.lease, note.cumulative)

    def renter_signed(self, lease: str, cumulative: int) -> None:
        self.signed[lease] = max(self.signed[lease], cumulative)

    def node_accepted(self, path: str, body: bytes, status: int) -> None:
        if status >= 300:
            return
        if path.endswith("/tasks"):
            self.acknowledged.update(spec.id for spec in wire.read(Submit, body).tasks)
        elif path.endswith("/vouchers"):
            note = wire.read(VoucherNote, body)
            self.node_kept[note.lease] = max(self.node_kept[note.lease], note.cumulative)

    def renter_got(self, result: TaskResult) -> None:
        before = self.results.setdefault(result.task, result)
        if (before.cursor, before.value, before.signed) != (result.cursor, result.value, result.signed):
            self.wrong.append(f"two results of task {result.task[:10]}")


def is_quiet(sim: Sim) -> bool:
    """Whether nothing is left to do for anybody."""
    if not sim.renter_disk.is_done or sim.node is None or any(life.is_dead for life in sim.lives.values()):
        return False
    return not _unfinished(sim)


def _unfinished(sim: Sim) -> list[str]:
    assert sim.node is not None
    books = sim.node.agent.core.books
    found = [
        f"lease {lease[:10]} is {it.fact.status.name}" for lease, it in sim.ledger.on_chain.items() if not _over(it)
    ]
    found += [
        f"the node's lease {it.lease[:10]} is {it.state}"
        for it in books.leases.records.values()
        if it.state is not LeaseState.CLOSED
    ]
    for job in books.desk.jobs.values():
        if job.open or job.final < job.receipts:
            found.append(f"job {job.id[:10]}: {job.open} open, {job.receipts} receipts, {job.final} final")
    for name, agent in sim.workers.items():
        if agent.state.leases or agent.state.attempts or len(agent.reports):
            held = [row.state.value for row in agent.state.leases.values()]
            found.append(
                f"{name} holds leases {held}, {len(agent.state.attempts)} attempts, {len(agent.reports)} reports"
            )
    return found


def _over(it: Any) -> bool:
    return it.fact.status is LeaseStatus.RELEASED and it.fact.is_settled


def violations(sim: Sim) -> list[str]:
    """Everything that is wrong at the end of a run."""
    found = [*sim.broken, *sim.watch.wrong]
    if not sim.renter_disk.is_done:
        found.append(f"the renter is not done: {sim.notes[-1:]}")
    if sim.node is not None:
        found += [f"without an end: {what}" for what in _unfinished(sim)]
        found += _tasks(sim)
        found += _receipts(sim)
    found += [
        f"a container is left on {name}: {it.kind}" for name, machine in sim.machines.items() for it in machine.owned()
    ]
    return found + _money(sim)


def _tasks(sim: Sim) -> list[str]:
    found, results = [], sim.renter_disk.results
    for task in sorted(sim.watch.acknowledged):
        result = results.get(task)
        if result is None or result.signed is None:
            found.append(f"acknowledged task {task[:10]} is lost: {result.failure if result else 'no result'}")
        elif result.signed.receipt.status != AttemptStatus.SUCCEEDED:
            found.append(f"task {task[:10]} failed: {result.failure}")
        elif result.value is not None and decode(result.value) != 2 * result.index:
            found.append(f"task {task[:10]} has the value of another")
    if len(results) != sum(sim.scenario.tasks):
        found.append(f"{len(results)} results of {sum(sim.scenario.tasks)} tasks")
    return found


def _receipts(sim: Sim) -> list[str]:
    assert sim.node is not None
    found = [
        f"{len(leaves)} receipts for {key[1][:10]} #{key[2]}"
        for key, leaves in sim.watch.receipts.items()
        if len(leaves) > 1
    ]
    postings, paid = sim.node.agent.settlement.postings.by_root, Counter[str]()
    for root in sim.ledger.roots:
        posting = postings.get(root)
        if posting is None:
            found.append(f"the node forgot a batch it posted: {root[:10]}")
        else:
            paid.update(task for _, task, _ in posting.refs)
            if posting.stage is not Stage.FINAL:
                found.append(f"batch {root[:10]} is not final")
    found += [f"task {task[:10]} is attested {times} times" for task, times in paid.items() if times > 1]
    found += [f"task {task[:10]} is not attested" for task in sim.watch.acknowledged if not paid[task]]
    return found


def _money(sim: Sim) -> list[str]:
    found, watch = [], sim.watch
    if sim.ledger.money() != FUNDS:
        found.append(f"money is not conserved: {sim.ledger.money()} of {FUNDS}")
    for lease in sim.ledger.on_chain:
        fact = sim.ledger.on_chain[lease].fact
        collected, accrued = fact.collected, (fact.closed_at - fact.opened_at) * PRICE
        served = sum(machine.served.get(lease, 0.0) for machine in sim.machines.values())
        troubles = 1 + len(sim.faults)
        most = int((served + SLACK_S * troubles + TICK * troubles) * PRICE)
        if collected > watch.signed[lease]:
            found.append(f"lease {lease[:10]}: {collected} collected, {watch.signed[lease]} signed")
        if watch.signed[lease] > max(1, most):
            found.append(f"lease {lease[:10]}: {watch.signed[lease]} signed, {served:.1f} s served")
        for who, kept in (("node", watch.node_kept), ("worker", watch.worker_kept)):
            if collected < min(kept[lease], accrued):
                found.append(f"lease {lease[:10]}: the {who} kept {kept[lease]}, {collected} were collected")
    return found
