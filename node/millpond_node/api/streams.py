"""NDJSON streams: results from the journal, logs from memory. A client that reads slowly slows only itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from millpond.protocol.errors import InputError
from millpond.protocol.ids import Address, Bytes32, bytes32
from millpond_node.agent import Agent
from millpond_node.api.edge import Call
from millpond_node.errors import BacklogError, NotFoundError, QueryError
from millpond_node.machine.tasks import Job, Task, TaskState

NDJSON = "application/x-ndjson"
KEEP_ALIVE_S = 5.0
LOG_POLL_S = 0.25
MAX_CURSOR = 10**12 - 1
CHUNK_BYTES = 1 << 20
MAX_LINES = 512
MAX_LINGER_S = 60


async def results(agent: Agent, call: Call) -> Response:
    after = call.number("after", 0, 0, MAX_CURSOR)
    follow = call.number("follow", 0, 0, 1) == 1
    linger_s = call.number("linger", 0, 0, MAX_LINGER_S)
    job = agent.jobs.job_of(call.caller, call.id("job"))
    return _stream(agent, call.caller, _results(agent, job, after, follow, linger_s))


async def logs(agent: Agent, call: Call) -> Response:
    after = call.number("after", 0, 0, MAX_CURSOR)
    follow = call.number("follow", 0, 0, 1) == 1
    wanted = _task_id(call)
    job = agent.jobs.job_of(call.caller, call.id("job"))
    task = job.tasks.get(wanted)
    if task is None:
        raise NotFoundError("there is no such task in the job")
    return _stream(agent, call.caller, _logs(agent, task, after, follow))


def _task_id(call: Call) -> Bytes32:
    try:
        return bytes32(call.request.query_params.get("task", ""))
    except InputError as error:
        raise QueryError(f"task: {error.message}", name="task") from None


class Followed(StreamingResponse):
    """A stream that counts while it is open: in all, and for its caller."""

    def __init__(self, agent: Agent, caller: Address, lines: AsyncGenerator[bytes, None]) -> None:
        super().__init__(lines, media_type=NDJSON, headers={"cache-control": "no-store"})
        self._agent, self._caller, self._lines = agent, caller, lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        open_streams = self._agent.streams
        open_streams[self._caller] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            open_streams[self._caller] -= 1
            if not open_streams[self._caller]:
                del open_streams[self._caller]
            await self._lines.aclose()


def _stream(agent: Agent, caller: Address, lines: AsyncGenerator[bytes, None]) -> Response:
    limits = agent.core.config.limits
    if agent.streams.total() >= limits.followers or agent.streams[caller] >= limits.followers_per_signer:
        raise BacklogError("too many streams are open", remedy="Close other streams of results or logs first.")
    return Followed(agent, caller, lines)


async def _results(agent: Agent, job: Job, after: int, follow: bool, linger_s: float) -> AsyncGenerator[bytes, None]:
    """A piece holds about a MiB: what is not read yet waits in the journal. A client with more to submit asks to `linger`."""
    limit, left_s = 16, linger_s
    while True:
        found = agent.jobs.lines(job.id, after, limit)
        if found:
            after = found[-1][0]
            piece = b"\n".join([*(line for _, line in found), b""])
            limit = max(1, min(MAX_LINES, 2 * limit, CHUNK_BYTES * len(found) // len(piece)))
            left_s = linger_s
            yield piece
        elif not follow or agent.is_stopping or (_is_over(job, after) and left_s <= 0):
            return
        elif not await agent.core.signals.wait(job.id, KEEP_ALIVE_S):
            left_s -= KEEP_ALIVE_S
            yield b"\n"


def _is_over(job: Job, after: int) -> bool:
    return job.open == 0 and after >= job.cursor


async def _logs(agent: Agent, task: Task, after: int, follow: bool) -> AsyncGenerator[bytes, None]:
    silent = 0.0
    while True:
        after, lines = agent.logs.after(task.id, after)
        if lines:
            silent = 0.0
            yield b"\n".join([*lines, b""])
        elif not follow or agent.is_stopping or task.state is TaskState.ENDED:
            return
        else:
            silent += LOG_POLL_S
            await agent.core.signals.wait(log_key(task.id), LOG_POLL_S)
            if silent >= KEEP_ALIVE_S:
                silent = 0.0
                yield b"\n"


def log_key(task: Bytes32) -> str:
    return f"log:{task}"
