"""`Client`: the blocking face of `AsyncClient`, over one event loop in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from millpond._asyncclient import AsyncClient, OnWait
from millpond._asyncleases import OnLog
from millpond._handles import Handle
from millpond._leaseset import LeaseSet
from millpond._portal import call, finish, iterate
from millpond._renterchain import Funds, Withdrawal
from millpond._settlement import Settlement
from millpond.protocol.ids import Address, Bytes32, address
from millpond.protocol.messages import TaskResult
from millpond.protocol.usage import UsageView
from millpond.protocol.views import JobView, LeaseView, OfferView, PoolView, ReceiptBundle, TaskView, Why
from millpond.settings import Network
from millpond.vgpu import DEFAULT_DURATION_S, Vgpu

T = TypeVar("T")


class Client:
    """A renter's connection to one pool. Use it in a `with` block, or call `close`.

    Takes what `AsyncClient.connect` takes and raises the same errors. Amounts are token base units, times seconds.
    """

    def __init__(
        self,
        *,
        network: Network | None = None,
        wallet: str | None = None,
        home: Path | None = None,
        password: str | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        try:
            self._async = self._call(
                lambda: AsyncClient.connect(network=network, wallet=wallet, home=home, password=password)
            )
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Leases that are still open stay open, and unpaid ones are closed by their workers."""
        try:
            finish(self._portal, self._async.aclose)
        finally:
            self._stack.close()

    @property
    def address(self) -> Address:
        return self._async.address

    @property
    def pool(self) -> PoolView:
        return self._async.pool

    def funds(self) -> Funds:
        return self._call(self._async.funds)

    def fund(self, amount: int) -> Funds:
        """See `AsyncClient.fund`."""
        return self._call(lambda: self._async.fund(amount))

    def offers(self) -> list[OfferView]:
        return self._call(self._async.offers)

    def withdraw(self, amount: int | None = None, to: str | None = None) -> Withdrawal:
        """See `AsyncClient.withdraw`."""
        return self._call(lambda: self._async.withdraw(amount, None if to is None else address(to)))

    def quote(self, *vgpus: Vgpu, duration: int = DEFAULT_DURATION_S, price: int | None = None) -> int:
        """The most that renting `vgpus` would cost, before anything is signed."""
        orders = self._call(lambda: self._async.quote(vgpus, duration=duration, price=price))
        return sum(order.most(self.pool) for order in orders)

    def rent(
        self,
        *vgpus: Vgpu,
        duration: int = DEFAULT_DURATION_S,
        price: int | None = None,
        priority: int = 0,
        on_wait: OnWait | None = None,
    ) -> LeaseSet:
        """See `AsyncClient.rent`; `on_wait` is called on another thread."""
        leases = self._call(
            lambda: self._async.rent(vgpus, duration=duration, price=price, priority=priority, on_wait=on_wait)
        )
        return LeaseSet(self._portal, leases)

    def attach(self, *leases: Bytes32) -> LeaseSet:
        """See `AsyncClient.attach`."""
        return LeaseSet(self._portal, self._call(lambda: self._async.attach(leases)))

    def handle(self, handle_id: str) -> Handle:
        """See `AsyncClient.handle`."""
        return Handle(self._portal, self._async.handle(handle_id))

    def results(self, job: Bytes32, after: int = 0, *, follow: bool = False) -> Iterator[TaskResult]:
        """See `AsyncClient.results`."""
        return iterate(self._portal, lambda: self._async.results(job, after, follow=follow))

    def why(self, request: Bytes32) -> Why:
        return self._call(lambda: self._async.why(request))

    def leases(self) -> list[LeaseView]:
        return self._call(self._async.leases)

    def usage(self, lease: Bytes32) -> UsageView:
        """See `AsyncClient.usage`."""
        return self._call(lambda: self._async.usage(lease))

    def task(self, job: Bytes32, task: Bytes32) -> TaskView:
        """See `AsyncClient.task`."""
        return self._call(lambda: self._async.task(job, task))

    def close_lease(self, lease: Bytes32) -> Settlement:
        """See `AsyncClient.close_lease`."""
        return self._call(lambda: self._async.close_lease(lease))

    def receipt(self, task: Bytes32, attempt: int = 1) -> ReceiptBundle:
        return self._call(lambda: self._async.receipt(task, attempt))

    def store(self, data: bytes) -> str:
        """See `AsyncClient.store`."""
        return self._call(lambda: self._async.store(data))

    def store_path(self, path: Path) -> str:
        """See `AsyncClient.store_path`."""
        return self._call(lambda: self._async.store_path(path))

    def log(self, result: TaskResult) -> bytes:
        """See `AsyncClient.log`."""
        return self._call(lambda: self._async.log(result))

    def logs(self, job: Bytes32, task: Bytes32, on_log: OnLog, *, follow: bool = False) -> None:
        """Shows `on_log` what the node keeps of a task's output; with `follow` until the task ends."""
        self._call(lambda: self._async.logs(job, task, on_log, follow=follow))

    def job(self, job: Bytes32) -> JobView:
        """Counts of a job of this wallet."""
        return self._call(lambda: self._async.job(job))

    def fetch(self, cid: str) -> bytes:
        """See `AsyncClient.fetch`."""
        return self._call(lambda: self._async.fetch(cid))

    def fetch_path(self, cid: str, target: Path, *, is_folder: bool = True) -> None:
        """See `AsyncClient.fetch_path`."""
        self._call(lambda: self._async.fetch_path(cid, target, is_folder=is_folder))

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return call(self._portal, make)
