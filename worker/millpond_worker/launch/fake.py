"""A launcher without an engine, for tests of the worker: code runs in this process, ends can be scripted, nothing is limited."""

from __future__ import annotations

import asyncio
import hashlib
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millpond.protocol.values import decode, encode_bytes

from .errors import ContainerGoneError, ImageMissingError
from .outcomes import failure_of
from .port import (
    DEFAULT_TIME_LIMIT_S,
    Container,
    ContainerSpec,
    Finding,
    Measured,
    OnLog,
    OwnedContainer,
    RunnerFacts,
    TaskFailure,
    TaskFrame,
    TaskOutcome,
    TaskStatus,
    drop_log,
)

Key = tuple[str, int]


@dataclass(slots=True)
class FakeContainer:
    """What the fake remembers of a container."""

    spec: ContainerSpec
    kind: str
    going: asyncio.Event = field(default_factory=asyncio.Event)
    running: dict[Key, asyncio.Future[TaskOutcome]] = field(default_factory=dict)


class FakeLauncher:
    """Public knobs: `images` (names it knows), `outcomes` (scripted ends by task and attempt), `held` (tasks that only end when
    cancelled or stopped), `measured` (what every container uses), `failures` (errors the next call of a method raises), `calls` (how often each method was called).
    """

    kind = "fake"
    isolation = 0

    def __init__(self, images: Sequence[str] = ("millpond-task:1",)) -> None:
        self.images = set(images)
        self.outcomes: dict[Key, TaskOutcome] = {}
        self.held: set[str] = set()
        self.failures: dict[str, Exception] = {}
        self.calls: Counter[str] = Counter()
        self.containers: dict[str, FakeContainer] = {}
        self.frozen: set[str] = set()
        self.measured = Measured(cpu_ms=10, memory_bytes=1 << 20)
        self._count = 0

    def _enter(self, name: str) -> None:
        self.calls[name] += 1
        if name in self.failures:
            raise self.failures.pop(name)

    async def check(self) -> list[Finding]:
        return [Finding("ok", "fake", "nothing is limited")]

    async def pull(self, image: str) -> str:
        self._enter("pull")
        return await self.image_digest(image)

    async def image_digest(self, image: str) -> str:
        self._enter("image_digest")
        if image not in self.images:
            raise ImageMissingError(f"the image {image} is not here", image=image)
        return hashlib.sha256(image.encode()).hexdigest()

    async def start(self, spec: ContainerSpec) -> Container:
        self._enter("start")
        digest = await self.image_digest(spec.image)
        return Container(self._add(spec, "warm"), spec.lease, digest, RunnerFacts((3, 11, 0), True, 1, 1), spec.limits)

    def _add(self, spec: ContainerSpec, kind: str) -> str:
        self._count += 1
        name = f"fake-{self._count}"
        self.containers[name] = FakeContainer(spec, kind)
        self.containers[name].going.set()
        return name

    def _find(self, name: str) -> FakeContainer:
        if name not in self.containers:
            raise ContainerGoneError("the container is not running here", container=name)
        return self.containers[name]

    async def execute(self, container: Container, frame: TaskFrame, on_log: OnLog = drop_log) -> TaskOutcome:
        self._enter("execute")
        found, key = self._find(container.id), (frame.task, frame.attempt)
        ending: asyncio.Future[TaskOutcome] = asyncio.get_running_loop().create_future()
        found.running[key] = ending
        try:
            await asyncio.sleep(0)
            await self._while_paused(found, ending)
            if frame.task in self.held:
                return await ending
            return ending.result() if ending.done() else self.outcomes.get(key) or run_here(frame)
        finally:
            found.running.pop(key, None)

    async def _while_paused(self, found: FakeContainer, ending: asyncio.Future[TaskOutcome]) -> None:
        going = asyncio.ensure_future(found.going.wait())
        first: set[asyncio.Future[Any]] = {going, ending}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        going.cancel()

    def _end(self, found: FakeContainer, key: Key, status: TaskStatus) -> None:
        ending = found.running.get(key)
        if ending is not None and not ending.done():
            failure = failure_of(status, found.spec.limits, 0)
            ending.set_result(TaskOutcome(key[0], key[1], status, failure=failure))

    async def cancel(self, container: Container, task: str, attempt: int) -> None:
        self._enter("cancel")
        if container.id in self.containers:
            self._end(self.containers[container.id], (task, attempt), TaskStatus.CANCELLED)

    async def run_cold(
        self,
        spec: ContainerSpec,
        command: Sequence[str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        on_log: OnLog = drop_log,
    ) -> TaskOutcome:
        self._enter("run_cold")
        await self.image_digest(spec.image)
        while spec.lease in self.frozen:
            await asyncio.sleep(0)
        return self.outcomes.get((spec.task, spec.attempt)) or TaskOutcome(
            spec.task, spec.attempt, TaskStatus.OK, exit_code=0
        )

    async def pause_cold(self, lease: str) -> None:
        self._enter("pause_cold")
        self.frozen.add(lease)

    async def unpause_cold(self, lease: str) -> None:
        self._enter("unpause_cold")
        self.frozen.discard(lease)

    async def adopt(
        self, owned: OwnedContainer, time_limit_s: float = DEFAULT_TIME_LIMIT_S, on_log: OnLog = drop_log
    ) -> TaskOutcome:
        self._enter("adopt")
        self._find(owned.id)
        await self.remove(owned)
        return self.outcomes.get((owned.task, owned.attempt)) or TaskOutcome(
            owned.task, owned.attempt, TaskStatus.OK, exit_code=0
        )

    def leave_cold(self, spec: ContainerSpec) -> OwnedContainer:
        """Puts a cold container there as a worker's earlier life would have left it."""
        name = self._add(spec, "cold")
        return next(owned for owned in self._owned() if owned.id == name)

    async def pause(self, container: Container) -> None:
        self._enter("pause")
        self._find(container.id).going.clear()

    async def unpause(self, container: Container) -> None:
        self._enter("unpause")
        self._find(container.id).going.set()

    async def stop(self, container: Container) -> None:
        self._enter("stop")
        self._remove(container.id)

    def _remove(self, name: str) -> None:
        found = self.containers.pop(name, None)
        if found is not None:
            for key in list(found.running):
                self._end(found, key, TaskStatus.LOST)

    async def list_owned(self) -> list[OwnedContainer]:
        self._enter("list_owned")
        return self._owned()

    def _owned(self) -> list[OwnedContainer]:
        return [
            OwnedContainer(name, found.kind, found.spec.lease, found.spec.task, found.spec.attempt, True)
            for name, found in self.containers.items()
        ]

    async def measure(self, owned: OwnedContainer) -> Measured:
        self._enter("measure")
        self._find(owned.id)
        return self.measured

    async def remove(self, owned: OwnedContainer) -> None:
        self._enter("remove")
        self._remove(owned.id)

    async def wipe(self, lease: str) -> None:
        self._enter("wipe")
        for name in [name for name, found in self.containers.items() if found.spec.lease == lease]:
            self._remove(name)

    async def close(self) -> None:
        for name in [name for name, found in self.containers.items() if found.kind == "warm"]:
            self._remove(name)


def run_here(frame: TaskFrame) -> TaskOutcome:
    """Runs a one-file task in this process, as a container would."""
    module, _, name = frame.entry.partition(":")
    path = frame.code.main if module == "__mp_main__" else f"{module.replace('.', '/')}.py"
    outcome = TaskOutcome(frame.task, frame.attempt, TaskStatus.OK)
    space: dict[str, Any] = {"__name__": module}
    try:
        exec(compile(frame.code.files[path], path, "exec"), space)
        args, kwargs = decode(frame.args)
        return replace(outcome, value=encode_bytes(space[name](*args, **kwargs)))
    except Exception as error:  # noqa: BLE001 - a renter's code may raise anything
        failure = TaskFailure(type(error).__name__, str(error), traceback.format_exc())
        return replace(outcome, status=TaskStatus.FAILED, failure=failure)
