"""Leases as coroutines: opened, paid while they run, used by tasks, closed and settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from millpond._job import Job, OnResult, Template
from millpond._outcomes import error_of, value_of
from millpond._pay import Payer
from millpond._sessions import Session
from millpond._settlement import Settlement
from millpond._source import source_of
from millpond.errors import MillpondError, NodeError, TaskError
from millpond.protocol import values
from millpond.protocol.ids import ZERO_BYTES32, Bytes32, task_id
from millpond.protocol.link import Log
from millpond.protocol.messages import INLINE_BYTES, SignedRequest, TaskResult, TaskSpec
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.views import LeaseState, LeaseView
from millpond.protocol.vouchers import Meter

if TYPE_CHECKING:
    from millpond._asyncclient import AsyncClient
    from millpond.task import Task, TaskOptions

READY_TIMEOUT_S = 300.0
VOUCHER_TIMEOUT_S = 10.0
SETTLE_TIMEOUT_S = 60.0
POLL_S = 0.5
LOG_GRACE_S = 1.0
OnLog = Callable[[Log], None]
SERVED = (LeaseState.SERVING, LeaseState.UNPAID)
UNPAID_TICKS = 2
"""How long a worker serves without a voucher before it pauses, in ticks of the offer."""
ENDED = (LeaseState.CLOSING, LeaseState.CLOSED)


class LeaseNotReadyError(NodeError):
    remedy_text = (
        "`millpond lease ls` shows its state; close it and rent again. Nothing is owed for a vGPU that was never ready."
    )


class AsyncLease:
    """One vGPU. Made by `AsyncClient.rent`; paid in the background until closed."""

    def __init__(
        self, client: AsyncClient, view: LeaseView, session: Session | None, order: SignedRequest | None = None
    ) -> None:
        self._client = client
        self.view = view
        self._session = session
        self._payer: Payer | None = None
        self.order = order

    @property
    def id(self) -> Bytes32:
        return self.view.lease

    @property
    def share(self) -> int:
        """Per mille of the device."""
        return self.view.offer.offer.share

    @property
    def memory_mib(self) -> int:
        return self.view.offer.offer.memoryMiB

    async def refresh(self) -> LeaseView:
        self.view = await self._client.api.lease(self.id)
        return self.view

    async def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> Self:
        """Waits until the vGPU serves and starts to pay; raises `LeaseNotReadyError`."""
        deadline = time.monotonic() + timeout_s
        while self.view.state not in SERVED:
            if self.view.state in ENDED:
                raise LeaseNotReadyError(
                    f"lease {self.id} ended before it was ready: {self.view.message or self.view.state}"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                raise LeaseNotReadyError(f"lease {self.id} is {self.view.state} after {timeout_s:g} s", lease=self.id)
            self.view = await self._client.api.lease(self.id, wait_s=max(1, int(min(left, 20))))
        self._start_paying()
        return self

    async def close(self, *, wait_settled: bool = True) -> Settlement:
        """Pays the last second, closes on chain and, by default, waits until the worker settled; returns the money's account."""
        last = await self._pay_up()
        await self._wait_kept(last)
        if not last and not self.view.voucher:
            await self._recover_deposit()
        await self._client.chain.close_lease(self.id)
        if wait_settled:
            await self._wait_settled()
        settlement = await self._client.chain.settlement(self.id)
        if settlement.is_settled:
            self._client.sessions.forget(self.view.request)
        return settlement

    def _start_paying(self) -> None:
        if self._payer is not None or self._session is None:
            return
        offer = self.view.offer.offer
        meter = Meter(_served_since(self.view), self.view.ends_at, offer.pricePerSecond)
        escrow = Domain(self._client.pool.chain_id, self._client.pool.escrow)
        self._payer = Payer(self._client.api, self.id, self._session, escrow, meter, offer.tick)
        self._payer.start()

    async def _pay_up(self) -> int:
        """The last voucher. Another process's lease is taken up first."""
        if self._payer is None and self.view.ready_at and self.view.state in SERVED:
            self._start_paying()
        payer, self._payer = self._payer, None
        return 0 if payer is None else await payer.stop()

    async def _recover_deposit(self) -> None:
        """A lease that never served: one base unit, collected by the renter itself, brings the opening deposit back."""
        if self._session is None:
            return
        escrow = Domain(self._client.pool.chain_id, self._client.pool.escrow)
        signature = sign(Voucher(self.id, 1), escrow, self._session.key)
        await self._client.chain.collect(self.id, 1, signature)

    async def _wait_kept(self, cumulative: int) -> None:
        """Waits until the worker has the last voucher, so that its collection is complete."""
        deadline = time.monotonic() + VOUCHER_TIMEOUT_S
        while cumulative and time.monotonic() < deadline:
            if (await self.refresh()).voucher >= cumulative:
                return
            await asyncio.sleep(POLL_S / 2)

    async def _wait_settled(self) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while time.monotonic() < deadline:
            if await self._client.chain.is_settled(self.id):
                return
            await asyncio.sleep(POLL_S)


def _served_since(view: LeaseView) -> int:
    """When the meter started; for a lease whose worker paused unpaid, so much before now as it served beyond its last voucher at most."""
    offer = view.offer.offer
    if view.state is not LeaseState.UNPAID or not offer.pricePerSecond:
        return view.ready_at
    served = view.voucher // offer.pricePerSecond + UNPAID_TICKS * offer.tick
    return max(view.ready_at, int(time.time()) - served)


class AsyncLeases:
    """Several leases used as one: tasks go to whichever is free. An async context manager that closes them all."""

    def __init__(self, client: AsyncClient, leases: Sequence[AsyncLease]) -> None:
        self._client = client
        self.leases = list(leases)
        self.settlements: list[Settlement] = []
        self.jobs: list[Job] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, wait_settled: bool = True) -> list[Settlement]:
        """Closes every lease, also when one of them fails; the first error is raised in the end."""
        for job in self.jobs:
            await job.aclose()
        open_leases, self.leases = self.leases, []
        closing = (lease.close(wait_settled=wait_settled) for lease in open_leases)
        results = await asyncio.gather(*closing, return_exceptions=True)
        self.settlements += [item for item in results if isinstance(item, Settlement)]
        errors = [item for item in results if isinstance(item, BaseException)]
        if errors:
            raise errors[0]
        return self.settlements

    def job(self, on_result: OnResult | None = None) -> Job:
        """A new job on these leases."""
        job = Job(self._client.api, [lease.id for lease in self.leases])
        if on_result is not None:
            job.watch(on_result)
        self.jobs.append(job)
        return job

    async def call(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs `task` once and returns its value; raises a `TaskError` kind."""
        job = self.job()
        [future] = await job.submit([await self._spec(await self._template(task), args, kwargs)])
        return await self.value(await future)

    async def map(
        self,
        task: Task[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        *,
        is_ordered: bool = True,
        is_raising: bool = True,
        on_result: OnResult | None = None,
        on_job: Any = None,
    ) -> AsyncGenerator[Any, None]:
        """Yields a value per element of `arguments`, see `Task.map`."""
        template = await self._template(task)
        specs = [await self._spec(template, args, {}) for args in arguments]
        if not specs:
            return
        job = self.job(on_result)
        if on_job is not None:
            on_job(job)
        futures = await job.submit(specs)
        source = iter(futures) if is_ordered else asyncio.as_completed(futures)
        for future in source:
            yield await self._value_or_error(await future, is_raising)

    async def command(
        self,
        command: Sequence[str],
        *,
        image: str = "",
        inputs: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        time_limit_s: float = 3600.0,
        on_job: Any = None,
        on_log: OnLog | None = None,
    ) -> TaskResult:
        """Runs one command in its own container; `inputs` maps names under /in to CIDs. Returns its result, failed or not.

        `on_log` sees what the command writes as it comes, as far as the node keeps up; `AsyncClient.log` has all of it.
        """
        job = self.job()
        if on_job is not None:
            on_job(job)
        spec = TaskSpec(
            ZERO_BYTES32,
            0,
            command=tuple(command),
            image=image,
            inputs=inputs or {},
            env=env or {},
            time_limit_s=time_limit_s,
            max_attempts=1,
        )
        [future] = await job.submit([spec])
        if on_log is None:
            return await future
        listener = asyncio.create_task(self._listen(job, on_log))
        try:
            result = await future
            await asyncio.wait([listener], timeout=LOG_GRACE_S)
        finally:
            listener.cancel()
        return result

    async def _listen(self, job: Job, on_log: OnLog) -> None:
        """Whatever breaks the stream, the whole log comes with the result."""
        with suppress(NodeError):
            await self._client.logs(job.id, task_id(job.id, 0), on_log, follow=True)

    async def value(self, result: TaskResult) -> Any:
        """The value of a result, fetched by CID when it did not travel inline; raises a `TaskError` kind."""
        error = error_of(result)
        if error is not None:
            raise error
        encoded = result.value
        if encoded is None and result.signed is not None and result.signed.value_cid:
            encoded = await self._client.fetch(result.signed.value_cid)
        return value_of(encoded)

    async def _value_or_error(self, result: TaskResult, is_raising: bool) -> Any:
        try:
            return await self.value(result)
        except TaskError as error:
            if is_raising:
                raise
            return error

    async def _template(self, task: Task[..., Any]) -> Template:
        source = source_of(task.function)
        options: TaskOptions = task.options
        code = await self._client.store(source.bundle())
        return Template(
            entry=source.entry,
            code=code,
            image=options.image,
            python=options.python,
            time_limit_s=options.time_limit_s,
            max_attempts=options.max_attempts,
            inputs=options.inputs,
        )

    async def _spec(self, template: Template, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskSpec:
        encoded = values.encode_bytes((args, kwargs))
        is_inline = len(encoded) <= INLINE_BYTES
        return TaskSpec(
            ZERO_BYTES32,
            0,
            entry=template.entry,
            code=template.code,
            args=encoded if is_inline else b"",
            args_cid="" if is_inline else await self._client.store(encoded),
            image=template.image,
            python=template.python,
            time_limit_s=template.time_limit_s,
            max_attempts=template.max_attempts,
            inputs=template.inputs,
        )


async def close_quietly(lease: AsyncLease) -> MillpondError | None:
    """Closes after a failure elsewhere; its own error is returned, not raised."""
    try:
        await lease.close(wait_settled=False)
    except MillpondError as error:
        return error
    return None
