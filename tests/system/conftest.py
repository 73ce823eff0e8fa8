"""Real things for system tests: a development chain per test, and one whole development stack for all that need it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millpond.chain import devnet
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import DevnetError
from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc
from millpond.cli import main
from millpond.settings import Network, load_network

sys.path.insert(0, str(Path(__file__).parent))  # worker_stack

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


@dataclass(frozen=True, slots=True)
class Stack:
    """A running development stack. `launcher` is docker or process."""

    home: Path
    network: Network
    launcher: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


RunCli = Callable[..., Ended]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for the whole run, as `millpond dev up --detach` starts it; Docker where an engine answers."""
    try:
        devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    home = tmp_path_factory.mktemp("stack")
    _millpond(home, "dev", "up", "--detach", "--chain-port", "0", "--node-port", "0")
    try:
        _millpond(home, "fund", "100")
        [offer, *_] = json.loads(_millpond(home, "offers", "--json"))
        yield Stack(home, load_network(home), offer["launcher"])
        if not json.loads(_millpond(home, "dev", "status", "--json"))["running"]:
            logs = sorted((home / "dev" / "logs").glob("*.log"))
            raise RuntimeError("the stack died:\n" + "\n".join(f"{log}\n{log.read_text()[-3000:]}" for log in logs))
    finally:
        _millpond(home, "dev", "down")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def run_cli(stack: Stack, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> RunCli:
    """Runs `millpond ARGUMENTS` in this process, in the stack's home."""
    monkeypatch.setenv("MILLPOND_HOME", str(stack.home))
    monkeypatch.delenv("MILLPOND_WALLET", raising=False)

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capfd.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run


def _millpond(home: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "millpond", *arguments],
        env={**os.environ, "MILLPOND_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"millpond {arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout
