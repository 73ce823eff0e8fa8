"""The workers' WebSocket: a signed upgrade, a hello, then frames both ways."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.websockets import WebSocket, WebSocketDisconnect

from millpond.protocol import wire
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Address
from millpond.protocol.link import Beat, Hello, Log, Offers, Refused, Report, WorkerMessage
from millpond_node.agent import Agent
from millpond_node.api.edge import target
from millpond_node.api.streams import log_key
from millpond_node.core import log
from millpond_node.errors import BacklogError
from millpond_node.sessions import Session

HELLO_SECONDS = 10.0
SILENT_SECONDS = 60.0
POLICY_CLOSE = 4400


async def serve_worker(agent: Agent, socket: WebSocket) -> None:
    """One connection from upgrade to end."""
    try:
        signer = _admit(agent, socket)
    except MillpondError as error:
        await socket.accept()
        await _refuse(socket, error)
        return
    await socket.accept()
    try:
        session = await _hello(agent, socket, signer)
    except (MillpondError, TimeoutError) as error:
        await _refuse(socket, error)
        return
    except WebSocketDisconnect:
        return
    await _exchange(agent, socket, session)


def _admit(agent: Agent, socket: WebSocket) -> Address:
    agent.gate.admit(socket.client.host if socket.client is not None else "local")
    if len(agent.workers.sessions) >= agent.core.config.limits.workers:
        raise BacklogError("too many workers are connected")
    return agent.gate.identify(socket.headers, "GET", target(socket.scope), b"")


async def _hello(agent: Agent, socket: WebSocket, signer: Address) -> Session:
    async with asyncio.timeout(HELLO_SECONDS):
        data = await socket.receive_text()
    return await agent.workers.hello(signer, wire.read(Hello, data))


async def _exchange(agent: Agent, socket: WebSocket, session: Session) -> None:
    writer = asyncio.create_task(session.write(socket.send_text), name=f"write {session.number}")
    reader = asyncio.create_task(_read(agent, socket, session), name=f"read {session.number}")
    try:
        await asyncio.wait((writer, reader), return_when=asyncio.FIRST_COMPLETED)
        if reader.done() and not reader.cancelled() and isinstance(reader.exception(), MillpondError):
            error = reader.exception()
            assert isinstance(error, MillpondError)
            session.send(_refused(error))
            session.end()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(asyncio.shield(writer), 5)
    finally:
        agent.workers.left(session)
        for task in (writer, reader):
            task.cancel()
        await asyncio.gather(writer, reader, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close()


async def _read(agent: Agent, socket: WebSocket, session: Session) -> None:
    workers = agent.workers
    while True:
        async with asyncio.timeout(SILENT_SECONDS):
            try:
                data = await socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                return
        workers.alive(session)
        for message in wire.read_worker_messages(data):
            _take(agent, session, message)


def _take(agent: Agent, session: Session, message: WorkerMessage) -> None:
    workers, core = agent.workers, agent.core
    match message:
        case Report() as report:
            workers.report(session, report)
        case Beat(usage=usage):
            core.counters["beats"] += 1
            agent.usage.take(session.worker, usage, core.now())
        case Offers(offers=offers):
            workers.offers(session, offers)
        case Log() as entry:
            _keep_log(agent, session, entry)
        case Hello():
            log.warning("worker %s said hello twice", session.worker)


def _keep_log(agent: Agent, session: Session, entry: Log) -> None:
    lease = agent.core.books.leases.records.get(entry.lease)
    lane = agent.core.books.desk.lanes.get(entry.lease)
    is_its = lease is not None and lease.worker == session.worker
    if is_its and lane is not None and entry.task in lane.outstanding:
        agent.logs.add(entry)
        agent.core.signals.notify(log_key(entry.task))


async def _refuse(socket: WebSocket, error: Exception) -> None:
    said = (
        error
        if isinstance(error, MillpondError)
        else MillpondError("no hello came in time", remedy="Send Hello first.")
    )
    log.info("a worker was refused: %s", said.code)
    with contextlib.suppress(Exception):
        await socket.send_text(wire.write(_refused(said)).decode())
        await socket.close(POLICY_CLOSE)


def _refused(error: MillpondError) -> Refused:
    return Refused(error.code, error.message, error.remedy)
