"""Performs the commands of the attempt machine: fetch, execute, stop, adopt, seal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.protocol.errors import LaunchError, StorageError
from millpond.protocol.link import LossCause
from millpond.protocol.messages import AttemptStatus, Failure
from millpond_worker.agent import seal
from millpond_worker.agent.background import Background, logged, told
from millpond_worker.agent.host import LeaseHost
from millpond_worker.agent.inputs import RENTERS_FAULT, InputDesk, Inputs
from millpond_worker.agent.latelogs import LateLogs
from millpond_worker.agent.leases import LeaseDesk, check_image
from millpond_worker.agent.logs import AttemptLog, LogQueue
from millpond_worker.agent.parts import Parts
from millpond_worker.agent.python_match import python_problem
from millpond_worker.launch.errors import (
    CommandStartError,
    EngineUnavailableError,
    ImageMissingError,
    ImageRefusedError,
    RenterNotAllowedError,
)
from millpond_worker.launch.port import Container, LogChunk, OnLog, TaskFrame
from millpond_worker.machine.commands import Adopt, Execute, Fetch, Seal, Stop
from millpond_worker.machine.events import Event, Exited, InputsFailed, InputsReady, Outcome, Stored, StoreFailed
from millpond_worker.machine.model import LIVE, Attempt, AttemptKey, LeaseState, WorkerState

TaskCommand = Fetch | Execute | Adopt | Stop | Seal
log = logging.getLogger("millpond_worker")
CANCELLED = Outcome(AttemptStatus.CANCELLED)


class TaskDesk:
    """Runs attempts on the hosts of their leases."""

    def __init__(
        self, parts: Parts, state: WorkerState, post: Callable[[Event], None], background: Background, leases: LeaseDesk
    ) -> None:
        self._parts, self._state, self._post, self._background, self._leases = parts, state, post, background, leases
        self.logs = LogQueue()
        self.has_logs = asyncio.Event()
        self.late = LateLogs(parts, background)
        self.inputs = InputDesk(parts.store, parts.folder / "inputs")
        self._ready: dict[AttemptKey, Inputs] = {}
        self._jobs: dict[AttemptKey, asyncio.Task[None]] = {}
        self._warm: set[AttemptKey] = set()

    def perform(self, command: TaskCommand) -> None:
        """Starts what is commanded; what goes wrong on the way costs this attempt alone."""
        try:
            self._start(command)
        except Exception as error:
            log.exception("attempt %d of task %s failed", command.key.attempt, command.key.task)
            self._give_up(command.key, error)

    def _start(self, command: TaskCommand) -> None:
        key = command.key
        attempt = self._state.attempt(key)
        match command:
            case Stop():
                self._stop(key)
            case Fetch() if attempt is not None:
                self._fetch(attempt)
            case Execute() if attempt is not None:
                self._begin(key, self._execute(attempt), "run")
            case Adopt() if attempt is not None:
                self._begin(key, self._adopt(attempt), "adopt")
            case Seal() if attempt is not None:
                self._seal(attempt, command)

    def _give_up(self, key: AttemptKey, error: Exception) -> None:
        """The machine takes whichever fits the state that the attempt got to."""
        now = self._parts.clock.now()
        self._ready.pop(key, None)
        self._post(Exited(key, _lost(told(error)), now, now))
        self._post(StoreFailed(key, told(error)))

    # INPUTS

    def _fetch(self, attempt: Attempt) -> None:
        at_hand = self.inputs.at_hand(attempt)
        if at_hand is None:
            self._begin(attempt.key, self._fetch_slowly(attempt), "fetch")
        else:
            self._ready[attempt.key] = at_hand
            self._post(InputsReady(attempt.key))

    async def _fetch_slowly(self, attempt: Attempt) -> None:
        key, now = attempt.key, self._parts.clock.now
        row = self._state.leases.get(key.lease)
        try:
            self._ready[key] = await self.inputs.fetch(attempt, row.offer.offer.diskMiB if row else 0)
        except RENTERS_FAULT as error:
            failure = Failure(error.code, f"{error.message} {error.remedy}".strip())
            self._post(Exited(key, Outcome(AttemptStatus.FAILED, failure), now(), now()))
        except StorageError as error:
            self._post(InputsFailed(key, error.message))
        except OSError as error:
            await self._hold_back()
            self._post(InputsFailed(key, f"inputs cannot be kept here: {error.strerror}", LossCause.WORKER))
        else:
            self._post(InputsReady(key))

    # RUNNING

    def _begin(self, key: AttemptKey, work: Coroutine[Any, Any, None], verb: str) -> None:
        task = self._background.start(
            work, f"{verb} {key.task} #{key.attempt}", lambda error: self._give_up(key, error)
        )
        self._jobs[key] = task
        task.add_done_callback(lambda done: self._jobs.pop(key, None) if self._jobs.get(key) is done else None)

    async def _execute(self, attempt: Attempt) -> None:
        key, started = attempt.key, self._parts.clock.now()
        inputs, host = self._ready.pop(key, None), self._leases.host(key.lease)
        try:
            if inputs is None or host is None:
                outcome = _lost("the lease has no container")
            else:
                outcome = await self._run(attempt, inputs, host)
        except (CommandStartError, ImageMissingError, ImageRefusedError, RenterNotAllowedError) as error:
            outcome = Outcome(AttemptStatus.FAILED, Failure(error.code, error.message))
        except EngineUnavailableError as error:
            await self._hold_back()
            outcome = _lost(error.message, LossCause.WORKER)
        except LaunchError as error:
            outcome = _lost(error.message)
        except asyncio.CancelledError:
            self._post(Exited(key, CANCELLED, started, self._parts.clock.now()))
            raise
        finally:
            if attempt.spec.inputs:
                self._background.start(self.inputs.drop(key), "drop inputs", logged)
        self._post(Exited(key, outcome, started, self._parts.clock.now()))

    async def _hold_back(self) -> None:
        """This machine cannot run anything just now: what it gives back at once would come back at once."""
        await self._parts.clock.sleep(self._parts.pace.retry_most)

    async def _run(self, attempt: Attempt, inputs: Inputs, host: LeaseHost) -> Outcome:
        spec, key, image = attempt.spec, attempt.key, attempt.spec.image or host.spec.image
        policy = self._state.terms.policy
        if image != host.spec.image and (policy.allow_images or policy.refuse_images):
            check_image(policy, image, await self._parts.launcher.pull(image))
        kept = AttemptLog()
        on_log = self._listen(key, kept)
        if spec.command:
            digest = await self._parts.launcher.pull(image)
            cold = host.cold_spec(key.task, key.attempt, image, spec.env, inputs.files)
            done = await host.run_cold(cold, spec.command, spec.time_limit_s, on_log)
            return seal.outcome_of(done, kept.bytes(done.log_bytes), digest)
        problem = python_problem(spec.python, host.container)
        if problem:
            return Outcome(AttemptStatus.FAILED, Failure("PythonMismatchError", problem))
        frame = TaskFrame(key.task, key.attempt, inputs.code, spec.entry, inputs.args, spec.time_limit_s, inputs.files)
        self._warm.add(key)
        try:
            container, done = await host.execute(frame, image, spec.env, on_log)
        finally:
            self._warm.discard(key)
        return seal.outcome_of(done, kept.bytes(done.log_bytes), _digest(container))

    async def _adopt(self, attempt: Attempt) -> None:
        key, spec = attempt.key, attempt.spec
        kept = AttemptLog()
        try:
            row = self._state.leases[key.lease]
            image = spec.image or self._leases.adopt(row).spec.image
            if row.state is LeaseState.UNPAID:
                await self._parts.launcher.pause_cold(key.lease)
            owned = next(
                found
                for found in await self._parts.launcher.list_owned()
                if (found.kind, found.lease, found.task, found.attempt) == ("cold", key.lease, key.task, key.attempt)
            )
            left = max(1.0, spec.time_limit_s - (self._parts.clock.now() - attempt.started_at))
            done = await self._parts.launcher.adopt(owned, left, self._listen(key, kept))
            outcome = seal.outcome_of(done, kept.bytes(done.log_bytes), await self._parts.launcher.image_digest(image))
        except (LaunchError, StopIteration, KeyError) as error:
            outcome = _lost(f"the container that outlived the worker cannot be adopted: {error}")
        self._post(Exited(key, outcome, attempt.started_at, self._parts.clock.now()))

    def _listen(self, key: AttemptKey, kept: AttemptLog) -> OnLog:
        def on_log(chunk: LogChunk) -> None:
            kept.add(chunk)
            self.logs.add(key.lease, chunk)
            self.has_logs.set()

        return on_log

    def _stop(self, key: AttemptKey) -> None:
        """A warm attempt is ended in its container; one that fetches or runs cold ends with its task here."""
        job = self._jobs.get(key)
        host = self._leases.host(key.lease)
        if key in self._warm and host is not None:
            self._background.start(self._cancel(host, key), f"cancel {key.task}", logged)
        elif job is not None:
            job.cancel()

    async def _cancel(self, host: LeaseHost, key: AttemptKey) -> None:
        try:
            await host.cancel(key.task, key.attempt)
        except LaunchError as error:
            log.warning("attempt %s of task %s is not cancelled: %s", key.attempt, key.task, error.message)

    # SEALING

    def _seal(self, attempt: Attempt, command: Seal) -> None:
        left = seal.left_of(command.outcome)
        if left.needs_store:
            self._background.start(
                self._seal_slowly(attempt, command),
                f"seal {attempt.key.task}",
                lambda error: self._give_up(attempt.key, error),
            )
        else:
            self._stored(attempt, command, seal.cids_of(left))

    async def _seal_slowly(self, attempt: Attempt, command: Seal) -> None:
        """Tries as long as the lease lives and patience lasts: the node may be away for a while."""
        clock, pace = self._parts.clock, self._parts.pace
        begun, delay = clock.monotonic(), pace.retry_first
        while True:
            try:
                cids = await seal.store(self._parts.store, seal.left_of(command.outcome))
            except (StorageError, OSError) as error:
                message = f"what the attempt left cannot be stored: {error}"
            else:
                self._stored(attempt, command, cids)
                return
            row = self._state.leases.get(attempt.key.lease)
            if row is None or row.state not in LIVE or clock.monotonic() - begun > pace.store_patience:
                self._post(StoreFailed(attempt.key, message))
                return
            await clock.sleep(delay)
            delay = min(2 * delay, pace.retry_most)

    def _stored(self, attempt: Attempt, command: Seal, cids: seal.Cids) -> None:
        row = self._state.leases.get(attempt.key.lease)
        if row is not None:
            device, worker = row.offer.offer.device, self._parts.identity.wallet.address
            self._post(Stored(attempt.key, seal.ended(attempt, command, cids, device, worker)))
            self.late.add(attempt.key.lease, seal.left_of(command.outcome).late_log)


def _lost(message: str, cause: LossCause = LossCause.TASK) -> Outcome:
    return Outcome(None, Failure("TaskLostError", message), cause=cause)


def _digest(container: Container | None) -> str:
    return container.image_digest if container is not None else ""
