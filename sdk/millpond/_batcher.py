"""Tasks that come one at a time become few submissions: while one is under way, what comes gathers for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from millpond._job import Job, Template
from millpond.errors import NodeRefusedError
from millpond.protocol.messages import MAX_TASKS_PER_SUBMIT, TaskResult, TaskSpec

if TYPE_CHECKING:
    from millpond.task import Task

TOO_MANY = 429
FULL_PAUSE_S = 1.0
FULL_PATIENCE_S = 900.0
Started = tuple[TaskSpec, "asyncio.Future[TaskResult]"]
"""A task as the node has it, and its result to come."""


class Batcher:
    """The only one to submit to `job`. All methods belong to one event loop."""

    def __init__(self, job: Job, make_template: Callable[[Task[..., Any]], Awaitable[Template]]) -> None:
        self.job = job
        self._make_template = make_template
        self._templates: dict[Task[..., Any], Template] = {}
        self._template_gate = asyncio.Lock()
        self._gathered: list[tuple[TaskSpec, asyncio.Future[Started]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def template(self, task: Task[..., Any]) -> Template:
        """Made, and its code stored, once per task."""
        async with self._template_gate:
            if task not in self._templates:
                self._templates[task] = await self._make_template(task)
            return self._templates[task]

    async def submit(self, spec: TaskSpec) -> Started:
        """Durable at the node on return."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[Started] = loop.create_future()
        self._gathered.append((spec, sent))
        if self._sender is None or self._sender.done():
            self._sender = loop.create_task(self._send())
        return await sent

    async def _send(self) -> None:
        while self._gathered:
            taken = self._gathered[:MAX_TASKS_PER_SUBMIT]
            del self._gathered[: len(taken)]
            numbered = self.job.number([spec for spec, _ in taken])
            try:
                futures = await self._submit(numbered)
            except BaseException as error:
                for _, sent in taken:
                    if not sent.done():
                        sent.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            for (_, sent), spec, future in zip(taken, numbered, futures, strict=True):
                if not sent.done():
                    sent.set_result((spec, future))

    async def _submit(self, numbered: list[TaskSpec]) -> list[asyncio.Future[TaskResult]]:
        """A node that is full takes more once some of what it has is done."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FULL_PATIENCE_S
        while True:
            try:
                return await self.job.send(numbered)
            except NodeRefusedError as error:
                if error.fields.get("status") != TOO_MANY or loop.time() > deadline:
                    raise
            await asyncio.sleep(FULL_PAUSE_S)
