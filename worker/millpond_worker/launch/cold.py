"""A cold container from its start, or its adoption, to its outcome."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from .outcomes import breach_of, failure_of
from .port import MAX_LOG_BYTES, Limits, LogChunk, OnLog, OutputFile, TaskFailure, TaskOutcome, TaskStatus
from .session import TAIL_BYTES
from .spool import Room, is_empty, measure
from .warm import WATCH_PERIOD_S

LOG_GRACE_S = 5.0
LOG_UNFINISHED = b"\n[millpond: the log ends here; the engine did not send the rest]\n"


class ColdEngine(Protocol):
    """What a cold run needs of an engine."""

    async def wait(self, container: str) -> int: ...
    async def kill(self, container: str) -> None: ...
    async def show(self, container: str) -> dict[str, Any]: ...
    def streams(self, container: str) -> Any: ...


class ColdRun:
    """Watches one container's clock, logs and outputs."""

    def __init__(self, engine: ColdEngine, container: str, room: Room, limits: Limits, task: str, attempt: int) -> None:
        self._engine = engine
        self._container = container
        self._room = room
        self._limits = limits
        self._task, self._attempt = task, attempt
        self._tail = b""
        self._offsets = {"stdout": 0, "stderr": 0}
        self._breach: TaskFailure | None = None
        self._is_paused = False

    def pause(self) -> None:
        """The time limit stands still."""
        self._is_paused = True

    def unpause(self) -> None:
        self._is_paused = False

    async def finish(self, time_limit_s: float, on_log: OnLog) -> TaskOutcome:
        """Waits for the end, or brings it about. Cancelling it leaves the container to the caller."""
        started = time.monotonic()
        logs = asyncio.create_task(self._follow(on_log))
        watch = asyncio.create_task(self._watch_outputs())
        try:
            is_late, exit_code = await self._wait(time_limit_s)
            run_s = time.monotonic() - started
            await self._drain(logs, on_log)
            status = await self._status(is_late, exit_code)
            return await self._outcome(status, exit_code, run_s, time_limit_s)
        finally:
            for helper in (logs, watch):
                helper.cancel()
            await asyncio.gather(logs, watch, return_exceptions=True)

    async def _drain(self, logs: asyncio.Task[None], on_log: OnLog) -> None:
        """Waits for the rest of the log as long as some of it comes; what does not come leaves a mark."""
        seen = -1
        while not logs.done() and sum(self._offsets.values()) > seen:
            seen = sum(self._offsets.values())
            await asyncio.wait({logs}, timeout=LOG_GRACE_S)
        if not logs.done():
            offset = self._offsets["stderr"]
            on_log(LogChunk(self._task, self._attempt, "stderr", offset, LOG_UNFINISHED))

    async def _wait(self, time_limit_s: float) -> tuple[bool, int]:
        waiting = asyncio.ensure_future(self._engine.wait(self._container))
        left_s = time_limit_s
        while left_s > 0 and not waiting.done():
            began = time.monotonic()
            await asyncio.wait({waiting}, timeout=min(left_s, WATCH_PERIOD_S))
            left_s -= 0 if self._is_paused else time.monotonic() - began
        is_late = not waiting.done()
        if is_late:
            await self._engine.kill(self._container)
        return is_late, await waiting

    async def _status(self, is_late: bool, exit_code: int) -> TaskStatus:
        if self._breach is not None:
            return TaskStatus.OUTPUT
        if is_late:
            return TaskStatus.TIMEOUT
        if exit_code == 0:
            return TaskStatus.OK
        state = (await self._engine.show(self._container))["State"]
        return TaskStatus.OOM if state.get("OOMKilled") else TaskStatus.FAILED

    async def _outcome(self, status: TaskStatus, exit_code: int, run_s: float, time_limit_s: float) -> TaskOutcome:
        outputs: tuple[OutputFile, ...] = ()
        failure = self._breach or failure_of(status, self._limits, time_limit_s)
        if status is TaskStatus.FAILED:
            failure = TaskFailure("ProcessEnded", f"the command ended with exit code {exit_code}")
        if status is TaskStatus.OK and not is_empty(self._room.outputs):
            failure = breach_of(await asyncio.to_thread(measure, self._room.outputs), self._limits)
            if failure is None:
                outputs = await asyncio.to_thread(self._room.seal, self._room.name, self._room.outputs)
            else:
                status = TaskStatus.OUTPUT
        return TaskOutcome(
            self._task,
            self._attempt,
            status,
            failure=failure,
            exit_code=exit_code,
            run_s=run_s,
            log_tail=self._tail,
            log_bytes=sum(self._offsets.values()),
            outputs=outputs,
        )

    async def _follow(self, on_log: OnLog) -> None:
        async with self._engine.streams(self._container) as messages:
            async for stream, data in messages:
                offset = self._offsets[stream]
                self._offsets[stream] += len(data)
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                if sum(self._offsets.values()) <= MAX_LOG_BYTES:
                    on_log(LogChunk(self._task, self._attempt, stream, offset, data))

    async def _watch_outputs(self) -> None:
        while self._breach is None:
            await asyncio.sleep(WATCH_PERIOD_S)
            usage = await asyncio.to_thread(measure, self._room.outputs)
            self._breach = breach_of(usage, self._limits) if usage.size or usage.files else None
        await self._engine.kill(self._container)
