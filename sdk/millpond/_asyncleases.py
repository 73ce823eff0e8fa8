"""Leases as coroutines: opened, paid while they run, used by tasks, closed and settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from millpond._batcher import Batcher
from millpond._handles import AsyncHandle
from millpond._job import Job, OnResult, Template
from millpond._outcomes import fetch_value
from millpond._pay import Payer
from millpond._sessions import Session
from millpond._settlement import Settlement
from millpond._source import source_of
from millpond._verify import verifier
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
LINGER_S = 30
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
        self._settlement: Settlement | None = None
        self.order = order

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client(self) -> AsyncClient:
        return self._client

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
        if self._settlement is not None and (self._settlement.is_settled or not wait_settled):
            return self._settlement
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
        self._settlement = settlement
        return settlement

    async def detach(self, seconds: int, *, until_done: bool = True) -> int:
        """Leaves the vouchers of the next `seconds` with the node, and stops paying from here. Returns the most they can cost.

        The node releases one per tick in which the worker serves, with `until_done` only while the lease's jobs have tasks to run. It
        holds no key: a node and a provider that cheat together gain that much and no more. Once the vouchers end, the worker pauses,
        and closes the lease after the pool's grace, at nobody's cost; `AsyncClient.attach` takes it up before or after.
        Raises `LadderError` when these are more ticks than the node keeps, `LeaseNotReadyError` for a lease that does not serve.
        """
        self._start_paying()
        if self._payer is None or (await self.refresh()).state not in SERVED:
            raise LeaseNotReadyError(f"lease {self.id} is {self.view.state}: there is nothing to pay ahead for")
        ladder = await self._payer.ladder(seconds, is_until_done=until_done)
        await self._client.api.post_ladder(ladder)
        paid = self._payer.cumulative
        payer, self._payer = self._payer, None
        await payer.leave()
        return ladder.rungs[-1].cumulative - paid if ladder.rungs else 0

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
        self._spawned: Batcher | None = None
        self._called: Batcher | None = None

    @property
    def client(self) -> AsyncClient:
        return self._client

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

    async def detach(self, seconds: int, *, until_done: bool = True) -> int:
        """Leaves all leases to the node as `AsyncLease.detach` does, and open at the end of the block; returns the most it can cost.

        Handles of this process still get their results for as long as the client is open.
        """
        cost = sum([await lease.detach(seconds, until_done=until_done) for lease in self.leases])
        self._client.keep(self.jobs)
        self.leases, self.jobs, self._spawned, self._called = [], [], None, None
        return cost

    def job(self, on_result: OnResult | None = None) -> Job:
        """A new job on these leases."""
        views = [lease.view for lease in self.leases]
        job = Job(
            self._client.api,
            [view.lease for view in views],
            lambda made: verifier(self._client.pool, self._client.api.url, made, views).check,
        )
        if on_result is not None:
            job.watch(on_result)
        self.jobs.append(job)
        return job

    def batcher(self) -> Batcher:
        """A new job whose tasks come one at a time."""
        job = self.job()
        job.linger_s = LINGER_S
        return Batcher(job, self._template)

    async def spawn(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncHandle:
        """Submits `task`, durable at the node on return, and does not wait for it; all that is spawned here is one job."""
        if self._spawned is None:
            self._spawned = self.batcher()
        return await self._spawn(self._spawned, await self.spec(await self._spawned.template(task), args, kwargs))

    async def spawn_command(
        self,
        command: Sequence[str],
        *,
        image: str = "",
        inputs: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        time_limit_s: float = 3600.0,
    ) -> AsyncHandle:
        """Like `command`, without waiting; a job of its own. Its value is None, see `AsyncHandle.outcome`."""
        return await self._spawn(self.batcher(), _command_spec(command, image, inputs, env, time_limit_s))

    async def _spawn(self, batcher: Batcher, spec: TaskSpec) -> AsyncHandle:
        sent, future = await batcher.submit(spec)
        return AsyncHandle(self._client, batcher.job.id, sent.index, future)

    async def call(self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs `task` once and returns its value; raises a `TaskError` kind. All calls are one job, whose results come by one stream."""
        if self._called is None:
            self._called = self.batcher()
        _, future = await self._called.submit(await self.spec(await self._called.template(task), args, kwargs))
        return await fetch_value(self._client, await future)

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
        specs = [await self.spec(template, args, {}) for args in arguments]
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
        [future] = await job.submit([_command_spec(command, image, inputs, env, time_limit_s)])
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

    async def _value_or_error(self, result: TaskResult, is_raising: bool) -> Any:
        try:
            return await fetch_value(self._client, result)
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

    async def spec(self, template: Template, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskSpec:
        """A task of `template` with its arguments, which travel inline or by CID; it has no number yet."""
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


def _command_spec(
    command: Sequence[str], image: str, inputs: dict[str, str] | None, env: dict[str, str] | None, time_limit_s: float
) -> TaskSpec:
    return TaskSpec(
        ZERO_BYTES32,
        0,
        command=tuple(command),
        image=image,
        inputs=inputs or {},
        env=env or {},
        time_limit_s=time_limit_s,
        max_attempts=1,
    )


async def close_quietly(lease: AsyncLease) -> MillpondError | None:
    """Closes after a failure elsewhere; its own error is returned, not raised."""
    try:
        await lease.close(wait_settled=False)
    except MillpondError as error:
        return error
    return None
