"""NDJSON streams: results from the journal, logs from memory. A client that reads slowly slows only itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from millpond.protocol.ids import Bytes32, bytes32
from millpond_node.agent import Agent
from millpond_node.api.edge import Call
from millpond_node.errors import BacklogError, NotFoundError
from millpond_node.machine.tasks import Job, Task, TaskState

NDJSON = "application/x-ndjson"
KEEP_ALIVE_S = 5.0
LOG_POLL_S = 0.25


async def results(agent: Agent, call: Call) -> Response:
    job = agent.jobs.job_of(call.caller, call.id("job"))
    after = call.number("after", 0, 0, 1 << 40)
    follow = call.number("follow", 0, 0, 1) == 1
    return _stream(agent, _results(agent, job, after, follow))


async def logs(agent: Agent, call: Call) -> Response:
    job = agent.jobs.job_of(call.caller, call.id("job"))
    task = job.tasks.get(bytes32(call.request.query_params.get("task", "")))
    if task is None:
        raise NotFoundError("there is no such task in the job")
    after = call.number("after", 0, 0, 1 << 40)
    follow = call.number("follow", 0, 0, 1) == 1
    return _stream(agent, _logs(agent, task, after, follow))


def _stream(agent: Agent, lines: AsyncIterator[bytes]) -> Response:
    if agent.core.counters["followers"] >= agent.core.config.limits.followers:
        raise BacklogError("too many result streams are open")
    return StreamingResponse(_counted(agent, lines), media_type=NDJSON, headers={"cache-control": "no-store"})


async def _counted(agent: Agent, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    agent.core.counters["followers"] += 1
    try:
        async for piece in lines:
            yield piece
    finally:
        agent.core.counters["followers"] -= 1


async def _results(agent: Agent, job: Job, after: int, follow: bool) -> AsyncIterator[bytes]:
    while True:
        found = agent.jobs.lines(job.id, after)
        if found:
            after = found[-1][0]
            yield b"\n".join([*(line for _, line in found), b""])
        elif not follow or agent.is_stopping or _is_over(job, after):
            return
        elif not await agent.core.signals.wait(job.id, KEEP_ALIVE_S):
            yield b"\n"


def _is_over(job: Job, after: int) -> bool:
    return job.open == 0 and after >= job.cursor


async def _logs(agent: Agent, task: Task, after: int, follow: bool) -> AsyncIterator[bytes]:
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
