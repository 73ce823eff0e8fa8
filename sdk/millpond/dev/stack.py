"""The whole of Millpond on one machine: chain, node and workers as processes, state kept over restarts."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from millpond._nodeapi import Identity, NodeApi
from millpond.chain import devnet
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import PortTakenError
from millpond.dev import processes
from millpond.dev.accounts import Account, wallet
from millpond.dev.bootstrap import ADDRESS_BOOK, Pool, bootstrap
from millpond.dev.daemons import NODE_ENTRY, WORKER_ENTRY, WorkerPlan, init_arguments, node_settings, write_settings
from millpond.dev.processes import Process
from millpond.errors import NodeError, NodeRefusedError, NodeUnreachableError
from millpond.protocol.signing import Domain
from millpond.protocol.views import OfferView
from millpond.settings import DEV_CHAIN_ID, Network

READY_TIMEOUT_S = 120.0
INIT_TIMEOUT_S = 120.0
POLL_S = 0.3
CHECK_S = 1.0
Say = Callable[[str], None]
T = TypeVar("T")


class StackNotReadyError(NodeError):
    remedy_text = "Read the log files of the stack; `millpond-worker doctor` names what a worker misses."


@dataclass(frozen=True, slots=True)
class StackConfig:
    """`home` keeps everything; ports 0 take free ones. `launcher` is auto, docker or process."""

    home: Path
    workers: int = 1
    launcher: str = "auto"
    chain_port: int = devnet.DEFAULT_PORT
    node_port: int = 8440

    @property
    def dev(self) -> Path:
        return self.home / "dev"

    def log(self, name: str) -> Path:
        return self.dev / "logs" / f"{name}.log"


class DevStack:
    """An async context manager: everything runs inside it and nothing after it."""

    def __init__(self, config: StackConfig, say: Say = lambda line: None) -> None:
        self.config = config
        self._say = say
        self._exits = AsyncExitStack()
        self.chain: Devnet | None = None
        self.pool: Pool | None = None
        self.network: Network | None = None
        self.processes: list[Process] = []

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._exits.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exits.aclose()

    async def watch(self) -> None:
        """Returns never; raises `ProcessEndedError` when a part of the stack fails. A worker may end well: by `drain`."""
        while True:
            for process in list(self.processes):
                if process.child.returncode == 0 and process.name != "node":
                    self._say(f"{process.name:<10} ended; the next `millpond dev up` starts it again")
                    self.processes.remove(process)
                else:
                    process.check()
            await asyncio.sleep(CHECK_S)

    def kill(self, worker: int) -> None:
        """Ends worker number `worker` (from 0) as a crash would, by SIGKILL; `watch` takes it for wanted."""
        process = self._worker(worker)
        self.processes.remove(process)
        process.kill()

    async def restart(self, worker: int) -> None:
        """Starts a killed worker again, from the same home."""
        await self._start_process(_worker_name(worker), WORKER_ENTRY, ["up", "--home", str(self._worker_home(worker))])

    def _worker(self, worker: int) -> Process:
        return next(process for process in self.processes if process.name == _worker_name(worker))

    def _worker_home(self, worker: int) -> Path:
        return self.config.dev / _worker_name(worker)

    async def _start(self) -> None:
        config = self.config
        config.dev.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_port(config.node_port)
        self.chain = await self._start_chain()
        self._say(f"chain      {self.chain.url}  (chain id {DEV_CHAIN_ID})")
        self.pool = await bootstrap(self.chain.url, config.dev, config.workers)
        self._say(f"pool       {self.pool.controller}")
        port = config.node_port or devnet.free_port()
        self.network = Network(self.chain.url, DEV_CHAIN_ID, self.pool.controller, f"http://{devnet.HOST}:{port}")
        await self._start_node(self.pool, self.network, port)
        self._say(f"node       {self.network.node_url}")
        for number in range(config.workers):
            await self._start_worker(self.pool, self.network, number)
        offers = await self._wait_offers(self.network)
        self.network.save(config.home)
        for view in offers:
            offer = view.signed.offer
            self._say(
                f"offer      {offer.share:>4} per mille, {offer.memoryMiB} MiB of {view.device.name} ({view.launcher})"
            )

    async def _start_chain(self) -> Devnet:
        config = DevnetConfig(
            port=self.config.chain_port, state=self.config.dev / "chain.json", log=self.config.log("chain"), accounts=40
        )
        chain = await devnet.start(config)
        self._exits.push_async_callback(chain.stop)
        return chain

    async def _start_node(self, pool: Pool, network: Network, port: int) -> None:
        home = self.config.dev / "node"
        write_settings(home / "node.toml", node_settings(network, pool, port))
        await self._start_process("node", NODE_ENTRY, ["up", "--home", str(home)])
        await self._wait_health(network)

    async def _start_worker(self, pool: Pool, network: Network, number: int) -> None:
        plan = WorkerPlan(self._worker_home(number), number, self.config.workers, self.config.launcher)
        name = _worker_name(number)
        await processes.run(
            f"{name} init",
            WORKER_ENTRY,
            init_arguments(plan, network, pool),
            self.config.log(name),
            INIT_TIMEOUT_S,
        )
        await self._start_process(name, WORKER_ENTRY, ["up", "--home", str(plan.home)])
        self._say(f"{name:<10} started")

    async def _start_process(self, name: str, entry: str, arguments: list[str]) -> None:
        env = {"MILLPOND_HOME": str(self.config.dev), "PYTHONUNBUFFERED": "1", "PATH": os.environ.get("PATH", "")}
        process = await processes.start(name, entry, arguments, self.config.log(name), env)
        self.processes.append(process)
        self._exits.push_async_callback(process.stop)

    async def _wait_health(self, network: Network) -> None:
        api = NodeApi(network.node_url)
        try:
            await self._poll(api.health, "the node does not answer")
        finally:
            await api.aclose()

    async def _wait_offers(self, network: Network) -> list[OfferView]:
        api = NodeApi(network.node_url)
        domain = Domain(network.chain_id, network.controller)
        api.sign_as(Identity(wallet(Account.RENTER).key, domain, wallet(Account.NODE).address))

        async def all_online() -> list[OfferView] | None:
            offers = [view for view in await api.offers() if view.is_online]
            return offers if len({view.provider for view in offers}) == self.config.workers else None

        try:
            return await self._poll(all_online, "no worker offers anything")
        finally:
            await api.aclose()

    async def _poll(self, ask: Callable[[], Awaitable[T | None]], complaint: str) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_TIMEOUT_S
        while loop.time() < deadline:
            for process in self.processes:
                process.check()
            try:
                answer = await ask()
            except (NodeUnreachableError, NodeRefusedError):
                answer = None
            if answer:
                return answer
            await asyncio.sleep(POLL_S)
        raise StackNotReadyError(f"{complaint} after {READY_TIMEOUT_S:g} s; logs are in {self.config.dev / 'logs'}")


def _worker_name(worker: int) -> str:
    return f"worker-{worker + 1}"


def _check_port(port: int) -> None:
    """Tells of a taken port before a minute of deploying; raises `PortTakenError`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((devnet.HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error


def address_book(home: Path) -> Path:
    return home / "dev" / ADDRESS_BOOK
