"""A running worker: starts its loops, serves until told to stop or drain, and leaves no container behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from functools import partial
from pathlib import Path
from typing import Any

from millpond.protocol.errors import ChainError, LaunchError, MillpondError
from millpond_worker import control
from millpond_worker.agent.background import logged
from millpond_worker.agent.core import Agent
from millpond_worker.agent.link import Link
from millpond_worker.agent.rounds import Rounds
from millpond_worker.assemble import Assembled
from millpond_worker.home import Home, read_json, write_json
from millpond_worker.launch.port import OwnedContainer
from millpond_worker.machine.events import DrainAsked, Restarted, Stopping
from millpond_worker.machine.model import LIVE, AttemptKey
from millpond_worker.offers import load_outstanding
from millpond_worker.reload import take_up
from millpond_worker.status import status_of

log = logging.getLogger("millpond_worker")
FLUSH_S = 2.0
CHAIN_RETRY_S = 3.0


class App:
    """One worker's life. `run` returns when it was stopped or has drained."""

    def __init__(self, home: Home, assembled: Assembled) -> None:
        self._home, self._assembled, self._parts = home, assembled, assembled.parts
        self.agent = Agent(assembled.parts)
        self.link = Link(self.agent)
        self._rounds = Rounds(self.agent, self.link)
        self._stop = asyncio.Event()
        self.needs_restart: tuple[str, ...] = ()

    def stop(self) -> None:
        """Ends the worker soon: attempts are given back, containers removed; leases go on at the next start."""
        self._stop.set()

    def drain(self) -> None:
        """No new leases; the worker ends when the last one has."""
        if not self.agent.state.is_draining:
            log.info("draining: no new leases, %d still run", self._live())
            self._parts.offers.withdraw()
            self.link.announce_offers()
            self.agent.post(DrainAsked())

    def _go_on_leaving(self) -> None:
        """A provider that is leaving its pool takes nothing new after a restart either."""
        leaving = read_json(self._home.exit)
        if isinstance(leaving, dict):
            self.agent.state.gives_notice = bool(leaving.get("gives_notice"))
            self.drain()

    async def reload(self) -> dict[str, object]:
        """Takes up what changed in worker.toml. Raises `WorkerConfigError`, `SetupError`, `UnitError`; then nothing changed."""
        self.needs_restart = take_up(self._home, self._assembled, self.agent)
        await self._rounds.renew()
        return {"needs_restart": list(self.needs_restart), "offers": len(self._parts.offers.current())}

    async def _reload_by_signal(self) -> None:
        try:
            answer = await self.reload()
        except MillpondError as error:
            log.error("worker.toml is not taken up: %s %s", error.message, error.remedy)
        else:
            log.info("worker.toml was read again: %s", answer)

    async def run(self) -> None:
        """Raises `JournalFailedError` and whatever else must end the process."""
        self._listen_to_signals()
        self._home.status.unlink(missing_ok=True)  # of a process that was killed
        await self._clean_start()
        self.agent.background.start(self._start_chain(), "start chain")
        self._go_on_leaving()
        self._parts.offers.outstanding = load_outstanding(self._home.folder)
        await self._rounds.renew()
        loops = [
            self.agent.commit_forever(),
            self.link.run(),
            self._rounds.tick_forever(),
            self._rounds.reconcile_forever(),
            self._rounds.renew_forever(),
            self._show_forever(),
            self._obey_forever(),
        ]
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await self._until_end(tasks)
        finally:
            await self._shut(tasks)

    async def _until_end(self, tasks: list[asyncio.Task[None]]) -> None:
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        ends: list[asyncio.Future[Any]] = [*tasks, stopped, self.agent.crashed]
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for task in done:
            task.result()

    async def _shut(self, tasks: list[asyncio.Task[None]]) -> None:
        """Tells the node what is lost, gives it a moment to hear, then ends everything. A second signal does not hurry it."""
        with contextlib.suppress(MillpondError):
            self.agent.post(Stopping())
            await self.agent.commit()
            await self._flush()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.agent.close()
        except MillpondError as error:
            log.error("not everything was put away: %s", error.message)
        self._show(is_connected=False)
        await self._close_ports()

    async def _close_ports(self) -> None:
        parts = self._parts
        for close in (parts.launcher.close, parts.store.close, parts.chain.close):
            with contextlib.suppress(MillpondError, OSError):
                await close()
        parts.journal.close()
        self._assembled.gpu.close()

    async def _flush(self) -> None:
        reports = self.agent.reports
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                while self.link.is_up and reports.acked < reports.committed:
                    await asyncio.sleep(0.05)

    async def _clean_start(self) -> None:
        """Removes what the last run left in the engine, but for cold containers whose attempts can still be told."""
        owned = await self._swept()
        running = frozenset(
            AttemptKey(found.lease, found.task, found.attempt)  # type: ignore[arg-type]
            for found in owned
            if found.kind == "cold"
        )
        self.agent.post(Restarted(running))

    async def _swept(self) -> list[OwnedContainer]:
        try:
            return await self.agent.leases.sweep()
        except LaunchError as error:
            log.warning("the engine does not answer: %s", error.message)
            return []

    async def _start_chain(self) -> None:
        """Takes up transactions of the last run, once the chain answers."""
        while True:
            try:
                await self._parts.chain.start()
            except ChainError as error:
                log.warning("%s %s", error.message, error.remedy)
                await asyncio.sleep(CHAIN_RETRY_S)
            else:
                return

    async def _show_forever(self) -> None:
        while True:
            self._show(is_connected=self.link.is_up)
            if (
                self.agent.state.is_draining
                and not self._live()
                and not self._to_collect()
                and not len(self.agent.reports)
            ):
                log.info("drained: the last lease has ended")
                self.stop()
            await asyncio.sleep(self._parts.pace.status)

    def _show(self, *, is_connected: bool) -> None:
        shown = status_of(self.agent, self.link, self._rounds.stake, self._assembled.warning)
        shown["token"] = {"symbol": self._assembled.token_symbol, "decimals": self._assembled.token_decimals}
        shown["is_connected"] = is_connected
        shown["policy"] = self._policy()
        shown["clock_skew_s"] = self._rounds.skew
        shown["needs_restart"] = list(self.needs_restart)
        with contextlib.suppress(OSError):
            write_json(self._home.status, shown)

    def _policy(self) -> dict[str, object]:
        offers, now = self._parts.offers, self._parts.clock.now()
        return {
            "is_open": offers.policy.is_open(now),
            "next_change": offers.policy.next_change(now),
            "offers_signed_at": offers.signed_at,
            "cancelling": sorted(self._rounds.cancelling),
        }

    async def _obey_forever(self) -> None:
        while True:
            for answer, command in control.take(self._home):
                await self._obey(answer, command)
            await asyncio.sleep(self._parts.pace.tick)

    async def _obey(self, answer: Path, command: str) -> None:
        try:
            reply = await self._reply(command)
        except MillpondError as error:
            reply = error.as_dict()
        with contextlib.suppress(OSError):
            write_json(answer, reply)

    async def _reply(self, command: str) -> dict[str, object]:
        if command in ("drain", "leave"):
            self.agent.state.gives_notice |= command == "leave"
            self.drain()
            return {"is_draining": True, "leases": self._live()}
        if command == "reload":
            return await self.reload()
        if command == "withdraw":
            sent = await self._assembled.chain.withdraw(self._parts.identity.provider)
            return sent.as_dict()
        return {"error": "InputError", "message": f"no such command: {command}", "remedy": "", "fields": {}}

    def _live(self) -> int:
        return sum(row.state in LIVE for row in self.agent.state.leases.values())

    def _to_collect(self) -> int:
        """Ended leases whose pay is not collected yet: it can be only within the claim window."""
        now, window = self._parts.clock.now(), self._parts.pool.claim_window
        return sum(row.is_to_collect(now, window) for row in self.agent.state.leases.values())

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            again = partial(self.agent.background.start, name="reload", on_error=logged)
            loop.add_signal_handler(signal.SIGHUP, lambda: again(self._reload_by_signal()))
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                loop.add_signal_handler(number, self.stop)
