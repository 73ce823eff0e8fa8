"""The node's one agent: wires the parts, reads the journal back, and runs the loops until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

from millpond.protocol.ids import Address
from millpond.storage.journal import Journal, JournalFailedError
from millpond.storage.port import BlockStore
from millpond_node.auth import Gate
from millpond_node.blocks import Blocks
from millpond_node.chain.port import Announce, Chain, PoolFacts
from millpond_node.clock import Clock
from millpond_node.config import NodeConfig
from millpond_node.core import Core, log
from millpond_node.desk import Jobs
from millpond_node.errors import NodeConfigError
from millpond_node.ladders import Ladders
from millpond_node.logs import LogBook
from millpond_node.machine.leases import LeasePassed
from millpond_node.machine.requests import Passed
from millpond_node.machine.workers import WorkersPassed
from millpond_node.market import Market, restore, sweep
from millpond_node.news import News
from millpond_node.policy.port import Policy
from millpond_node.policy.simple import SimplePolicy
from millpond_node.settle import Settlement
from millpond_node.timings import Timings
from millpond_node.usage import UsageBook
from millpond_node.workers import WorkersEdge

TICK_S = 0.25
SLOW_TICKS = 20
SWEEP_TICKS = 240
CHAIN_RETRY_S = 2.0
MAX_FUNDS_READ = 32


class Agent:
    """`start` before the API serves; `run` until `stop`. `run` raises `JournalFailedError` when the disk fails."""

    def __init__(
        self,
        config: NodeConfig,
        facts: PoolFacts,
        key: bytes,
        chain: Chain,
        journal: Journal,
        store: BlockStore,
        clock: Clock,
        policy: Policy | None = None,
    ) -> None:
        self.core = Core(config, facts, key, chain, journal, policy or SimplePolicy(), clock)
        self.jobs = Jobs(self.core)
        self.market = Market(self.core)
        self.ladders = Ladders(self.core)
        self.blocks = Blocks(self.core, store)
        self.settlement = Settlement(self.core, self.blocks.add_file, self.market.send)
        self.workers = WorkersEdge(self.core, self.settlement)
        self.workers.wake = self.market.wake
        self.news = News(self.core, self.market, self.settlement)
        self.gate = Gate(self.core)
        self.usage = UsageBook(self.core.books.leases)
        self.streams: Counter[Address] = Counter()
        self.answers: Counter[str] = Counter()
        self.timings = Timings(self.core)
        self.logs = LogBook(config.limits.log_kib_per_task << 10, config.limits.log_mib << 20)
        self._stopping = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        """Reads the journal back and asks again for what was under way. Raises `NodeConfigError` for another pool's journal."""
        core = self.core
        self._check_identity()
        restore(core)
        self.settlement.restore_batches()
        for job, task, result in self.jobs.restore():
            if result.signed is not None:
                self.settlement.restore_receipt(job, task.id, result.cursor, result.signed)
        self.workers.restore()
        self.ladders.restore()
        self.blocks.restore()
        self.gate.nonces.restore()
        core.durable.batch.append_event("start", core.policy.snapshot())
        self.settlement.resume()
        self.market.resend()

    async def run(self) -> None:
        loops = [
            asyncio.create_task(loop, name=name)
            for name, loop in (
                ("durable", self.core.durable.run()),
                ("chain", self._follow()),
                ("ticks", self._tick_forever()),
                ("decisions", self._decide_forever()),
                ("announcements", self._announce_forever()),
                ("stop", self._wait_stop()),
            )
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end(loops)

    def stop(self) -> None:
        self._stopping.set()
        self.core.signals.notify_all()
        for session in list(self.workers.sessions.values()):
            session.end()

    def spawn(self, coroutine: object, name: str) -> None:
        """Runs something short beside the loops; its error is logged."""
        task = asyncio.create_task(_logged(coroutine, name), name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def tick(self, number: int) -> None:
        """What time brings. Called four times a second."""
        core = self.core
        core.perform(core.on_worker(WorkersPassed()))
        if self.settlement.is_due(core.clock.monotonic()):
            self.spawn(self.settlement.post(), "post receipts")
        if number % 4 == 0:
            core.on_request(Passed())
            self.ladders.climb()
            self.gate.nonces.sweep(core.clock.wall())
            self.market.wake.set()
        if number % SLOW_TICKS == 0:
            self._learn_funds()
            for lease in list(core.books.leases.records):
                core.on_lease(LeasePassed(lease))
        if number % SWEEP_TICKS == 0:
            self._sweep()

    async def refresh_devices(self) -> None:
        """Reads again what the chain said has changed."""
        changed, self.news.changed_devices = self.news.changed_devices, []
        if changed:
            for worker in list(self.workers.sessions):
                await self.workers.refresh(worker)

    def _learn_funds(self) -> None:
        """A renter may fund its escrow while its requests wait."""
        requests = self.core.books.requests
        waiting = {requests.records[hash_].renter: None for hash_ in requests.live}
        for renter in list(waiting)[:MAX_FUNDS_READ]:
            self.spawn(self.market.learn_funds(renter), "read funds")

    def _sweep(self) -> None:
        core = self.core
        before = set(core.books.desk.jobs)
        self.jobs.sweep(core.clock.monotonic())
        self.settlement.forget_jobs(before - set(core.books.desk.jobs))
        sweep(core, self.market)
        self.usage.forget_gone()
        self.spawn(self._sweep_blocks(), "sweep blocks")

    async def _sweep_blocks(self) -> None:
        await self.blocks.sweep(self.core.now())

    async def _tick_forever(self) -> None:
        number = 0
        while True:
            await self.core.clock.sleep(TICK_S)
            number += 1
            self.tick(number)

    async def _decide_forever(self) -> None:
        while True:
            await self.market.wake.wait()
            self.market.wake.clear()
            while self.market.decide():
                await asyncio.sleep(0)

    async def _follow(self) -> None:
        """News for ever; an RPC that is away is asked again. Running leases never wait for it."""
        core = self.core
        while True:
            cursor = (core.journal.get("meta", "cursor") or b"").decode()
            try:
                async for batch in core.chain.batches(cursor):
                    self.news.take(batch)
                    await core.durable.settled()
                    if self.news.changed_devices:
                        self.spawn(self.refresh_devices(), "read devices")
            except JournalFailedError:
                raise
            except OSError as error:
                log.warning("the chain is away: %s", type(error).__name__)
            except Exception as error:
                if _is_fatal(error):
                    raise
                core.counters["chain_errors"] += 1
                log.warning("the chain is away: %s", error)
            await core.clock.sleep(CHAIN_RETRY_S)

    async def _announce_forever(self) -> None:
        config, core = self.core.config, self.core
        while True:
            turn = core.now() // max(1, config.announce_ttl_s // 2)
            self.market.send(Announce(config.public_url, config.announce_ttl_s, turn))
            await core.clock.sleep(config.announce_ttl_s / 4)

    async def _wait_stop(self) -> None:
        await self._stopping.wait()

    async def _end(self, loops: list[asyncio.Task[None]]) -> None:
        self._stopping.set()
        for task in [*loops, *self._background]:
            task.cancel()
        await asyncio.gather(*loops, *self._background, return_exceptions=True)
        await self.market.aclose()
        with contextlib.suppress(JournalFailedError):
            await self.core.durable.flush()

    def _check_identity(self) -> None:
        core = self.core
        mine = {"chain_id": core.facts.chain_id, "controller": core.facts.controller}
        kept = core.journal.get_json("meta", "identity")
        if kept is not None and kept != mine:
            raise NodeConfigError(
                f"the journal is of the pool {kept['controller']} on chain {kept['chain_id']}, the settings name another",
                remedy="Give each pool's node a home folder of its own (--home).",
            )
        core.durable.batch.put_json("meta", "identity", mine)


def _is_fatal(error: Exception) -> bool:
    """Errors no retry can cure: they stop the node with their remedy."""
    from millpond.chain.errors import ChainRollbackError, CursorError, WrongChainError

    return isinstance(error, ChainRollbackError | CursorError | WrongChainError)


async def _logged(coroutine: object, name: str) -> None:
    try:
        await coroutine  # type: ignore[misc]
    except JournalFailedError:
        return  # the writer's own loop ends the node
    except Exception as error:  # noqa: BLE001 - it is tried again at the next turn
        log.warning("%s failed: %s", name, error)
