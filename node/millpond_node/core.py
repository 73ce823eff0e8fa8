"""What all parts of the node share: settings, ports, books, and the one place where machines run and commands are performed."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from millpond.protocol import wire
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import DeviceEntry, SignedOffer
from millpond.protocol.signing import Domain
from millpond.storage.journal import Journal
from millpond_node.chain.port import Chain, PoolFacts
from millpond_node.clock import Clock
from millpond_node.config import NodeConfig
from millpond_node.durable import Durable
from millpond_node.machine import dispatch, leases, requests, workers
from millpond_node.machine.commands import Changed, Command
from millpond_node.machine.leases import LeaseEvent, Leases
from millpond_node.machine.requests import RequestEvent, Requests
from millpond_node.machine.tasks import Desk, TaskEvent
from millpond_node.machine.workers import WorkerEvent, Workers
from millpond_node.policy.port import Delta, Policy, SliceFreed, SliceTaken
from millpond_node.signals import Signals

log = logging.getLogger("millpond.node")
C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Offered:
    """An offer a connected worker stands for."""

    hash: Bytes32
    signed: SignedOffer
    worker: Address
    provider: Address
    device: DeviceEntry
    launcher: str


@dataclass(slots=True)
class Books:
    """All state of the machines."""

    requests: Requests = field(default_factory=Requests)
    leases: Leases = field(default_factory=Leases)
    desk: Desk = field(default_factory=Desk)
    workers: Workers = field(default_factory=Workers)
    offers: dict[Bytes32, Offered] = field(default_factory=dict)


class Core:
    """Events go in by `on_...`; the commands that come out go to whom `performs` registered."""

    def __init__(
        self,
        config: NodeConfig,
        facts: PoolFacts,
        key: bytes,
        chain: Chain,
        journal: Journal,
        policy: Policy,
        clock: Clock,
    ) -> None:
        self.config, self.facts, self.key = config, facts, key
        self.chain, self.journal, self.policy, self.clock = chain, journal, policy, clock
        self.durable = Durable(journal)
        self.signals = Signals()
        self.books = Books()
        self.counters: Counter[str] = Counter()
        self.head, self.head_time = 0, 0
        self.envelope_domain = Domain(facts.chain_id, facts.controller)
        self.escrow_domain = Domain(facts.chain_id, facts.escrow)
        self.receipt_domain = Domain(facts.chain_id, facts.attestations)
        self._performers: dict[type[Any], Callable[[Any], None]] = {}
        self._watchers: dict[type[Any], list[Callable[[Any], None]]] = {}
        self.performs(Changed, lambda command: self.signals.notify(command.key))

    def performs(self, kind: type[C], performer: Callable[[C], None]) -> None:
        """Registers who performs commands of a kind; each kind has one performer."""
        self._performers[kind] = performer

    def watches(self, kind: type[C], watcher: Callable[[C], None]) -> None:
        """Registers who hears of commands of a kind once they are performed."""
        self._watchers.setdefault(kind, []).append(watcher)

    def perform(self, commands: Sequence[Command]) -> None:
        performers, watchers = self._performers, self._watchers
        for command in commands:
            performers[type(command)](command)
            for watcher in watchers.get(type(command), ()):
                watcher(command)
        if commands:
            self.durable.touch()

    def on_request(self, event: RequestEvent) -> None:
        self.perform(requests.handle(self.books.requests, event, self.now()))

    def on_lease(self, event: LeaseEvent) -> None:
        self.perform(leases.handle(self.books.leases, event, self.now()))

    def on_task(self, event: TaskEvent) -> None:
        self.perform(dispatch.handle(self.books.desk, event, self.clock.monotonic()))

    def on_worker(self, event: WorkerEvent) -> list[Command]:
        """The commands, not yet performed: a welcome goes before them."""
        return workers.handle(self.books.workers, event, self.clock.monotonic())

    def now(self) -> int:
        """Unix seconds: the later of this machine's clock and the chain's newest block."""
        return max(self.clock.wall(), self.head_time)

    def tell(self, delta: Delta) -> None:
        """Applies a delta to the policy, and chains it into the journal so that anyone can replay the decisions."""
        self.policy.apply(delta)
        self.durable.batch.append_event(type(delta).__name__, wire.write(delta))
        if isinstance(delta, SliceTaken):
            self.durable.batch.put("slice", delta.lease, wire.write(delta))
        elif isinstance(delta, SliceFreed):
            self.durable.batch.delete("slice", delta.lease)
        self.durable.touch()

    def record(self, kind: str, body: dict[str, Any]) -> None:
        """Chains a decision or another fact into the journal."""
        self.durable.batch.append_event(kind, json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
        self.durable.touch()
