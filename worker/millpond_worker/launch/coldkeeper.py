"""The cold runs of a launcher, by lease, so that a lease that is not paid for stands still as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from .cold import ColdRun
from .errors import ContainerGoneError

Freeze = Callable[[str], Awaitable[None]]


class ColdKeeper:
    """`pause` and `unpause` freeze and thaw one container of the engine."""

    def __init__(self, pause: Freeze, unpause: Freeze) -> None:
        self._pause, self._unpause = pause, unpause
        self._frozen: set[str] = set()
        self._runs: dict[str, dict[str, ColdRun]] = {}

    @asynccontextmanager
    async def keep(self, lease: str, container: str, run: ColdRun, *, is_frozen: bool = False) -> AsyncIterator[None]:
        """While it runs it stands still with its lease; `is_frozen` where the engine froze it already."""
        self._runs.setdefault(lease, {})[container] = run
        try:
            if is_frozen:
                self._frozen.add(lease)
                run.pause()
            elif lease in self._frozen:
                await self._freeze(container, run)
            yield
        finally:
            self._runs[lease].pop(container, None)
            if not self._runs[lease]:
                del self._runs[lease]

    async def pause(self, lease: str) -> None:
        """Freezes what runs, and what starts from now on."""
        self._frozen.add(lease)
        for container, run in list(self._runs.get(lease, {}).items()):
            await self._freeze(container, run)

    async def unpause(self, lease: str) -> None:
        if lease not in self._frozen:
            return
        for container, run in list(self._runs.get(lease, {}).items()):
            try:
                await self._unpause(container)
            except ContainerGoneError:
                continue
            run.unpause()
        self._frozen.discard(lease)

    def forget(self, lease: str) -> None:
        """The lease is over."""
        self._frozen.discard(lease)

    async def _freeze(self, container: str, run: ColdRun) -> None:
        run.pause()
        try:
            await self._pause(container)
        except ContainerGoneError:
            run.unpause()
