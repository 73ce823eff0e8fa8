"""The development chain as a process: ports, crashes, state."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from millpond.chain import devnet
from millpond.chain.devnet import Devnet, DevnetConfig
from millpond.chain.errors import DevnetCrashedError, DevnetError, PortTakenError, WrongChainError
from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc

pytestmark = pytest.mark.anvil

StartChain = Callable[[DevnetConfig], Awaitable[Devnet]]


async def test_start_answers_with_its_chain_id_and_mines_by_itself(start_chain: StartChain) -> None:
    chain = await start_chain(DevnetConfig(port=0, block_time_s=1))
    async with Rpc(chain.url, chain_id=31337) as rpc:
        await asyncio.sleep(1.3)
        assert await Eth(rpc).block_number() >= 1


async def test_start_listens_on_loopback_only(chain: Devnet) -> None:
    hexadecimal = f"{chain.port:04X}"
    addresses = [
        line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    ]
    assert [item for item in addresses if item.endswith(f":{hexadecimal}")] == [f"0100007F:{hexadecimal}"]


async def test_start_on_a_taken_port_raises_with_the_port(anvil_binary: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError) as caught:
            await devnet.start(DevnetConfig(port=port, binary=anvil_binary))
    assert caught.value.fields == {"port": port}


async def test_start_without_binary_raises_with_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_ANVIL", "/nowhere/anvil")
    with pytest.raises(DevnetError) as caught:
        await devnet.start(DevnetConfig(port=0))
    assert "MILLPOND_ANVIL" in caught.value.message


async def test_start_of_a_program_that_ends_raises_with_its_log(tmp_path: Path) -> None:
    fake = tmp_path / "anvil"
    fake.write_text("#!/bin/sh\necho no such option; exit 2\n")
    fake.chmod(0o755)
    with pytest.raises(DevnetCrashedError, match="no such option"):
        await devnet.start(DevnetConfig(port=0, binary=fake, log=tmp_path / "anvil.log"))


async def test_crash_is_told_by_wait(chain: Devnet) -> None:
    watcher = asyncio.create_task(chain.wait())
    await asyncio.sleep(0)
    await chain.kill()
    with pytest.raises(DevnetCrashedError) as caught:
        await watcher
    assert caught.value.fields["status"] == -9
    assert not chain.is_running


async def test_stop_and_start_keep_the_state(start_chain: StartChain, tmp_path: Path) -> None:
    config = DevnetConfig(port=0, block_time_s=0, state=tmp_path / "deep" / "state.json")
    first = await start_chain(config)
    async with Rpc(first.url) as rpc:
        await rpc.call("anvil_setBalance", "0x" + "11" * 20, "0x7")
        await rpc.call("anvil_mine", "0x5")
        genesis = await Eth(rpc).header(0)
    await first.stop()
    await first.stop()
    second = await start_chain(config)
    async with Rpc(second.url) as rpc:
        eth = Eth(rpc)
        assert await rpc.call("eth_getBalance", "0x" + "11" * 20, "latest") == "0x7"
        assert await eth.block_number() == 5
        assert await eth.header(0) == genesis


async def test_two_fresh_chains_have_different_genesis_blocks(start_chain: StartChain) -> None:
    hashes = []
    for _ in range(2):
        chain = await start_chain(DevnetConfig(port=0, block_time_s=0))
        async with Rpc(chain.url) as rpc:
            header = await Eth(rpc).header(0)
            assert header is not None
            hashes.append(header.hash)
        await asyncio.sleep(1)
    assert hashes[0] != hashes[1]


async def test_O04_chain_of_another_id_is_refused(start_chain: StartChain) -> None:
    chain = await start_chain(DevnetConfig(port=0, block_time_s=0, chain_id=5))
    rpc = Rpc(chain.url, chain_id=31337)
    with pytest.raises(WrongChainError) as caught:
        await rpc.call("eth_blockNumber")
    assert caught.value.fields == {"expected": 31337, "actual": 5}
    await rpc.close()
