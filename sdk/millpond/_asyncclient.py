"""`AsyncClient`: a renter's connection to one pool, as coroutines."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from millpond._asyncleases import AsyncLease, AsyncLeases, OnLog, close_quietly
from millpond._attached import AttachedJob
from millpond._attached import follow as follow_results
from millpond._blocks import NodeBlocks
from millpond._handles import AsyncHandle, parse_handle
from millpond._job import Job
from millpond._nodeapi import Identity, NodeApi
from millpond._orders import Order, build_request, choose_price
from millpond._renterchain import Funds, InsufficientEscrowError, RenterChain, Withdrawal
from millpond._sessions import Session, SessionStore, new_session_key
from millpond._settlement import Settlement
from millpond._together import ungrouped
from millpond._verify import verifier
from millpond.errors import (
    LeaseWaitError,
    LogMissingError,
    MillpondError,
    NodeUnreachableError,
    RequestRefusedError,
    SettingsError,
)
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import SignedRequest, TaskResult
from millpond.protocol.signing import Domain, address_of, sign
from millpond.protocol.units import format_amount
from millpond.protocol.usage import UsageView
from millpond.protocol.views import (
    JobView,
    LeaseView,
    OfferView,
    PoolView,
    ReceiptBundle,
    RequestState,
    RequestView,
    TaskView,
    Why,
)
from millpond.settings import Network, home_folder, load_network
from millpond.storage.cid import parse_cid
from millpond.storage.errors import BlockNotFoundError
from millpond.storage.files import add_bytes, add_directory, add_file, export_directory, export_file, read_bytes
from millpond.vgpu import DEFAULT_DURATION_S, Vgpu
from millpond.wallet import load_wallet

OPEN_TIMEOUT_S = 120.0
FIRST_POLL_S = 3
LONG_POLL_S = 20
AWAY_PAUSE_S = 1.0
VOID_WAIT_S = 5
LOG_TIMEOUT_S = 10.0
LOG_POLL_S = 0.2

OnWait = Callable[[Why], None]

log = logging.getLogger(__name__)


class AsyncClient:
    """Made by `connect`. Every amount is in token base units, every time in seconds."""

    def __init__(self, key: bytes, pool: PoolView, api: NodeApi, chain: RenterChain, home: Path) -> None:
        self._key = key
        self.pool = pool
        self.api = api
        self.chain = chain
        self.sessions = SessionStore(home / "sessions")
        self._blocks = NodeBlocks(api)
        self._attached: dict[Bytes32, AttachedJob] = {}
        self._kept: list[Job] = []
        api.sign_as(Identity(key, Domain(pool.chain_id, pool.controller), pool.node))

    @classmethod
    async def connect(
        cls,
        *,
        network: Network | None = None,
        wallet: str | None = None,
        home: Path | None = None,
        password: str | None = None,
    ) -> Self:
        """Connects as the named wallet (default: MILLPOND_WALLET, or the development wallet on chain 31337).

        `password` opens the wallet's keystore; MILLPOND_WALLET_PASSWORD does where it is not given.
        Raises `SettingsError`, `WrongChainError`, `RpcUnreachableError`, `NodeUnreachableError`.
        """
        home = home or home_folder()
        network = network or load_network(home)
        key = load_wallet(home, network, wallet, password)
        chain = await RenterChain.connect(network, key, home)
        try:
            api = NodeApi(network.node_url or await chain.find_node())
            pool = await _checked_pool(api, network)
            await chain.enter_pool(pool)
        except BaseException:
            await chain.aclose()
            raise
        return cls(key, pool, api, chain, home)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for job in self._kept:
            await job.aclose()
        for attached in self._attached.values():
            await attached.aclose()
        await self.api.aclose()
        await self.chain.aclose()

    @property
    def address(self) -> Address:
        return address_of(self._key)

    # MONEY

    async def funds(self) -> Funds:
        return await self.chain.funds()

    async def fund(self, amount: int) -> Funds:
        """Moves `amount` from the wallet into Escrow."""
        await self.chain.deposit(amount)
        return await self.chain.funds()

    async def withdraw(self, amount: int | None = None, to: Address | None = None) -> Withdrawal:
        """Pays what leases owe this account and what was noticed long enough ago; gives notice of the rest, up to `amount`."""
        return await self.chain.withdraw(amount, to or self.address)

    # RENTING

    async def offers(self) -> list[OfferView]:
        return await self.api.offers()

    async def rent(
        self,
        vgpus: Sequence[Vgpu],
        *,
        duration: int = DEFAULT_DURATION_S,
        price: int | None = None,
        priority: int = 0,
        on_wait: OnWait | None = None,
    ) -> AsyncLeases:
        """Rents all of `vgpus` or none: waits until each serves. `price` is the highest per second; by default the cheapest fitting offer's.

        `on_wait` hears why a request waits, after a few seconds and whenever the reason changes.

        Raises `NoOfferError`, `InsufficientEscrowError`, `RequestRefusedError`, `LeaseWaitError`, `LeaseNotReadyError`.
        """
        orders = await self.quote(vgpus, duration=duration, price=price)
        await self._check_funds(sum(order.most(self.pool) for order in orders))
        placed: list[tuple[SignedRequest, Session]] = []
        leases: list[AsyncLease] = []
        try:
            for order in orders:
                placed.append(await self._sign(order, priority))
                await self.api.post_request(placed[-1][0])
            for request, session in placed:
                leases.append(await self._wait_open(request, session, on_wait))
            await asyncio.gather(*(lease.wait_ready() for lease in leases))
        except BaseException:
            await asyncio.gather(*(close_quietly(lease) for lease in leases))
            await asyncio.gather(*(self._void(*item) for item in placed[len(leases) :]))
            raise
        return AsyncLeases(self, leases)

    async def quote(self, vgpus: Sequence[Vgpu], *, duration: int, price: int | None = None) -> list[Order]:
        """What renting would cost at most, before anything is signed."""
        offers = [] if price is not None else await self.offers()
        return [Order(vgpu, choose_price(vgpu, offers) if price is None else price, duration) for vgpu in vgpus]

    async def place(self, order: Order, priority: int = 0) -> tuple[SignedRequest, Session]:
        """Signs and sends one request. Its session key is durable before the node hears of it."""
        signed, session = await self._sign(order, priority)
        await self.api.post_request(signed)
        return signed, session

    async def _sign(self, order: Order, priority: int) -> tuple[SignedRequest, Session]:
        key, now = new_session_key(), int(time.time())
        request = build_request(order, self.pool, self.address, address_of(key), secrets.randbits(256), now)
        session = Session(request.struct_hash(), key)
        await asyncio.to_thread(self.sessions.save, session)
        signature = sign(request, Domain(self.pool.chain_id, self.pool.escrow), self._key)
        return SignedRequest(request, signature, priority), session

    async def why(self, request: Bytes32) -> Why:
        return await self.api.why(request)

    async def leases(self) -> list[LeaseView]:
        return await self.api.leases()

    async def usage(self, lease: Bytes32) -> UsageView:
        """What a lease of the wallet uses of its machine, as its worker measured it. Raises `NodeRefusedError` for another's."""
        return await self.api.usage(lease)

    async def task(self, job: Bytes32, task: Bytes32) -> TaskView:
        """Where a task is, when its state ends at the latest, and what it becomes then."""
        return await self.api.task(job, task)

    async def attach(self, leases: Sequence[Bytes32]) -> AsyncLeases:
        """Leases this home opened earlier, in this process or another: paid from here again, and closed at the end of the block.

        Raises `SettingsError` where this home has no session key of a lease, `LeaseNotReadyError` for one that has ended.
        """
        views = [await self.api.lease(lease) for lease in leases]
        found = [AsyncLease(self, view, await asyncio.to_thread(self.sessions.load, view.request)) for view in views]
        await asyncio.gather(*(lease.wait_ready() for lease in found))
        return AsyncLeases(self, found)

    async def close_lease(self, lease: Bytes32) -> Settlement:
        """Closes a lease of this wallet, with its session's last voucher where this home has its key."""
        view = await self.api.lease(lease)
        try:
            session = await asyncio.to_thread(self.sessions.load, view.request)
        except SettingsError:
            session = None
        return await AsyncLease(self, view, session).close()

    async def receipt(self, task: Bytes32, attempt: int = 1) -> ReceiptBundle:
        return await self.api.receipt(task, attempt)

    # JOBS

    def handle(self, handle_id: str) -> AsyncHandle:
        """A spawned task by the id of its handle; raises `HandleError`. Whether there is such a task, the node says when asked."""
        job, index = parse_handle(handle_id)
        return AsyncHandle(self, job, index)

    def results(self, job: Bytes32, after: int = 0, *, follow: bool = False) -> AsyncGenerator[TaskResult, None]:
        """Results of a job of this wallet beyond cursor `after`, in the order they came; with `follow` until its tasks have ended."""
        return follow_results(self.api, job, after) if follow else self.api.results(job, after, follow=False)

    async def job(self, job: Bytes32) -> JobView:
        """Counts of a job of this wallet."""
        return await self.api.job(job)

    def attached(self, job: Bytes32) -> AttachedJob:
        """One reader per job, however many wait for its tasks."""
        return self._attached.setdefault(job, AttachedJob(self.api, job, verifier(self.pool, self.api.url, job).check))

    def keep(self, jobs: Sequence[Job]) -> None:
        """Takes over jobs whose leases were left to the node."""
        self._kept += jobs

    # DATA

    async def store(self, data: bytes) -> str:
        """Puts bytes into the node's store, which takes them from whoever has a lease or a request; returns their CID."""
        with ungrouped():
            return str(await add_bytes(self._blocks, data))

    async def store_path(self, path: Path) -> str:
        """Like `store`, for a file or folder."""
        add = add_directory if await asyncio.to_thread(path.is_dir) else add_file
        with ungrouped():
            return str(await add(self._blocks, path))

    async def fetch(self, cid: str) -> bytes:
        """The verified bytes of a file in the node's store."""
        with ungrouped():
            return await read_bytes(self._blocks, parse_cid(cid))

    async def logs(self, job: Bytes32, task: Bytes32, on_log: OnLog, *, follow: bool = False) -> None:
        """Shows `on_log` what the node keeps of a task's output; with `follow` until the task ends."""
        async with aclosing(self.api.logs(job, task, 0, follow=follow)) as chunks:
            async for chunk in chunks:
                on_log(chunk)

    async def log(self, result: TaskResult) -> bytes:
        """All a task wrote, both streams as they came. A log follows its receipt, so this waits for it; raises `LogMissingError`."""
        cid = "" if result.signed is None else result.signed.log_cid
        deadline = time.monotonic() + LOG_TIMEOUT_S
        while cid:
            try:
                return await self.fetch(cid)
            except BlockNotFoundError as error:
                if time.monotonic() > deadline:
                    raise LogMissingError(f"the log of task {result.task} did not reach the node", cid=cid) from error
            await asyncio.sleep(LOG_POLL_S)
        return b""

    async def fetch_path(self, cid: str, target: Path, *, is_folder: bool = True) -> None:
        """Writes a verified file or folder to `target`, which must not exist."""
        export = export_directory if is_folder else export_file
        with ungrouped():
            await export(self._blocks, parse_cid(cid), target)

    # PARTS

    async def _check_funds(self, needed: int) -> None:
        free = (await self.chain.funds()).free
        if free < needed:
            decimals, symbol = self.pool.token_decimals, self.pool.token_symbol
            missing = format_amount(needed - free, decimals, decimals)
            raise InsufficientEscrowError(
                f"the leases can cost {format_amount(needed, decimals)} {symbol}, Escrow holds {format_amount(free, decimals)}",
                remedy=f"Run `millpond fund {missing}`, or rent for a shorter time.",
                needed=needed,
                free=free,
            )

    async def _wait_open(self, signed: SignedRequest, session: Session, on_wait: OnWait | None = None) -> AsyncLease:
        """A node that is away for a while still has the request: it promised so."""
        deadline = time.monotonic() + OPEN_TIMEOUT_S
        while True:
            try:
                view = await self._opened(session.request, deadline, on_wait)
                return AsyncLease(self, view, session, signed)
            except NodeUnreachableError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(AWAY_PAUSE_S)

    async def _opened(self, request: Bytes32, deadline: float, on_wait: OnWait | None) -> LeaseView:
        view, said = await self.api.request(request, wait_s=FIRST_POLL_S), ""
        while view.state != RequestState.OPEN or view.lease is None:
            _check_alive(view)
            left = deadline - time.monotonic()
            why = await self.api.why(request)
            if left <= 0:
                raise LeaseWaitError(f"request {request} still waits: {why.message}", request=request)
            if on_wait is not None and why.state == RequestState.QUEUED and why.message != said:
                on_wait(why)
                said = why.message
            view = await self.api.request(request, wait_s=max(1, int(min(left, LONG_POLL_S))))
        return await self.api.lease(view.lease)

    async def _void(self, signed: SignedRequest, session: Session) -> None:
        """Cancels on chain what was signed, so that the node cannot open it later; closes what it opened meanwhile."""
        try:
            if await self.chain.cancel_request(signed.request.nonce):
                self.sessions.forget(session.request)
                return
            view = await self.api.request(session.request, wait_s=VOID_WAIT_S)
            if view.lease is not None:
                await close_quietly(AsyncLease(self, await self.api.lease(view.lease), session, signed))
        except MillpondError as error:
            log.warning("request %s may still become a lease: %s", session.request, error.message)


async def _checked_pool(api: NodeApi, network: Network) -> PoolView:
    """The node's word on its pool, refused unless it is the pool and chain the renter chose."""
    try:
        pool = await api.pool()
    except NodeUnreachableError as error:
        await api.aclose()
        raise error
    if pool.chain_id != network.chain_id or pool.controller != network.controller:
        await api.aclose()
        raise SettingsError(
            f"the node {api.url} serves pool {pool.controller} on chain {pool.chain_id}, "
            f"not {network.controller} on chain {network.chain_id}",
            remedy="Set MILLPOND_POOL and MILLPOND_CHAIN_ID to the pool you mean, or MILLPOND_NODE_URL to its node.",
        )
    return pool


def _check_alive(view: RequestView) -> None:
    if view.state in (RequestState.REFUSED, RequestState.EXPIRED):
        raise RequestRefusedError(f"the request was {view.state}: {view.message}", request=view.request)
