"""The development chain: Anvil as a process on 127.0.0.1, chain id 31337.

It mines a block per second and writes its state to a file each second; killed hard it comes back without its last blocks, which
everything above treats as a reorganisation.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from millpond.chain.errors import DevnetCrashedError, DevnetError, PortTakenError, RpcResponseError, RpcUnreachableError
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.rpc import Rpc

HOST = "127.0.0.1"
DEFAULT_PORT = 8545
READY_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
KEPT_STATES = 64
_LOG_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class DevnetConfig:
    """`port` 0 takes a free one. `block_time_s` 0 mines at once, a block per transaction. `state` None keeps nothing."""

    port: int = DEFAULT_PORT
    block_time_s: int = 1
    state: Path | None = None
    log: Path | None = None
    accounts: int = 20
    binary: Path | None = None
    chain_id: int = DEVELOPMENT_CHAIN_ID


class Devnet:
    """A running Anvil. Made by `start`; `url` is its RPC."""

    def __init__(self, config: DevnetConfig, port: int, process: asyncio.subprocess.Process) -> None:
        self.config = config
        self.port = port
        self._process = process

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> None:
        """Returns never while the chain runs; raises `DevnetCrashedError` when it ends by itself."""
        code = await self._process.wait()
        raise DevnetCrashedError(
            f"the development chain ended with status {code}: {_tail(self.config.log)}", status=code, port=self.port
        )

    async def stop(self) -> None:
        """Ends the chain; it writes its state first. Kills it after 10 s. Stopping twice does nothing."""
        if not self.is_running:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Ends the chain at once, as a crash does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def start(config: DevnetConfig | None = None) -> Devnet:
    """Starts Anvil and waits until it answers. Raises `PortTakenError`, `DevnetCrashedError`, `DevnetError` (no binary)."""
    config = config or DevnetConfig()
    binary = config.binary or find_anvil()
    port = config.port or free_port()
    _check_port(port)
    for path in (config.state, config.log):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    if config.state is not None:
        shutil.rmtree(_cache(config.state), ignore_errors=True)
    process = await _spawn(binary, _arguments(config, port), config.log)
    devnet = Devnet(config, port, process)
    try:
        await asyncio.wait_for(_ready(devnet), READY_TIMEOUT_S)
    except TimeoutError as error:
        await devnet.kill()
        raise DevnetError(f"the development chain did not answer in {READY_TIMEOUT_S:.0f} s", port=port) from error
    except BaseException:
        await devnet.kill()
        raise
    return devnet


@contextlib.asynccontextmanager
async def running(config: DevnetConfig | None = None) -> AsyncIterator[Devnet]:
    """A development chain for the time of the block."""
    devnet = await start(config)
    try:
        yield devnet
    finally:
        await devnet.stop()


def find_anvil() -> Path:
    """Path of the Anvil binary: MILLPOND_ANVIL, the source checkout's node_modules, the current folder's, or PATH."""
    named = os.environ.get("MILLPOND_ANVIL")
    if named:
        if not os.access(named, os.X_OK):
            raise DevnetError(f"MILLPOND_ANVIL is {named}, which is no program", path=named)
        return Path(named)
    package = f"node_modules/@foundry-rs/anvil-{_platform()}/bin/anvil"
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if os.access(root / package, os.X_OK):
            return root / package
    found = shutil.which("anvil")
    if found is None:
        raise DevnetError("Anvil, the development chain, is not installed")
    return Path(found)


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _platform() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port) from error


def _arguments(config: DevnetConfig, port: int) -> list[str]:
    arguments = ["--host", HOST, "--port", str(port), "--chain-id", str(config.chain_id)]
    arguments += ["--accounts", str(config.accounts), "--hardfork", "prague", "--quiet"]
    # Older blocks' states leave memory for files, 0.35 MB each: without a bound a day of blocks takes 30 GB of disk.
    arguments += ["--max-persisted-states", str(KEPT_STATES)]
    if config.block_time_s:
        arguments += ["--block-time", str(config.block_time_s)]
    if config.state is not None:
        arguments += ["--state", str(config.state), "--state-interval", "1"]
        arguments += ["--cache-path", str(_cache(config.state))]
    return arguments


def _cache(state: Path) -> Path:
    """Where Anvil spills states; it never reads what an earlier run left there."""
    return state.with_name(f"{state.stem}-cache")


async def _spawn(binary: Path, arguments: list[str], log: Path | None) -> asyncio.subprocess.Process:
    output = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            str(binary), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    except OSError as error:
        raise DevnetError(f"{binary} cannot be started: {error.strerror}", path=str(binary)) from error
    finally:
        os.close(output)


async def _ready(devnet: Devnet) -> None:
    async with contextlib.AsyncExitStack() as stack:
        rpc = Rpc(devnet.url, 2.0, chain_id=devnet.config.chain_id)
        stack.push_async_callback(rpc.close)
        while True:
            if not devnet.is_running:
                _raise_early_end(devnet)
            try:
                await rpc.call("eth_blockNumber")
                break
            except (RpcUnreachableError, RpcResponseError):
                await asyncio.sleep(0.05)
    if not devnet.is_running:
        _raise_early_end(devnet)


def _raise_early_end(devnet: Devnet) -> None:
    tail = _tail(devnet.config.log)
    if "already in use" in tail:
        raise PortTakenError(devnet.port)
    raise DevnetCrashedError(f"the development chain did not start: {tail}", port=devnet.port)


def _tail(log: Path | None) -> str:
    if log is None or not log.exists():
        return "it keeps no log"
    return log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip() or "its log is empty"
