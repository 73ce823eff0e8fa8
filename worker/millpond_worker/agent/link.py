"""The connection to the node: hello, reports in order until acknowledged, beats, logs; and back again after every cut."""

from __future__ import annotations

import asyncio
import logging
import random

from millpond.protocol import wire
from millpond.protocol.errors import InputError, MillpondError
from millpond.protocol.link import Beat, Hello, NodeMessage, Offers, Refused, Welcome, WorkerMessage
from millpond_worker.agent.core import Agent
from millpond_worker.agent.usage import MEASURE_SECONDS, Gauge
from millpond_worker.errors import NodeRefusedError, NodeUnreachableError
from millpond_worker.machine.events import Connected, Disconnected
from millpond_worker.machine.model import LIVE, AttemptState
from millpond_worker.ports import Line

log = logging.getLogger("millpond_worker")
MAX_DRIFT = 0.5
REPORTS_AT_ONCE = 64


class Link:
    """Keeps the agent connected. `is_up` while a node listens."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._parts = agent, agent.parts
        self._jitter = random.Random()
        self._offers_changed = asyncio.Event()
        self._gauge = Gauge(agent.parts.launcher)
        self.is_up = False
        self.last_error = ""

    def announce_offers(self) -> None:
        """The offers changed: the node hears of it now, or with the next hello."""
        self._offers_changed.set()

    async def run(self) -> None:
        """Connects, and connects again with growing pauses. Never ends by itself."""
        pace = self._parts.pace
        delay = pace.retry_first
        while True:
            try:
                await self._connect_once()
                delay = pace.retry_first
            except MillpondError as error:
                self._tell(error)
            if self._went_down():
                delay = pace.retry_first
            await self._parts.clock.sleep(delay * (1 - MAX_DRIFT + 2 * MAX_DRIFT * self._jitter.random()))
            delay = min(2 * delay, pace.retry_most)

    def _went_down(self) -> bool:
        """Whether the last connection got as far as a welcome."""
        was, self.is_up = self.is_up, False
        if was:
            self._agent.post(Disconnected())
        return was

    async def _connect_once(self) -> None:
        node = await self._parts.chain.node()
        line = await self._parts.net.connect(node)
        try:
            self._parts.store.use(node)
            await self._greet(line)
            log.info("connected to the node %s at %s", node.address, node.url)
            await self._serve(line)
        finally:
            await line.close()

    async def _greet(self, line: Line) -> None:
        await line.send(wire.write(self._hello()))
        try:
            async with asyncio.timeout(self._parts.pace.welcome):
                first, *rest = wire.read_node_messages(await line.receive())
        except TimeoutError:
            raise NodeUnreachableError("the node did not answer the hello in time", url="") from None
        if isinstance(first, Refused):
            raise NodeRefusedError(first.message, remedy=first.remedy, error=first.error)
        if not isinstance(first, Welcome):
            raise NodeUnreachableError(f"the node's first word is {first.kind}, not welcome", url="")
        self.is_up, self.last_error = True, ""
        self._agent.post(Connected(first.acked_seq))
        for message in [*first.desired, *rest]:
            self._take(message)

    def _hello(self) -> Hello:
        parts = self._parts
        identity = parts.identity
        self._offers_changed.clear()
        return Hello(
            worker=identity.wallet.address,
            provider=identity.provider,
            instance=identity.instance,
            version=identity.version,
            devices=parts.entries(),
            offers=parts.offers.current(),
            launcher=parts.launcher.kind,
            last_seq=self._agent.reports.committed,
        )

    async def _serve(self, line: Line) -> None:
        """Until the line is cut; the first of its tasks that fails ends the others."""
        jobs = (
            self._read(line),
            self._send_reports(line),
            self._send_logs(line),
            self._send_offers(line),
            self._beat(line),
            self._measure(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(job)
        except* MillpondError as errors:
            raise _first(errors) from None

    async def _read(self, line: Line) -> None:
        while True:
            frame = await line.receive()
            try:
                messages = wire.read_node_messages(frame)
            except InputError as error:
                log.warning("the node sent something unreadable: %s", error.message)
                continue
            for message in messages:
                self._take(message)

    def _take(self, message: NodeMessage) -> None:
        if isinstance(message, Refused):
            raise NodeRefusedError(message.message, remedy=message.remedy, error=message.error)
        if not isinstance(message, Welcome):
            self._agent.post(message)

    async def _send_reports(self, line: Line) -> None:
        reports = self._agent.reports
        sent = reports.acked
        while True:
            reports.news.clear()
            while sent < reports.committed:
                last = min(reports.committed, sent + REPORTS_AT_ONCE)
                found = (reports.frame(seq) for seq in range(sent + 1, last + 1))
                for frame in wire.frames(frame for frame in found if frame is not None):
                    await line.send(frame)
                sent = last
            await reports.news.wait()

    async def _send_logs(self, line: Line) -> None:
        tasks = self._agent.tasks
        while True:
            tasks.has_logs.clear()
            while (entry := tasks.logs.pop()) is not None:
                await line.send(wire.write(entry))
            await tasks.has_logs.wait()

    async def _send_offers(self, line: Line) -> None:
        while True:
            await self._offers_changed.wait()
            self._offers_changed.clear()
            await self._send(line, Offers(self._parts.offers.current()))

    async def _beat(self, line: Line) -> None:
        while True:
            await self._send(line, self.beat())
            await self._parts.clock.sleep(self._parts.pace.beat)

    def beat(self) -> Beat:
        state = self._agent.state
        running = sum(found.state is AttemptState.RUNNING for found in state.attempts.values())
        queued = sum(found.state is AttemptState.QUEUED for found in state.attempts.values())
        live = sum(row.state in LIVE for row in state.leases.values())
        return Beat(running, queued, live, self._gauge.take())

    async def _measure(self) -> None:
        """Apart from the beats: an engine that answers slowly must not make the worker look dead."""
        while True:
            leases = [name for name, row in self._agent.state.leases.items() if row.state in LIVE]
            if leases:
                await self._gauge.measure(leases, self._parts.clock.now())
            await self._parts.clock.sleep(MEASURE_SECONDS)

    async def _send(self, line: Line, message: WorkerMessage) -> None:
        await line.send(wire.write(message))

    def _tell(self, error: MillpondError) -> None:
        """The same trouble is told once."""
        if error.message != self.last_error:
            self.last_error = error.message
            log.warning("%s %s", error.message, error.remedy)


def _first(errors: BaseExceptionGroup[MillpondError]) -> MillpondError:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found if isinstance(found, MillpondError) else NodeUnreachableError(str(found), url="")
