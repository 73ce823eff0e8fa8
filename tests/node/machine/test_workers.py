"""A worker's connection: beats, silence, and two workers with one key."""

import pytest

from millpond.protocol.ids import Address
from millpond_node.errors import WorkerBusyError
from millpond_node.machine import workers
from millpond_node.machine.commands import Cordon, EndSession, LoseWorker, Uncordon
from millpond_node.machine.workers import BeatCame, HelloCame, SessionEnded, Workers, WorkersPassed, WorkerState

W = Address("0x" + "11" * 20)


def online() -> Workers:
    state = Workers()
    assert workers.handle(state, HelloCame(W, "i1", 1, 7), 0.0) == [Uncordon(W)]
    return state


def test_silence_of_three_beats_suspects_and_of_thirty_seconds_loses() -> None:
    state = online()
    assert workers.handle(state, WorkersPassed(), 5.9) == []
    assert workers.handle(state, WorkersPassed(), 6.1) == [Cordon(W)]
    assert workers.handle(state, WorkersPassed(), 29.0) == []
    assert workers.handle(state, WorkersPassed(), 30.1) == [EndSession(W, 1), LoseWorker(W)]
    assert workers.handle(state, WorkersPassed(), 99.0) == []


def test_beat_of_a_suspect_brings_it_back() -> None:
    state = online()
    workers.handle(state, WorkersPassed(), 7.0)
    assert workers.handle(state, BeatCame(W, 1), 8.0) == [Uncordon(W)]


def test_same_instance_supersedes_its_older_session() -> None:
    state = online()
    assert workers.handle(state, HelloCame(W, "i1", 2, 7), 1.0) == [EndSession(W, 1)]
    assert workers.handle(state, SessionEnded(W, 1), 1.1) == []
    assert state.records[W].state is WorkerState.ONLINE


def test_other_instance_is_refused_while_the_first_beats() -> None:
    state = online()
    with pytest.raises(WorkerBusyError):
        workers.handle(state, HelloCame(W, "i2", 2, 0), 5.0)
    assert state.records[W].session == 1


@pytest.mark.parametrize("ends", [True, False])
def test_other_instance_is_taken_once_the_first_is_gone_or_silent(ends) -> None:
    state = online()
    if ends:
        workers.handle(state, SessionEnded(W, 1), 1.0)
    workers.handle(state, HelloCame(W, "i2", 2, 0), 1.0 if ends else 6.5)
    assert state.records[W].instance == "i2"


def test_hello_with_a_lower_sequence_means_a_new_journal() -> None:
    state = online()
    state.records[W].acked_seq = 9
    workers.handle(state, HelloCame(W, "i1", 2, 3), 1.0)
    assert state.records[W].acked_seq == 3
