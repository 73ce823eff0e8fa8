"""The agent: events in, commands performed. Everything promised leaves after its commit.

`post` may be called from anywhere in the loop's thread. The rows that events change, and the reports they make, are committed
together by one task: whatever queued during the last sync is the next group.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from millpond.protocol.link import AttemptLost
from millpond.protocol.signing import Domain
from millpond.storage.journal import Batch
from millpond_worker.agent.background import Background
from millpond_worker.agent.leases import LeaseDesk
from millpond_worker.agent.parts import Parts
from millpond_worker.agent.reports import Reports
from millpond_worker.agent.tasks import TaskDesk
from millpond_worker.machine import rows
from millpond_worker.machine.commands import (
    Adopt,
    Clear,
    Command,
    DropReports,
    Execute,
    Fetch,
    Note,
    Report,
    Seal,
    SendTx,
    Stop,
)
from millpond_worker.machine.events import Committed, Event
from millpond_worker.machine.handle import handle
from millpond_worker.machine.model import Terms, WorkerState

log = logging.getLogger("millpond_worker")
LOST = "attempt %d of task %s of lease %s is lost: %s"


class Agent:
    """State, journal and desks of one worker. `crashed` ends with the error that must end the process."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        pool, identity = parts.pool, parts.identity
        self.reports = Reports(parts.journal, Domain(pool.chain_id, pool.attestations), identity.wallet.key)
        self.state = WorkerState(_terms(parts), next_seq=self.reports.added + 1)
        rows.load(
            self.state, parts.journal.scan(rows.LEASE_TABLE), parts.journal.scan(rows.TASK_TABLE), self.reports.acked
        )
        self.background = Background(self.crash)
        self.leases = LeaseDesk(parts, self.state, self.post, self.background)
        self.tasks = TaskDesk(parts, self.state, self.post, self.background, self.leases)
        self.crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._is_deaf = self._is_broken = False
        self._dirty = asyncio.Event()
        self._after_commit: list[SendTx] = []

    def post(self, event: Event) -> None:
        """Handles an event, and all that follows from it at once."""
        if self._is_deaf:
            return
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events:
                for command in handle(self.state, self._events.popleft(), self.parts.clock.now()):
                    self._perform(command)
        except BaseException as error:
            self._break(error)
            raise
        finally:
            self._is_handling = False
        self._dirty.set()

    def crash(self, error: BaseException) -> None:
        if not self.crashed.done():
            self.crashed.set_exception(error)

    def _break(self, error: BaseException) -> None:
        """A defect in the machines: what they changed by halves is never written, as if the process had been killed here."""
        self._is_deaf = self._is_broken = True
        self.crash(error)

    async def commit_forever(self) -> None:
        """Raises `JournalFailedError`, after which nothing may be promised any more."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self.commit()

    async def commit(self) -> None:
        """Makes durable what changed; then lets go what waited for it."""
        if self._is_broken:
            return
        batch = Batch()
        for change in rows.take_changes(self.state):
            if change.value is not None:
                batch.put(change.table, change.key, change.value)
            elif change.key.endswith("/"):
                batch.delete_prefix(change.table, change.key)
            else:
                batch.delete(change.table, change.key)
        seq = self.reports.write(batch)
        waiting, self._after_commit = self._after_commit, []
        if batch:
            await self.parts.journal.commit(batch)
        if seq > self.reports.committed:
            self.post(Committed(seq))
            self.reports.commit(seq)
        for command in waiting:
            self.leases.perform(command)

    async def close(self) -> None:
        """Leaves no container and nothing uncommitted. What the ending work still says is no news: the next run finds out."""
        self._is_deaf = True
        await self.background.close()
        await self.leases.close()
        await self.commit()

    def _perform(self, command: Command) -> None:
        match command:
            case Report(seq=seq, body=body):
                self.reports.add(seq, body)
                if isinstance(body, AttemptLost):
                    log.warning(LOST, body.attempt, body.task, body.lease, body.reason)
            case DropReports(seq=seq):
                self.reports.drop(seq)
            case Note(message=message):
                log.warning("%s", message)
            case SendTx():
                self._after_commit.append(command)
            case Fetch() | Execute() | Adopt() | Stop() | Seal():
                self.tasks.perform(command)
            case Clear(lease=lease):
                self.tasks.inputs.forget(lease)
                self.leases.perform(command)
            case _:
                self.leases.perform(command)


def _terms(parts: Parts) -> Terms:
    pool = parts.pool
    return Terms(
        chain_id=pool.chain_id,
        controller=pool.controller,
        escrow=pool.escrow,
        operator=parts.identity.wallet.address,
        devices=frozenset(parts.devices),
        grace=pool.grace,
        claim_window=pool.claim_window,
        dispute_window=pool.dispute_window,
        allow_renters=parts.allow_renters,
        policy=parts.policy,
    )
