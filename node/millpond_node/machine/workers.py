"""A worker's connection: ONLINE -> SUSPECT -> LOST, and one session per key."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from millpond.protocol.ids import Address
from millpond.protocol.link import BEAT_SECONDS, LOST_SECONDS, SUSPECT_BEATS
from millpond_node.errors import WorkerBusyError
from millpond_node.machine.commands import Command, Cordon, EndSession, LoseWorker, Uncordon

SUSPECT_SECONDS = SUSPECT_BEATS * BEAT_SECONDS


class WorkerState(StrEnum):
    ONLINE = "online"
    SUSPECT = "suspect"
    LOST = "lost"


@dataclass(slots=True)
class WorkerRecord:
    """`session` numbers the connections of this process, 0 for none. `last_beat` is in seconds of the clock `handle` is given."""

    worker: Address
    instance: str = ""
    state: WorkerState = WorkerState.LOST
    session: int = 0
    last_beat: float = 0.0
    acked_seq: int = 0


@dataclass(slots=True)
class Workers:
    records: dict[Address, WorkerRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HelloCame:
    """`last_seq`: the last report the worker's journal has."""

    worker: Address
    instance: str
    session: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class BeatCame:
    """Any frame of the session counts as a sign of life."""

    worker: Address
    session: int


@dataclass(frozen=True, slots=True)
class SessionEnded:
    worker: Address
    session: int


@dataclass(frozen=True, slots=True)
class WorkersPassed:
    """Time went by."""


WorkerEvent = HelloCame | BeatCame | SessionEnded | WorkersPassed


def handle(state: Workers, event: WorkerEvent, now: float) -> list[Command]:
    """`now` is seconds of a monotonic clock. Raises `WorkerBusyError` on a second instance while the first beats."""
    match event:
        case HelloCame():
            return _hello(state, event, now)
        case BeatCame(worker=worker, session=session):
            record = state.records.get(worker)
            if record is None or record.session != session:
                return []
            return _alive(record, now)
        case SessionEnded(worker=worker, session=session):
            record = state.records.get(worker)
            if record is None or record.session != session:
                return []
            record.session = 0
            return _suspect(record)
        case WorkersPassed():
            return [command for record in state.records.values() for command in _passed(record, now)]


def _hello(state: Workers, event: HelloCame, now: float) -> list[Command]:
    record = state.records.setdefault(event.worker, WorkerRecord(event.worker))
    beats = record.session != 0 and now - record.last_beat < SUSPECT_SECONDS
    if beats and record.instance != event.instance:
        raise WorkerBusyError(f"another instance of {event.worker} is connected", worker=event.worker)
    old, record.session, record.instance = record.session, event.session, event.instance
    # A lower number: the worker's journal was replaced, and its positions start behind what it says.
    record.acked_seq = min(record.acked_seq, event.last_seq)
    ended: list[Command] = [EndSession(event.worker, old)] if old else []
    return [*ended, *_alive(record, now)]


def _alive(record: WorkerRecord, now: float) -> list[Command]:
    record.last_beat = now
    if record.state is WorkerState.ONLINE:
        return []
    record.state = WorkerState.ONLINE
    return [Uncordon(record.worker)]


def _suspect(record: WorkerRecord) -> list[Command]:
    if record.state is not WorkerState.ONLINE:
        return []
    record.state = WorkerState.SUSPECT
    return [Cordon(record.worker)]


def _passed(record: WorkerRecord, now: float) -> list[Command]:
    silent = now - record.last_beat
    if record.state is WorkerState.LOST or silent <= SUSPECT_SECONDS:
        return []
    commands = _suspect(record)
    if silent <= LOST_SECONDS:
        return commands
    record.state = WorkerState.LOST
    old, record.session = record.session, 0
    ended: list[Command] = [EndSession(record.worker, old)] if old else []
    return [*commands, *ended, LoseWorker(record.worker)]
