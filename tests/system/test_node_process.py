"""`millpond-node` as a process on a real chain: start, clear refusals, kill -9."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from millpond.chain.bindings import Controller
from millpond.chain.devnet import Devnet, free_port
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet
from millpond.dev.accounts import Account
from millpond.dev.bootstrap import Pool, bootstrap
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import bytes32

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(120)]
COMMAND = [sys.executable, "-c", "from millpond_node.cli import main; main()"]


@pytest.fixture
async def pool(chain: Devnet, tmp_path: Path) -> Pool:
    return await bootstrap(chain.url, tmp_path / "dev", 1)


def settings(home: Path, chain: Devnet, pool: Pool, **changes: object) -> int:
    port = free_port()
    values = {
        "rpc_url": chain.url, "chain_id": 31337, "controller": pool.controller, "addresses": str(pool.book),
        "dev_key": int(Account.NODE), "port": port, "finality": 2,
    } | changes  # fmt: skip
    home.mkdir(parents=True, exist_ok=True)
    (home / "node.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    return int(values["port"])  # type: ignore[call-overload]


Starter = Callable[[Path, int], Awaitable[subprocess.Popen[bytes]]]


@pytest.fixture
async def start() -> AsyncIterator[Starter]:
    """Starts a node and waits until it answers."""
    started: list[subprocess.Popen[bytes]] = []

    async def starter(home: Path, port: int) -> subprocess.Popen[bytes]:
        with (home / "log").open("ab") as log:
            process = subprocess.Popen([*COMMAND, "up", "--home", str(home)], stdout=log, stderr=log)  # noqa: ASYNC220 - a fork does not block for long
        started.append(process)
        async with httpx.AsyncClient() as client:
            for _ in range(300):
                assert process.poll() is None, (home / "log").read_text()
                try:
                    await client.get(f"http://127.0.0.1:{port}/v1/health")
                    break
                except httpx.HTTPError:
                    await asyncio.sleep(0.1)
        return process

    yield starter
    for process in started:
        process.kill()
        process.wait(timeout=10)


async def run(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_node_up_serves_announces_its_url_and_ends_on_a_signal(
    chain: Devnet, eth: Eth, pool: Pool, tmp_path: Path, start: Starter
) -> None:
    port = settings(tmp_path / "node", chain, pool)
    process = await start(tmp_path / "node", port)
    node = development_wallet(int(Account.NODE), 31337).address
    controller = Controller(eth, pool.controller)
    for _ in range(100):
        service = await controller.service_of(node, bytes32(keccak256(b"millpond.node")))
        if service.uri:
            break
        await asyncio.sleep(0.1)
    assert service.uri == f"http://127.0.0.1:{port}"
    code, output = await run("status", "--json", "--home", str(tmp_path / "node"))
    assert (code, json.loads(output)["status"]) == (0, "ok")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) in (0, -signal.SIGTERM)


async def test_O02_node_killed_at_once_starts_again_on_the_same_journal(
    chain: Devnet, pool: Pool, tmp_path: Path, start: Starter
) -> None:
    port = settings(tmp_path / "node", chain, pool)
    for _ in range(3):
        process = await start(tmp_path / "node", port)
        process.kill()
        process.wait(timeout=10)
    await start(tmp_path / "node", port)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/v1/health")).json()["status"] == "ok"


async def test_second_node_on_one_home_or_port_is_refused_with_a_remedy(
    chain: Devnet, pool: Pool, tmp_path: Path, start: Starter
) -> None:
    port = settings(tmp_path / "node", chain, pool)
    await start(tmp_path / "node", port)
    settings(tmp_path / "node", chain, pool)
    code, output = await run("up", "--home", str(tmp_path / "node"))
    assert (code, "in use by process" in output, "  try: " in output) == (3, True, True)
    settings(tmp_path / "other", chain, pool, port=port)
    code, output = await run("up", "--home", str(tmp_path / "other"))
    assert (code, f"port {port} of 127.0.0.1 is taken" in output) == (3, True)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"dev_key": 0}, 3, "NotTheNodeError"),
        ({"addresses": "none.json"}, 3, "AddressBookError"),
    ],
)
async def test_wrong_setting_ends_with_its_exit_code_and_a_typed_error(
    chain: Devnet, pool: Pool, tmp_path: Path, changes: dict[str, object], code: int, said: str
) -> None:
    settings(tmp_path / "node", chain, pool, **changes)
    found, output = await run("up", "--json", "--home", str(tmp_path / "node"))
    last = json.loads(output.splitlines()[-1])
    assert (found, last["error"]) == (code, said)
    assert last["remedy"]
