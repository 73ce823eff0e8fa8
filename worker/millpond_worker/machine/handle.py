"""One door to the machines: `handle(state, event, now)` changes rows and returns what the agent shall do."""

from __future__ import annotations

from millpond_worker.machine import attempt, lease, settle
from millpond_worker.machine.commands import CheckChain, Command
from millpond_worker.machine.events import (
    Ack,
    Cancel,
    ChainSaid,
    Committed,
    Connected,
    Desired,
    Disconnected,
    DrainAsked,
    Event,
    Exited,
    HostClean,
    InputsFailed,
    InputsReady,
    Launched,
    LaunchFailed,
    Restarted,
    Run,
    Stopping,
    Stored,
    StoreFailed,
    Tick,
    TxDone,
    VoucherNote,
)
from millpond_worker.machine.model import WorkerState


def handle(state: WorkerState, event: Event, now: int) -> list[Command]:
    """What follows from `event` at Unix second `now`. Pure but for `state`, whose changed rows it marks."""
    match event:
        case Desired() | ChainSaid() | Launched() | LaunchFailed() | HostClean() | VoucherNote() | TxDone():
            return _of_lease(state, event, now)
        case Connected() | Disconnected() | DrainAsked() | Restarted() | Stopping() | Tick() | Ack() | Committed():
            return _of_worker(state, event, now)
        case _:
            return _of_attempt(state, event, now)


def _of_lease(
    state: WorkerState,
    event: Desired | ChainSaid | Launched | LaunchFailed | HostClean | VoucherNote | TxDone,
    now: int,
) -> list[Command]:
    match event:
        case Desired():
            return lease.desired(state, event, now)
        case ChainSaid(fact=fact):
            return lease.chain_said(state, fact, now)
        case Launched(lease=name):
            return lease.launched(state, name, now)
        case LaunchFailed(lease=name, message=message):
            return lease.launch_failed(state, name, message, now)
        case HostClean(lease=name):
            return lease.host_clean(state, name)
        case VoucherNote():
            return lease.voucher(state, event, now)
        case TxDone():
            return settle.tx_done(state, event, now)


def _of_worker(
    state: WorkerState,
    event: Connected | Disconnected | DrainAsked | Restarted | Stopping | Tick | Ack | Committed,
    now: int,
) -> list[Command]:
    match event:
        case Connected(acked_seq=seq):
            state.connected_at = now
            return [*attempt.acked(state, seq), *(CheckChain(name) for name in state.leases)]
        case Disconnected():
            state.connected_at = 0
        case DrainAsked():
            state.is_draining = True
        case Restarted(running=running):
            return [*attempt.restarted(state, running), *lease.restarted(state)]
        case Stopping():
            return lease.stopping(state, now)
        case Tick():
            return [*lease.tick(state, now), *attempt.announce(state, now)]
        case Ack(seq=seq):
            return attempt.acked(state, seq)
        case Committed(seq=seq):
            return attempt.committed(state, seq)
    return []


def _of_attempt(
    state: WorkerState, event: Run | Cancel | InputsReady | InputsFailed | Exited | Stored | StoreFailed, now: int
) -> list[Command]:
    match event:
        case Run():
            return attempt.run(state, event)
        case Cancel():
            return attempt.cancel(state, event, now)
        case InputsReady(key=key):
            return attempt.inputs_ready(state, key, now)
        case InputsFailed():
            return attempt.inputs_failed(state, event)
        case Exited():
            return attempt.exited(state, event)
        case Stored():
            return attempt.stored(state, event)
        case StoreFailed(key=key, message=message):
            return attempt.store_failed(state, key, message)
