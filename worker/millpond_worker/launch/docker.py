"""The docker launcher: hardened containers through the Engine API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from millpond.protocol.errors import LaunchError
from millpond_worker.runner.bundle import write_bundle

from .cold import ColdRun
from .coldkeeper import ColdKeeper
from .docker_check import findings_of, vulnerable_runtime
from .docker_config import PREFIX, ImageFacts, cold_config, image_facts, limits_from, warm_config
from .docker_engine import DockerEngine
from .errors import (
    CommandStartError,
    ContainerGoneError,
    EngineRefusedError,
    ImageMissingError,
    RunnerStartError,
    RuntimeVulnerableError,
)
from .keeper import WarmKeeper
from .measure import measured_by_docker
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
from .session import Listener, Session, greet
from .spool import Room, owner_of, remove_tree, safe_name
from .warm import WarmContainer

START_TIMEOUT_S = 60.0
GUEST_FOLDERS = ("/in", "/out")


class DockerLauncher(WarmKeeper):
    """Launches on the Docker engine at `address` (default: the environment's). `folder` holds sockets, inputs and outputs of leases.

    `worker` labels every container, so that a restarted worker finds its own. Known-vulnerable container runtimes are refused unless
    `is_old_runtime_allowed`.
    """

    kind = "docker"
    isolation = 1

    def __init__(
        self, worker: str, folder: Path, *, address: str | None = None, is_old_runtime_allowed: bool = False
    ) -> None:
        super().__init__()
        self._worker = worker
        self._folder = folder / "docker"
        self._engine = DockerEngine(address)
        self._cold = ColdKeeper(self._engine.pause, self._engine.unpause)
        self._is_old_runtime_allowed = is_old_runtime_allowed
        self._is_gated = False
        self._is_closing = False

    async def check(self) -> list[Finding]:
        try:
            return findings_of(await self._engine.version(), await self._engine.info())
        except LaunchError as error:
            return [Finding("fail", "docker", error.message, error.remedy)]

    async def _gate(self) -> None:
        if self._is_gated or self._is_old_runtime_allowed:
            return
        reason = vulnerable_runtime(await self._engine.version())
        if reason:
            raise RuntimeVulnerableError(reason, reason=reason)
        self._is_gated = True

    # IMAGES

    async def pull(self, image: str) -> str:
        try:
            return await self.image_digest(image)
        except ImageMissingError:
            await self._engine.pull(image)
            return await self.image_digest(image)

    async def image_digest(self, image: str) -> str:
        return (await self._image(image)).digest

    async def _image(self, image: str) -> ImageFacts:
        return image_facts(await self._engine.image(image))

    # WARM

    def _lease_folder(self, lease: str) -> Path:
        return self._folder / safe_name(lease)

    def _room(self, spec: ContainerSpec) -> Room:
        room = Room(self._lease_folder(spec.lease), owner_of(spec.lease))
        return room.furnish(spec.inputs)

    async def start(self, spec: ContainerSpec) -> Container:
        await self._gate()
        image = await self._image(spec.image)
        room = await asyncio.to_thread(self._room, spec)
        listener = Listener(room.ctl, room.owner)
        container_id = ""
        try:
            bundle = await asyncio.to_thread(write_bundle, self._folder)
            config = warm_config(self._worker, spec, image, room, bundle)
            container_id = await self._engine.create(config, f"{PREFIX}-{room.name}")
            session = await self._boot(container_id, listener, spec.image)
            if session is None:
                raise RunnerStartError(
                    f"no runner in {spec.image}", image=spec.image, reason=await self._last_words(container_id)
                )
        except BaseException:
            await self._discard(container_id, room)
            raise
        finally:
            listener.close()
        container = Container(container_id, spec.lease, image.digest, session.facts, spec.limits)
        kill, autopsy = partial(self._engine.kill, container_id), partial(self._autopsy, container_id)
        self._warm[container_id] = WarmContainer(container, session, room, GUEST_FOLDERS, kill, autopsy)
        return container

    async def _boot(self, container_id: str, listener: Listener, image: str) -> Session | None:
        try:
            await self._engine.start(container_id)
        except EngineRefusedError as error:
            raise RunnerStartError(
                f"{image} cannot run Python: {error.message}", image=image, reason=error.message
            ) from error
        ended = asyncio.ensure_future(self._engine.wait(container_id))
        try:
            return await greet(listener, ended, START_TIMEOUT_S)
        finally:
            ended.cancel()

    async def _last_words(self, container_id: str) -> str:
        words = b""
        try:
            async with self._engine.streams(container_id) as messages:
                async for _, data in messages:
                    words += data
        except ContainerGoneError as error:
            return error.message
        return words[-2000:].decode(errors="replace")

    async def _discard(self, container_id: str, room: Room) -> None:
        if container_id:
            await asyncio.shield(self._engine.remove(container_id))
        await asyncio.to_thread(room.remove)

    async def _autopsy(self, container_id: str) -> TaskStatus:
        try:
            state = (await self._engine.show(container_id))["State"]
        except LaunchError:
            return TaskStatus.LOST
        return TaskStatus.OOM if state.get("OOMKilled") else TaskStatus.LOST

    async def pause(self, container: Container) -> None:
        warm = self._find(container)
        warm.pause()
        await self._engine.pause(container.id)

    async def unpause(self, container: Container) -> None:
        warm = self._find(container)
        await self._engine.unpause(container.id)
        warm.unpause()

    async def stop(self, container: Container) -> None:
        await self._engine.remove(container.id)
        await self._drop(container.id)

    # COLD

    async def run_cold(
        self,
        spec: ContainerSpec,
        command: Sequence[str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        on_log: OnLog = drop_log,
    ) -> TaskOutcome:
        await self._gate()
        image = await self._image(spec.image)
        room = await asyncio.to_thread(self._room, spec)
        container_id = ""
        try:
            config = cold_config(self._worker, spec, image, room, command)
            container_id = await self._engine.create(config, f"{PREFIX}-{room.name}")
            await self._start_command(container_id, spec.image, command)
            run = ColdRun(self._engine, container_id, room, spec.limits, spec.task, spec.attempt)
            async with self._cold.keep(spec.lease, container_id, run):
                return await run.finish(time_limit_s, on_log)
        finally:
            await self._discard_unless_closing(container_id, room)

    async def pause_cold(self, lease: str) -> None:
        await self._cold.pause(lease)

    async def unpause_cold(self, lease: str) -> None:
        await self._cold.unpause(lease)

    async def _start_command(self, container_id: str, image: str, command: Sequence[str]) -> None:
        try:
            await self._engine.start(container_id)
        except EngineRefusedError as error:
            raise CommandStartError(
                f"{image} cannot run the command: {error.message}",
                image=image,
                command=list(command),
                reason=error.message,
            ) from error

    async def adopt(
        self, owned: OwnedContainer, time_limit_s: float = DEFAULT_TIME_LIMIT_S, on_log: OnLog = drop_log
    ) -> TaskOutcome:
        shown = await self._engine.show(owned.id)
        found = shown["Config"]["Labels"]
        room = Room(self._lease_folder(owned.lease), owner_of(owned.lease), found[f"{PREFIX}.room"])
        run = ColdRun(self._engine, owned.id, room, limits_from(found), owned.task, owned.attempt)
        try:
            async with self._cold.keep(owned.lease, owned.id, run, is_frozen=bool(shown["State"].get("Paused"))):
                return await run.finish(time_limit_s, on_log)
        finally:
            await self._discard_unless_closing(owned.id, room)

    async def _discard_unless_closing(self, container_id: str, room: Room) -> None:
        if not self._is_closing:
            await self._discard(container_id, room)

    # OWNERSHIP

    async def list_owned(self) -> list[OwnedContainer]:
        found = await self._engine.list({f"{PREFIX}.worker": self._worker})
        return [_owned(summary) for summary in found]

    async def measure(self, owned: OwnedContainer) -> Measured:
        return measured_by_docker(await self._engine.stats(owned.id))

    async def remove(self, owned: OwnedContainer) -> None:
        try:
            room = (await self._engine.show(owned.id))["Config"]["Labels"][f"{PREFIX}.room"]
        except ContainerGoneError:
            return
        await self._engine.remove(owned.id)
        await self._drop(owned.id)
        await asyncio.to_thread(remove_tree, self._lease_folder(owned.lease) / "rooms" / room)

    async def wipe(self, lease: str) -> None:
        for summary in await self._engine.list({f"{PREFIX}.worker": self._worker, f"{PREFIX}.lease": lease}):
            await self.remove(_owned(summary))
        self._cold.forget(lease)
        await asyncio.to_thread(remove_tree, self._lease_folder(lease))

    async def close(self) -> None:
        self._is_closing = True
        await self._close_all()
        await self._engine.close()


def _owned(summary: dict[str, Any]) -> OwnedContainer:
    labels: dict[str, str] = summary["Labels"]
    return OwnedContainer(
        id=str(summary["Id"]),
        kind=str(labels.get(f"{PREFIX}.kind", "")),
        lease=str(labels.get(f"{PREFIX}.lease", "")),
        task=str(labels.get(f"{PREFIX}.task", "")),
        attempt=int(labels.get(f"{PREFIX}.attempt", "0") or 0),
        is_running=summary.get("State") in ("running", "paused"),
    )
