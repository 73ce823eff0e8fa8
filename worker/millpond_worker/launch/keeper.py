"""The warm containers a launcher of any engine holds, and the part of the port that needs nothing else."""

from __future__ import annotations

import asyncio

from .errors import ContainerGoneError
from .port import Container, OnLog, TaskFrame, TaskOutcome, drop_log
from .warm import WarmContainer


class WarmKeeper:
    """Base of the launchers that run the runner."""

    def __init__(self) -> None:
        self._warm: dict[str, WarmContainer] = {}

    def _find(self, container: Container) -> WarmContainer:
        try:
            return self._warm[container.id]
        except KeyError:
            raise ContainerGoneError("the container is not running here", container=container.id) from None

    async def execute(self, container: Container, frame: TaskFrame, on_log: OnLog = drop_log) -> TaskOutcome:
        """See `Launcher.execute`."""
        return await self._find(container).execute(frame, on_log)

    async def cancel(self, container: Container, task: str, attempt: int) -> None:
        """See `Launcher.cancel`."""
        if container.id in self._warm:
            await self._warm[container.id].session.cancel((task, attempt))

    async def _drop(self, container_id: str) -> None:
        """Forgets a container that is dead, with its folders."""
        warm = self._warm.pop(container_id, None)
        if warm is not None:
            await warm.close()
            await asyncio.to_thread(warm.room.remove)

    async def _close_all(self) -> None:
        for warm in self._warm.values():
            await warm.close()
        self._warm.clear()
