"""One lease's place on this machine: its slice, its warm container, and the order in which attempts get it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millpond.protocol.ids import Bytes32
from millpond_worker.launch.errors import ContainerGoneError
from millpond_worker.launch.port import (
    Container,
    ContainerSpec,
    Launcher,
    Limits,
    OnLog,
    TaskFrame,
    TaskOutcome,
    TaskStatus,
)

WarmKey = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class HostSpec:
    """What a lease's containers may use."""

    lease: Bytes32
    renter: str
    image: str
    limits: Limits
    gpus: tuple[str, ...]


class LeaseHost:
    """Keeps one warm container of (image, environment) at a time, so that a lease never uses more than its slice.

    Attempts of the same image overlap in the container, which runs them in order; another image waits until it is idle.
    """

    def __init__(self, launcher: Launcher, spec: HostSpec) -> None:
        self.spec = spec
        self._launcher = launcher
        self._gate = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._active = 0
        self._warm: Container | None = None
        self._key: WarmKey = ("", ())
        self._is_closed = False

    @property
    def container(self) -> Container | None:
        return self._warm

    async def start(self) -> None:
        """Starts the container of the lease's own image. Raises `LaunchError` kinds."""
        async with self._gate:
            await self._switch((self.spec.image, ()))
        await self._launcher.unpause_cold(self.spec.lease)

    async def execute(
        self, frame: TaskFrame, image: str, env: Mapping[str, str], on_log: OnLog
    ) -> tuple[Container | None, TaskOutcome]:
        """Runs one attempt in a warm container of `image`. A container that is gone makes the outcome LOST."""
        async with self._gate:
            container = await self._switch((image, tuple(sorted(env.items()))))
            self._enter()
        try:
            outcome = await self._launcher.execute(container, frame, on_log)
        except ContainerGoneError:
            outcome = TaskOutcome(frame.task, frame.attempt, TaskStatus.LOST)
        finally:
            self._leave()
        if outcome.status is TaskStatus.LOST and self._warm is container:
            self._warm = None
        return container, outcome

    async def run_cold(
        self, spec: ContainerSpec, command: Sequence[str], time_limit_s: float, on_log: OnLog
    ) -> TaskOutcome:
        """Runs one command alone: nothing else of the lease runs meanwhile."""
        async with self._gate:
            await self._idle.wait()
            return await self._launcher.run_cold(spec, command, time_limit_s, on_log)

    def cold_spec(
        self, task: Bytes32, attempt: int, image: str, env: Mapping[str, str], inputs: Mapping[str, Path]
    ) -> ContainerSpec:
        mine = self.spec
        return ContainerSpec(
            mine.lease,
            mine.renter,
            image,
            mine.limits,
            task=task,
            attempt=attempt,
            env=env,
            inputs=inputs,
            gpus=mine.gpus,
        )

    async def cancel(self, task: Bytes32, attempt: int) -> None:
        if self._warm is not None:
            await self._launcher.cancel(self._warm, task, attempt)

    async def pause(self) -> None:
        """Freezes all of the lease: its warm container, and commands in cold ones."""
        await self._launcher.pause_cold(self.spec.lease)
        if self._warm is not None:
            await self._launcher.pause(self._warm)

    async def unpause(self) -> None:
        if self._warm is not None:
            await self._launcher.unpause(self._warm)
        await self._launcher.unpause_cold(self.spec.lease)

    async def close(self) -> None:
        """Kills the container; attempts in it end LOST."""
        self._is_closed = True
        warm, self._warm = self._warm, None
        if warm is not None:
            await self._launcher.stop(warm)

    async def _switch(self, key: WarmKey) -> Container:
        """The warm container of `key`; called with the gate held."""
        if self._warm is not None and self._key == key:
            return self._warm
        await self._idle.wait()
        self._check_open()
        if self._warm is not None:
            old, self._warm = self._warm, None
            await self._launcher.stop(old)
        image, env = key
        mine = self.spec
        started = await self._launcher.start(
            ContainerSpec(mine.lease, mine.renter, image, mine.limits, env=dict(env), gpus=mine.gpus)
        )
        try:
            self._check_open()
        except ContainerGoneError:
            await self._launcher.stop(started)
            raise
        self._warm, self._key = started, key
        return started

    def _check_open(self) -> None:
        if self._is_closed:
            raise ContainerGoneError("the lease has ended", container="")

    def _enter(self) -> None:
        self._active += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._idle.set()
