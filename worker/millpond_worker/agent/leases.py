"""Performs the commands of the lease machine: pull, carve, launch, pause, clear, ask the chain, send transactions."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from millpond.protocol.errors import ChainError, InputError, LaunchError, MillpondError
from millpond.protocol.ids import Bytes32
from millpond.storage.journal import JournalFailedError
from millpond_worker.agent.background import Background, logged, told
from millpond_worker.agent.host import HostSpec, LeaseHost
from millpond_worker.agent.parts import Parts
from millpond_worker.launch.errors import ImageRefusedError
from millpond_worker.launch.port import OwnedContainer
from millpond_worker.machine.commands import CheckChain, Clear, Launch, Pause, Pull, Resume, SendTx
from millpond_worker.machine.events import ChainSaid, Event, HostClean, Launched, LaunchFailed, TxDone
from millpond_worker.machine.model import LeaseRow, LeaseState, WorkerState
from millpond_worker.machine.policy import Policy

LeaseCommand = Pull | CheckChain | Launch | Pause | Resume | Clear | SendTx
log = logging.getLogger("millpond_worker")


class LeaseDesk:
    """Owns the hosts of leases. Steps of one lease run one after the other, in the order commanded."""

    def __init__(self, parts: Parts, state: WorkerState, post: Callable[[Event], None], background: Background) -> None:
        self._parts, self._state, self._post, self._background = parts, state, post, background
        self.hosts: dict[Bytes32, LeaseHost] = {}
        self._locks: dict[Bytes32, asyncio.Lock] = {}
        self._chain_trouble = ""
        self._stuck: dict[str, OwnedContainer] = {}
        self._is_swept, self._sweeping = False, asyncio.Lock()

    def perform(self, command: LeaseCommand) -> None:
        match command:
            case Pull(image=image):
                self._background.start(self._pull(image), f"pull {image}", logged)
            case CheckChain(lease=lease):
                self._background.start(self.check([lease]), f"check {lease}", logged)
            case Launch(lease=lease):
                self._background.start(
                    self._launch(lease),
                    f"launch {lease}",
                    lambda error: self._post(LaunchFailed(lease, told(error))),
                )
            case Pause(lease=lease):
                self._background.start(self._freeze(lease, is_frozen=True), f"pause {lease}", logged)
            case Resume(lease=lease):
                self._background.start(self._freeze(lease, is_frozen=False), f"resume {lease}", logged)
            case Clear(lease=lease):
                self._background.start(self._clear(lease), f"clear {lease}")
            case SendTx():
                self._background.start(self._send(command), f"{command.kind.value} {command.lease}")

    async def check(self, leases: list[Bytes32]) -> None:
        """Tells the machine what the chain says. No answer is no news."""
        if not leases:
            return
        try:
            facts = await self._parts.chain.facts(leases)
        except ChainError as error:
            self._tell_chain(error.message)
            return
        self._tell_chain("")
        for fact in facts:
            self._post(ChainSaid(fact))

    def _tell_chain(self, trouble: str) -> None:
        """The same trouble is told once, and its end."""
        if trouble and trouble != self._chain_trouble:
            log.warning("the chain does not answer: %s", trouble)
        elif self._chain_trouble and not trouble:
            log.info("the chain answers again")
        self._chain_trouble = trouble

    async def sweep(self) -> list[OwnedContainer]:
        """Once in a life, before anything is launched: removes the warm containers that the last life left. Returns all it found.

        Raises `LaunchError` kinds when the engine does not answer. What cannot be removed keeps its slice, and is tried again.
        """
        async with self._sweeping:
            if self._is_swept:
                return []
            owned = await self._parts.launcher.list_owned()
            for found in owned:
                if found.kind != "cold":
                    await self._remove(found)
            self._is_swept = True
            return owned

    async def kill_orphans(self) -> int:
        """Removes containers that belong to no lease which may have one; returns how many."""
        await self.sweep()
        owned = await self._parts.launcher.list_owned()
        for gone in set(self._stuck) - {found.id for found in owned}:
            self._let_go(gone)
        return sum([await self._remove(found) for found in owned if self._is_orphan(found)])

    def _is_orphan(self, found: OwnedContainer) -> bool:
        return found.id in self._stuck or (found.lease not in self.hosts and not self._is_adopted(found))

    async def _remove(self, found: OwnedContainer) -> bool:
        log.warning("removing container %s of lease %s, which is not served", found.id, found.lease)
        try:
            await self._parts.launcher.remove(found)
        except Exception:
            log.exception("container %s is not removed; it keeps its slice, and is tried again", found.id)
            self._stuck[found.id] = found
            self._hold_slice(Bytes32(found.lease))
            return False
        self._let_go(found.id)
        return True

    def _hold_slice(self, lease: Bytes32) -> None:
        row = self._state.leases.get(lease)
        if row is None or row.offer.offer.device not in self._parts.devices:
            return
        try:
            self._parts.ledger.reserve(lease, self._parts.slice_of(row.offer.offer))
        except InputError as error:
            log.warning("the slice of lease %s cannot be kept: %s", lease, error.message)

    def _let_go(self, container: str) -> None:
        """The container is gone: its slice is free, unless the lease is served again."""
        found = self._stuck.pop(container, None)
        if found is not None and found.lease not in self.hosts and not self._has_stuck(found.lease):
            self._parts.ledger.release(found.lease)

    def _has_stuck(self, lease: str) -> bool:
        return any(found.lease == lease for found in self._stuck.values())

    async def _until_alone(self, lease: Bytes32) -> bool:
        """Waits until nothing of the last life is in the lease's slice; whether the lease is still wanted then."""
        await self.sweep()
        delay = self._parts.pace.retry_first
        while self._has_stuck(lease):
            await self._parts.clock.sleep(delay)
            delay = min(2 * delay, self._parts.pace.retry_most)
        row = self._state.leases.get(lease)
        return row is not None and row.state is LeaseState.STARTING

    async def close(self) -> None:
        """Leaves no container behind."""
        for lease in list(self.hosts):
            await self._wipe(lease)
        await self.kill_orphans()

    def host(self, lease: Bytes32) -> LeaseHost | None:
        return self.hosts.get(lease)

    def adopt(self, row: LeaseRow) -> LeaseHost:
        """The host of a lease, made where there is none. Raises `InputError` kinds when the slice does not fit."""
        host = self.hosts.get(row.lease)
        if host is None:
            offer = row.offer.offer
            self._parts.ledger.reserve(row.lease, self._parts.slice_of(offer))
            limits, gpus = self._parts.limits_of(offer), self._parts.gpus_of(offer)
            image = row.image or self._parts.task_image
            host = LeaseHost(self._parts.launcher, HostSpec(row.lease, row.request.request.renter, image, limits, gpus))
            self.hosts[row.lease] = host
        return host

    def _is_adopted(self, found: OwnedContainer) -> bool:
        attempt = self._state.attempts.get((Bytes32(found.lease), Bytes32(found.task)))
        return found.kind == "cold" and attempt is not None and attempt.key.attempt == found.attempt

    def _lock(self, lease: Bytes32) -> asyncio.Lock:
        return self._locks.setdefault(lease, asyncio.Lock())

    async def _pull(self, image: str) -> None:
        try:
            await self._parts.launcher.pull(image or self._parts.task_image)
        except LaunchError as error:
            log.warning("the image %s is not here yet: %s", image, error.message)

    async def _launch(self, lease: Bytes32) -> None:
        try:
            if not await self._until_alone(lease):
                return
        except LaunchError as error:
            self._post(LaunchFailed(lease, f"{error.message} {error.remedy}".strip()))
            return
        async with self._lock(lease):
            row = self._state.leases.get(lease)
            if row is None:
                return
            try:
                await self._check_image(row.image or self._parts.task_image)
                await self.adopt(row).start()
            except (LaunchError, InputError) as error:
                self._post(LaunchFailed(lease, f"{error.message} {error.remedy}".strip()))
                return
            except OSError as error:
                self._post(LaunchFailed(lease, f"the launcher failed: {error}"))
                return
            self._post(Launched(lease))

    async def _check_image(self, image: str) -> None:
        """By digest, which is known only once the image is here. Raises `ImageRefusedError`."""
        policy = self._state.terms.policy
        if policy.allow_images or policy.refuse_images:
            check_image(policy, image, await self._parts.launcher.pull(image))

    async def _freeze(self, lease: Bytes32, *, is_frozen: bool) -> None:
        async with self._lock(lease):
            host = self.hosts.get(lease)
            if host is None:
                return
            try:
                await (host.pause() if is_frozen else host.unpause())
            except LaunchError as error:
                log.warning("lease %s cannot be %s: %s", lease, "paused" if is_frozen else "resumed", error.message)

    async def _clear(self, lease: Bytes32) -> None:
        """Tries until nothing is left: the machine waits for it."""
        delay = self._parts.pace.retry_first
        while not await self._is_wiped(lease):
            await self._parts.clock.sleep(delay)
            delay = min(2 * delay, self._parts.pace.retry_most)
        self._post(HostClean(lease))

    async def _is_wiped(self, lease: Bytes32) -> bool:
        try:
            async with self._lock(lease):
                await self._wipe(lease)
        except MillpondError as error:
            log.warning("lease %s is not cleared yet: %s", lease, error.message)
            return False
        except Exception:
            log.exception("lease %s is not cleared yet", lease)
            return False
        return True

    async def _wipe(self, lease: Bytes32) -> None:
        host = self.hosts.get(lease)
        if host is not None:
            await host.close()
        await self._parts.launcher.wipe(lease)
        await asyncio.to_thread(shutil.rmtree, inputs_folder(self._parts, lease), True)
        self._parts.store.forget(lease)
        for found in [found for found in self._stuck.values() if found.lease == lease]:
            del self._stuck[found.id]
        self.hosts.pop(lease, None)
        self._parts.ledger.release(lease)
        if lease not in self._state.leases:
            self._locks.pop(lease, None)

    async def _send(self, command: SendTx) -> None:
        try:
            await self._parts.chain.send(command)
        except JournalFailedError:
            raise
        except MillpondError as error:
            log.warning("%s of lease %s failed: %s", command.kind.value, command.lease, error.message)
            self._post(TxDone(command.lease, command.kind, command.number, error.message))
            return
        self._post(TxDone(command.lease, command.kind, command.number))
        await self.check([command.lease])


def check_image(policy: Policy, image: str, digest: str) -> None:
    """Raises `ImageRefusedError`."""
    problem = policy.image_problem(image, digest)
    if problem:
        raise ImageRefusedError(problem, image=image, digest=digest)


def inputs_folder(parts: Parts, lease: Bytes32) -> Path:
    """Where the inputs of a lease's tasks lie while they are needed."""
    return parts.folder / "inputs" / lease
