"""A real development chain for system tests: started on a free port, ended by the test that asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain import devnet
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import DevnetError
from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc

StartChain = Callable[[DevnetConfig], Awaitable[Devnet]]
OpenEth = Callable[[Devnet], Eth]


@pytest.fixture
def anvil_binary() -> Path:
    """Skips, visibly, where Anvil is not installed."""
    try:
        return devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")


@pytest.fixture
async def start_chain(anvil_binary: Path) -> AsyncIterator[StartChain]:
    started: list[Devnet] = []

    async def start(config: DevnetConfig) -> Devnet:
        chain = await devnet.start(config)
        started.append(chain)
        return chain

    yield start
    for chain in started:
        await chain.kill()


@pytest.fixture
async def open_eth() -> AsyncIterator[OpenEth]:
    opened: list[Rpc] = []

    def make(chain: Devnet) -> Eth:
        rpc = Rpc(chain.url, chain_id=31337)
        opened.append(rpc)
        return Eth(rpc)

    yield make
    for rpc in opened:
        await rpc.close()


@pytest.fixture
async def chain(start_chain: StartChain) -> Devnet:
    """A chain that mines each transaction at once."""
    return await start_chain(DevnetConfig(port=0, block_time_s=0))


@pytest.fixture
async def eth(chain: Devnet, open_eth: OpenEth) -> Eth:
    return open_eth(chain)
