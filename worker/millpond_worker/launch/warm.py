"""A warm container in the worker's hands: attempts in, outcomes out, whichever engine runs it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from .outcomes import breach_of, failure_of, outcome_of, replace_status, with_outputs
from .port import Container, OnLog, TaskFailure, TaskFrame, TaskOutcome, TaskStatus
from .session import Pending, Session
from .spool import Room, is_empty, measure, safe_name

WATCH_PERIOD_S = 0.25
GRACE_S = 10.0

Kill = Callable[[], Awaitable[None]]
Autopsy = Callable[[], Awaitable[TaskStatus]]


class WarmContainer:
    """Couples a session with its room. `kill` ends the container; `autopsy` says what ended it."""

    def __init__(
        self, container: Container, session: Session, room: Room, guest: tuple[str, str], kill: Kill, autopsy: Autopsy
    ) -> None:
        self.container = container
        self.session = session
        self.room = room
        self._guest = guest
        self._kill, self._autopsy = kill, autopsy
        self._watching: asyncio.Task[None] | None = None
        self._breach: TaskFailure | None = None
        self._budget_s = 0.0
        self._running = asyncio.Event()
        self._running.set()

    async def execute(self, frame: TaskFrame, on_log: OnLog) -> TaskOutcome:
        """See `Launcher.execute`."""
        attempt = f"{safe_name(frame.task)}-{frame.attempt}"
        await asyncio.to_thread(self.room.open_task, attempt, frame.inputs) if frame.inputs else self.room.open_task(
            attempt, {}
        )
        self._budget_s += frame.time_limit_s
        try:
            pending = await self.session.submit(frame, self._folders(attempt, frame), on_log)
            self._watch()
            result = await self._await_result(frame, pending)
            return await self._outcome(frame, attempt, pending, result)
        finally:
            self._budget_s -= frame.time_limit_s
            self.session.forget((frame.task, frame.attempt))
            self.room.close_task(attempt, bool(frame.inputs))

    def _folders(self, attempt: str, frame: TaskFrame) -> tuple[str, str]:
        guest_in, guest_out = self._guest
        return (f"{guest_in}/{attempt}" if frame.inputs else guest_in), f"{guest_out}/{attempt}"

    async def _await_result(self, frame: TaskFrame, pending: Pending) -> tuple[dict[str, Any], bytes] | None:
        try:
            while not pending.result.done():
                waited = await self._wait_running(pending, self._budget_s + GRACE_S)
                if not waited:
                    await self._kill()
            return pending.result.result()
        except asyncio.CancelledError:
            await self.session.cancel((frame.task, frame.attempt))
            raise

    async def _wait_running(self, pending: Pending, seconds: float) -> bool:
        """Waits for the result; time in which the container is paused does not count. The runner keeps the limits: this is the backstop."""
        loop = asyncio.get_running_loop()
        while seconds > 0 and not pending.result.done():
            await self._running.wait()
            before = loop.time()
            await asyncio.wait({pending.result}, timeout=min(seconds, 5.0))
            seconds -= (loop.time() - before) if self._running.is_set() else 0.0
        return pending.result.done()

    def pause(self) -> None:
        self._running.clear()

    def unpause(self) -> None:
        self._running.set()

    # OUTPUTS

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch_outputs())

    async def _watch_outputs(self) -> None:
        while self.session.pending:
            await asyncio.sleep(WATCH_PERIOD_S)
            usage = await asyncio.to_thread(measure, self.room.outputs)
            breach = breach_of(replace(usage, strange=""), self.container.limits, slack_files=self.session.pending)
            if breach is not None:
                self._breach = breach
                await self._kill()
                return

    async def _outcome(
        self, frame: TaskFrame, attempt: str, pending: Pending, result: tuple[dict[str, Any], bytes] | None
    ) -> TaskOutcome:
        if result is None:
            return await self._lost(frame, pending)
        elapsed_s = time.monotonic() - pending.submitted
        outcome = outcome_of(frame, self.container.limits, pending.tail, elapsed_s, *result)
        folder = self.room.outputs / attempt
        if is_empty(folder):
            return outcome
        breach = breach_of(await asyncio.to_thread(measure, folder), self.container.limits)
        if breach is not None:
            return replace_status(outcome, TaskStatus.OUTPUT, breach)
        if outcome.status is not TaskStatus.OK:
            return outcome
        return with_outputs(outcome, await asyncio.to_thread(self.room.seal, attempt, folder))

    async def _lost(self, frame: TaskFrame, pending: Pending) -> TaskOutcome:
        if self._breach is not None:
            return TaskOutcome(
                frame.task, frame.attempt, TaskStatus.OUTPUT, failure=self._breach, log_tail=pending.tail
            )
        status = await self._autopsy()
        failure = failure_of(status, self.container.limits, frame.time_limit_s)
        return TaskOutcome(frame.task, frame.attempt, status, failure=failure, log_tail=pending.tail)

    async def close(self) -> None:
        self._running.set()
        if self._watching is not None:
            self._watching.cancel()
        await self.session.close()
