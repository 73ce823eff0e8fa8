"""The node's process: opens what it needs in order, serves, and closes it again."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import uvicorn

from millpond.chain.address_book import AddressBook, verify_book
from millpond.chain.eth import Eth
from millpond.chain.keys import Wallet, development_wallet, load_key
from millpond.chain.outbox import SqliteOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.storage.embedded import EmbeddedStore
from millpond.storage.journal import SqliteJournal
from millpond_node.agent import Agent
from millpond_node.api.app import build_app
from millpond_node.api.http import server_options
from millpond_node.chain.live import LiveChain, read_facts
from millpond_node.chain.port import PoolFacts
from millpond_node.clock import SystemClock
from millpond_node.config import MIB, NodeConfig
from millpond_node.errors import NodeConfigError, NotTheNodeError, PortTakenError

log = logging.getLogger("millpond.node")
BACKLOG = 1024


def run(config: NodeConfig) -> None:
    """Serves until a signal ends it. Raises typed errors of start-up, and `JournalFailedError`."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config))


async def serve(config: NodeConfig) -> None:
    listener = bind(config.host, config.port)
    with closing(listener):
        async with opened(config) as agent:
            log.info(
                "pool %s on chain %d at %s", agent.core.facts.controller, agent.core.facts.chain_id, config.public_url
            )
            await _serve(agent, listener)


@asynccontextmanager
async def opened(config: NodeConfig) -> AsyncIterator[Agent]:
    """A started agent with all it stands on."""
    wallet = load_wallet(config)
    async with AsyncExitStack() as stack:
        journal = SqliteJournal(config.journal_path)
        stack.callback(journal.close)
        rpc = Rpc(config.rpc_url, chain_id=config.chain_id)
        stack.push_async_callback(rpc.close)
        facts, start = await _facts(config, Eth(rpc), wallet)
        outbox = SqliteOutbox(config.outbox_path)
        stack.callback(outbox.close)
        transactor = Transactor(Eth(rpc), wallet, outbox, TransactorConfig(finality=facts.finality))
        await transactor.start()
        stack.push_async_callback(transactor.stop)
        store = EmbeddedStore.open(config.blocks_path, max_bytes=config.limits.block_store_mib * MIB)
        stack.push_async_callback(store.aclose)
        chain = LiveChain.over(rpc, facts, transactor, start)
        agent = Agent(config, facts, wallet.key, chain, journal, store, SystemClock())
        agent.start()
        yield agent


def load_wallet(config: NodeConfig) -> Wallet:
    """The node's key. Raises `KeystoreError`, `DevelopmentKeyError`, `NodeConfigError`."""
    if config.dev_key is not None:
        return development_wallet(config.dev_key, config.chain_id)
    if not config.key_password_file:
        raise NodeConfigError("node.toml names `key` without `key_password_file`")
    try:
        password = config.path(config.key_password_file).read_text().rstrip("\n")
    except OSError as error:
        raise NodeConfigError(f"key_password_file cannot be read: {error.strerror}") from None
    return load_key(config.path(config.key), password)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises `PortTakenError`."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(f"port {port} of {host} is taken", host=host, port=port) from None
        raise NodeConfigError(f"cannot listen on {host}:{port}: {error.strerror}", host=host, port=port) from None
    return listener


async def _facts(config: NodeConfig, eth: Eth, wallet: Wallet) -> tuple[PoolFacts, int]:
    """The pool, and the block its events start at. Raises `NotTheNodeError`, `AddressBookError` and the errors of `Rpc`."""
    await eth.rpc.connect()
    book = AddressBook.load(Path(config.path(config.addresses)))
    await verify_book(eth, book)
    tokens, attestations = book.address("Tokens"), book.address("Attestations")
    facts = await read_facts(eth, config.controller, tokens, attestations, config.finality)
    if facts.node != wallet.address:
        raise NotTheNodeError(f"the pool names {facts.node} as its node, the key is {wallet.address}")
    return facts, config.start_block or book.block


async def _serve(agent: Agent, listener: socket.socket) -> None:
    """HTTP and the agent's loops; when one ends, so does the other."""
    server = uvicorn.Server(server_options(build_app(agent), agent.core.config.limits))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    working = asyncio.create_task(agent.run(), name="agent")
    ending = asyncio.create_task(_wait_exit(server), name="signals")
    await asyncio.wait((serving, working, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    agent.stop()  # ends the streams, which the server would wait for
    server.should_exit = True
    await asyncio.gather(serving, working, return_exceptions=True)
    working.result()
    serving.result()


async def _wait_exit(server: uvicorn.Server) -> None:
    while not server.should_exit:
        await asyncio.sleep(0.1)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
