"""The process launcher: for development and tests on machines without a container engine. Isolation class 0, known renters only.

Memory is limited by RLIMIT_DATA and the network by a namespace where the machine allows one; processor shares are not enforced. Images
are not used: tasks run on the worker's own Python, commands on its own files.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from millpond_worker.runner.bundle import write_bundle

from .cold import ColdRun
from .coldkeeper import ColdKeeper
from .docker_config import base_environment, check_names
from .errors import ContainerGoneError, RenterNotAllowedError, RunnerStartError
from .keeper import WarmKeeper
from .measure import measured_by_proc
from .port import (
    DEFAULT_TIME_LIMIT_S,
    Container,
    ContainerSpec,
    Finding,
    Measured,
    OnLog,
    OwnedContainer,
    TaskOutcome,
    TaskStatus,
    drop_log,
)
from .process_engine import ProcessEngine, is_alive, kill_tree, limit_prefix, records, tree
from .session import SOCKET_NAME, Listener, greet
from .spool import Owner, Room, remove_tree, safe_name
from .warm import WarmContainer

START_TIMEOUT_S = 30.0
PATH = "/usr/local/bin:/usr/bin:/bin"


class ProcessLauncher(WarmKeeper):
    """Runs tasks of `allowed_renters` as processes of this user, on `python` (default: the worker's own)."""

    kind = "process"
    isolation = 0

    def __init__(
        self, worker: str, folder: Path, *, allowed_renters: Iterable[str], python: str = sys.executable
    ) -> None:
        super().__init__()
        self._worker = worker
        self._folder = folder / "process"
        self._allowed = frozenset(renter.lower() for renter in allowed_renters)
        self._python = python
        self._engine = ProcessEngine()
        self._cold = ColdKeeper(partial(self._signal, signal.SIGSTOP), partial(self._signal, signal.SIGCONT))

    async def check(self) -> list[Finding]:
        found = [
            Finding("warn", "process", "processes are not containers: for development only", "Use the docker launcher.")
        ]
        if not await asyncio.to_thread(self._engine.prefix):
            found.append(
                Finding(
                    "warn", "process", "no namespaces here: tasks reach the network", "Install util-linux, run as root."
                )
            )
        return found

    # IMAGES

    async def pull(self, image: str) -> str:
        return await self.image_digest(image)

    async def image_digest(self, image: str) -> str:
        """A digest of the Python that stands for every image."""
        return hashlib.sha256(
            f"process:{self._python}:{platform.python_version()}:{platform.machine()}".encode()
        ).hexdigest()

    # WARM

    def _admit(self, renter: str) -> None:
        if renter.lower() not in self._allowed:
            raise RenterNotAllowedError(f"the process launcher does not serve {renter}", renter=renter)

    def _lease_folder(self, lease: str) -> Path:
        return self._folder / safe_name(lease)

    def _room(self, spec: ContainerSpec) -> Room:
        room = Room(self._lease_folder(spec.lease), Owner(0, 0, False))
        room.furnish(spec.inputs)
        (room.folder / "tmp").mkdir(mode=0o700)
        return room

    def _environment(self, spec: ContainerSpec, room: Room) -> dict[str, str]:
        check_names(spec.env)
        places = {"MILLPOND_IN": str(room.inputs), "MILLPOND_OUT": str(room.outputs), "MILLPOND_LEASE": spec.lease}
        home = {"HOME": str(room.folder / "tmp"), "TMPDIR": str(room.folder / "tmp"), "PATH": PATH}
        return dict(spec.env) | base_environment(spec.limits) | home | places

    async def _spawn(self, kind: str, spec: ContainerSpec, room: Room, command: Sequence[str]) -> None:
        wrapped = [*await asyncio.to_thread(self._engine.prefix), *limit_prefix(spec.limits), *command]
        record = {"worker": self._worker, "kind": kind, "lease": spec.lease, "task": spec.task, "attempt": spec.attempt}
        await self._engine.spawn(room.name, room.folder, wrapped, self._environment(spec, room), record)

    async def start(self, spec: ContainerSpec) -> Container:
        self._admit(spec.renter)
        room = await asyncio.to_thread(self._room, spec)
        listener = Listener(room.ctl, room.owner)
        try:
            bundle = await asyncio.to_thread(write_bundle, self._folder)
            paths = [str(bundle / "start.py"), str(room.ctl / SOCKET_NAME), str(room.folder / "tmp" / "code")]
            await self._spawn("warm", spec, room, [self._python, "-I", "-X", "utf8", *paths])
            ended = asyncio.ensure_future(self._engine.wait(room.name))
            session = await greet(listener, ended, START_TIMEOUT_S)
            ended.cancel()
            if session is None:
                raise RunnerStartError("no runner", image=spec.image, reason=self._engine.last_words(room.name))
        except BaseException:
            await self._discard(room)
            raise
        finally:
            listener.close()
        container = Container(room.name, spec.lease, await self.image_digest(spec.image), session.facts, spec.limits)
        guest = (str(room.inputs), str(room.outputs))
        self._warm[room.name] = WarmContainer(
            container, session, room, guest, partial(self._engine.kill, room.name), _autopsy
        )
        return container

    async def _discard(self, room: Room) -> None:
        await asyncio.shield(self._engine.forget(room.name))
        await asyncio.to_thread(room.remove)

    async def pause(self, container: Container) -> None:
        self._find(container).pause()
        self._engine.signal(container.id, signal.SIGSTOP)

    async def unpause(self, container: Container) -> None:
        self._engine.signal(container.id, signal.SIGCONT)
        self._find(container).unpause()

    async def stop(self, container: Container) -> None:
        await self._engine.forget(container.id)
        await self._drop(container.id)

    # COLD

    async def run_cold(
        self,
        spec: ContainerSpec,
        command: Sequence[str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        on_log: OnLog = drop_log,
    ) -> TaskOutcome:
        self._admit(spec.renter)
        if not command:
            raise RunnerStartError("a process has no command of its own", image=spec.image, reason="empty command")
        room = await asyncio.to_thread(self._room, spec)
        try:
            await self._spawn("cold", spec, room, command)
            run = ColdRun(self._engine, room.name, room, spec.limits, spec.task, spec.attempt)
            async with self._cold.keep(spec.lease, room.name, run):
                return await run.finish(time_limit_s, on_log)
        finally:
            await self._discard(room)

    async def _signal(self, number: signal.Signals, container: str) -> None:
        self._engine.signal(container, number)

    async def pause_cold(self, lease: str) -> None:
        await self._cold.pause(lease)

    async def unpause_cold(self, lease: str) -> None:
        await self._cold.unpause(lease)

    async def adopt(
        self, owned: OwnedContainer, time_limit_s: float = DEFAULT_TIME_LIMIT_S, on_log: OnLog = drop_log
    ) -> TaskOutcome:
        """A process of an earlier run has no exit code for us: it cannot be adopted. Raises `ContainerGoneError`."""
        raise ContainerGoneError("a process does not outlive its worker", container=owned.id)

    # OWNERSHIP

    async def list_owned(self) -> list[OwnedContainer]:
        return [_owned(path, record) for path, record in await asyncio.to_thread(self._records)]

    def _records(self) -> list[tuple[Path, dict[str, Any]]]:
        return [(path, record) for path, record in records(self._folder) if record["worker"] == self._worker]

    async def measure(self, owned: OwnedContainer) -> Measured:
        return await asyncio.to_thread(self._measure, owned)

    def _measure(self, owned: OwnedContainer) -> Measured:
        for path, record in self._records():
            if path.name == owned.id and is_alive(record):
                return measured_by_proc(tree(int(record["pid"])))
        raise ContainerGoneError("the process is gone", container=owned.id)

    async def remove(self, owned: OwnedContainer) -> None:
        for folder, record in await asyncio.to_thread(self._records):
            if folder.name == owned.id:
                if is_alive(record):
                    kill_tree(record["pid"])
                await self._engine.forget(owned.id)
                await self._drop(owned.id)
                await asyncio.to_thread(remove_tree, folder)

    async def wipe(self, lease: str) -> None:
        for owned in await self.list_owned():
            if owned.lease == lease:
                await self.remove(owned)
        self._cold.forget(lease)
        await asyncio.to_thread(remove_tree, self._lease_folder(lease))

    async def close(self) -> None:
        names = list(self._warm)
        await self._close_all()
        for name in names:
            await self._engine.forget(name)


async def _autopsy() -> TaskStatus:
    return TaskStatus.LOST


def _owned(folder: Path, record: dict[str, Any]) -> OwnedContainer:
    return OwnedContainer(
        folder.name, record["kind"], record["lease"], record["task"], int(record["attempt"]), is_alive(record)
    )
