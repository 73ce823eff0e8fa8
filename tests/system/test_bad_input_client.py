"""What a renter can get wrong, each against one running stack: a typed error, its exit code, and nothing lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond import Client, MillpondError, Vgpu
from millpond.chain.bindings import Escrow
from millpond.chain.errors import OutOfFundsError
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import SqliteOutbox
from millpond.chain.reverts import ContractRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.errors import TaskError, TaskLostError, TaskOutOfMemoryError, TaskTimedOutError
from millpond.protocol.ids import address
from millpond.protocol.messages import AttemptStatus
from millpond.storage.cid import cid_of

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def client(stack: Any) -> Iterator[Client]:
    with Client(network=stack.network, home=stack.home) as made:
        yield made


@pytest.fixture(scope="module")
def leases(client: Client) -> Iterator[Any]:
    with client.rent(Vgpu(300), duration=600) as made:
        yield made


@pytest.fixture
def docker_stack(stack: Any) -> Any:
    if stack.launcher != "docker":
        pytest.skip("the stack runs without a Docker engine")
    return stack


def test_wrong_chain_id_ends_with_4(run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_WALLET_PASSWORD", "p")
    assert run_cli("wallet", "new", "far").code == 0
    monkeypatch.setenv("MILLPOND_CHAIN_ID", "1")

    ended = run_cli("balance", "--wallet", "far", "--json")

    assert (ended.code, ended.json["error"]) == (4, "WrongChainError")
    assert ended.json["remedy"]


def test_wrong_password_ends_with_3(run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_WALLET_PASSWORD", "p")
    assert run_cli("wallet", "new", "locked").code == 0
    monkeypatch.setenv("MILLPOND_WALLET_PASSWORD", "q")

    assert run_cli("balance", "--wallet", "locked").code == 3


def test_rpc_down_ends_with_4(run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_RPC_URL", "http://127.0.0.1:1")

    ended = run_cli("run", "--json", "--", "true")

    assert (ended.code, ended.json["error"]) == (4, "RpcUnreachableError")
    assert "nothing was lost" in ended.json["remedy"]


def test_node_down_ends_with_7(run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_NODE_URL", "http://127.0.0.1:1")

    ended = run_cli("offers", "--json")

    assert (ended.code, ended.json["error"]) == (7, "NodeUnreachableError")


def test_no_pool_at_the_address_ends_with_3(run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_POOL", "0x" + "12" * 20)

    assert run_cli("balance").code == 3


def test_account_without_anything_is_told_what_it_lacks(
    run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_WALLET_PASSWORD", "p")
    assert run_cli("wallet", "new", "poor").code == 0

    fund = run_cli("fund", "1", "--wallet", "poor", "--json")
    run = run_cli("run", "--wallet", "poor", "--json", "--", "true")

    assert (fund.code, fund.json["error"]) == (2, "InsufficientWalletError")
    assert (run.code, run.json["error"]) == (2, "InsufficientEscrowError")
    assert "millpond fund" in run.json["remedy"]


def test_lease_beyond_what_escrow_holds_is_refused_before_anything_is_signed(client: Client) -> None:
    with pytest.raises(MillpondError) as caught:
        client.rent(Vgpu(300), duration=80_000, price=10**9)

    assert caught.value.code == "InsufficientEscrowError"
    assert client.leases() == [] or all(view.state != "opening" for view in client.leases())


async def test_token_that_is_not_allowed_or_no_gas_is_refused_and_stores_nothing(stack: Any, tmp_path: Path) -> None:
    """A contract that is no listed token stands for one."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    async with Rpc(stack.network.rpc_url) as rpc:
        eth, wallet = Eth(rpc), development_wallet(39, 31337)
        from millpond.chain.bindings import Controller

        escrow = Escrow(eth, await Controller(eth, stack.network.controller).escrow())
        async with Transactor(eth, wallet, outbox) as transactor:
            with pytest.raises(ContractRevertError) as caught:
                await transactor.send_call("deposit", escrow.deposit(stack.network.controller, 1))
            await rpc.call("anvil_setBalance", wallet.address, "0x0")
            with pytest.raises(OutOfFundsError) as broke:
                await transactor.send("gift", address("0x" + "99" * 20), b"")
            assert transactor.rows() == []
    outbox.close()
    assert caught.value.code == "EscrowTokenNotListedError"
    assert caught.value.remedy
    assert broke.value.exit_code == 4


def test_slice_that_nobody_offers_ends_with_2(run_cli: Callable[..., Any]) -> None:
    ended = run_cli("run", "--vgpu", "1000", "--json", "--", "true")

    assert (ended.code, ended.json["error"]) == (2, "NoOfferError")


@pytest.mark.parametrize(
    "arguments", [("--vgpu", "half"), ("--file", "a"), ("--file", "a=/no/such"), ("--time-limit", "x")]
)
def test_senseless_option_ends_with_2_before_anything_is_asked(
    run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MILLPOND_RPC_URL", "http://127.0.0.1:1")

    assert run_cli("run", *arguments, "--", "true").code == 2


def test_command_over_its_time_is_killed_and_says_its_limit(leases: Any) -> None:
    result = leases.command(["sleep", "60"], time_limit_s=1.0)

    assert result.signed.receipt.status == AttemptStatus.TIMED_OUT
    with pytest.raises(TaskTimedOutError, match="longer than its 1 s") as caught:
        leases.raise_for(result)
    assert (caught.value.exit_code, bool(caught.value.remedy)) == (8, True)


def test_input_that_nobody_has_fails_the_task_by_its_cid(leases: Any) -> None:
    missing = cid_of(b"nobody ever stored this")
    result = leases.command(["true"], inputs={"a": missing})

    assert result.signed is None
    with pytest.raises(TaskLostError, match=missing) as caught:
        leases.raise_for(result)
    assert (caught.value.exit_code, bool(caught.value.remedy)) == (8, True)


def test_image_that_does_not_exist_fails_the_task_by_its_name(docker_stack: Any, leases: Any) -> None:
    result = leases.command(["true"], image="127.0.0.1:1/nobody/nothing:1")

    with pytest.raises(TaskError, match="nobody/nothing") as caught:
        leases.raise_for(result)
    assert (caught.value.code, caught.value.exit_code, "image" in caught.value.remedy) == ("TaskFailedError", 8, True)


def test_command_that_the_image_lacks_fails_the_task_by_its_name(docker_stack: Any, leases: Any) -> None:
    result = leases.command(["no-such-command"])

    with pytest.raises(TaskError, match="no-such-command"):
        leases.raise_for(result)


def test_command_over_its_memory_is_killed_and_says_its_limit(docker_stack: Any, leases: Any) -> None:
    result = leases.command(["python3", "-c", "b = [bytearray(1 << 24) for _ in range(4000)]"])

    assert result.signed.receipt.status == AttemptStatus.OUT_OF_MEMORY
    with pytest.raises(TaskOutOfMemoryError, match="MiB of memory") as caught:
        leases.raise_for(result)
    assert (caught.value.exit_code, "more memory" in caught.value.remedy) == (8, True)


def test_docker_not_running_is_told_with_a_remedy(stack: Any, tmp_path: Path) -> None:
    settings = (stack.home / "dev" / "worker-1" / "worker.toml").read_text()
    assert 'launcher = "auto"' in settings
    (tmp_path / "worker.toml").write_text(settings.replace('launcher = "auto"', 'launcher = "docker"'))
    nowhere = "unix:///nonexistent/docker.sock"
    done = _millpond_module("millpond_worker", tmp_path, "doctor", "--home", str(tmp_path), DOCKER_HOST=nowhere)

    assert done.returncode == 3, done.stdout + done.stderr
    assert "/nonexistent/docker.sock" in done.stdout
    assert "try: " in done.stdout


@pytest.mark.parametrize("option", ["--chain-port", "--node-port"])
def test_port_taken_names_the_port_and_starts_nothing(tmp_path: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        other = "--node-port" if option == "--chain-port" else "--chain-port"
        done = _millpond_module("millpond", tmp_path, "dev", "up", option, port, other, "0")

    assert done.returncode == 3
    assert port in done.stderr
    assert "try: " in done.stderr


def _millpond_module(module: str, home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = f"from {module}.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "MILLPOND_HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
