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
from .spool import Room, measure, remove_tree, safe_name

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
        self._is_paused = False

    async def execute(self, frame: TaskFrame, on_log: OnLog) -> TaskOutcome:
        """See `Launcher.execute`."""
        attempt = f"{safe_name(frame.task)}-{frame.attempt}"
        if frame.inputs:
            await asyncio.to_thread(self.room.open_task, attempt, frame.inputs)
        self._budget_s += frame.time_limit_s
        try:
            pending = await self.session.submit(frame, self._folders(attempt, frame), on_log)
            pending.patience_s = self._budget_s + GRACE_S
            self._watch()
            result = await self._await_result(frame, pending)
            return await self._outcome(frame, attempt, pending, result)
        finally:
            self._budget_s -= frame.time_limit_s
            self.session.forget((frame.task, frame.attempt))
            if frame.inputs:
                await asyncio.to_thread(remove_tree, self.room.inputs / attempt)

    def _folders(self, attempt: str, frame: TaskFrame) -> tuple[str, str]:
        guest_in, guest_out = self._guest
        return (f"{guest_in}/{attempt}" if frame.inputs else guest_in), f"{guest_out}/{attempt}"

    async def _await_result(self, frame: TaskFrame, pending: Pending) -> tuple[dict[str, Any], bytes] | None:
        try:
            return await pending.result
        except asyncio.CancelledError:
            await self.session.cancel((frame.task, frame.attempt))
            raise

    def pause(self) -> None:
        self._is_paused = True

    def unpause(self) -> None:
        self._is_paused = False

    # OUTPUTS AND TIME

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch_container())

    async def _watch_container(self) -> None:
        """Ends a container that wrote too much, or that does not end its tasks; the runner keeps their limits, this is the backstop."""
        while self.session.pending:
            await asyncio.sleep(WATCH_PERIOD_S)
            if not self._is_paused and self.session.spend(WATCH_PERIOD_S):
                await self._kill()
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
        return outcome if not result[0]["left"] else await self._with_left(outcome, attempt, result[0]["left"])

    async def _with_left(self, outcome: TaskOutcome, attempt: str, name: str) -> TaskOutcome:
        folder = self.room.left(name)
        if folder is None:
            return outcome
        try:
            breach = breach_of(await asyncio.to_thread(measure, folder), self.container.limits)
            if breach is not None:
                return replace_status(outcome, TaskStatus.OUTPUT, breach)
            if outcome.status is not TaskStatus.OK:
                return outcome
            return with_outputs(outcome, await asyncio.to_thread(self.room.seal, attempt, folder))
        finally:
            await asyncio.to_thread(remove_tree, folder)

    async def _lost(self, frame: TaskFrame, pending: Pending) -> TaskOutcome:
        if self._breach is not None:
            return TaskOutcome(
                frame.task, frame.attempt, TaskStatus.OUTPUT, failure=self._breach, log_tail=pending.tail
            )
        status = await self._autopsy()
        failure = failure_of(status, self.container.limits, frame.time_limit_s)
        return TaskOutcome(frame.task, frame.attempt, status, failure=failure, log_tail=pending.tail)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.session.close()
