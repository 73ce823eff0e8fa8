"""A renter who goes away: the ladder pays meanwhile, and another process gets the results, pays up and closes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from millpond import Client
from millpond.chain import devnet
from millpond.chain.errors import DevnetError
from millpond.cli import main
from millpond.dev import stack as dev_stack
from millpond.dev.stack import DevStack, StackConfig
from millpond.protocol.ids import Bytes32
from millpond.protocol.views import LeaseState, LeaseView
from millpond.settings import Network, load_network

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(300)]

TICK_S = 2
PATIENCE_S = 2 * TICK_S
QUICK_WORKER = f"""
import millpond.protocol.messages as messages
messages.TICK_SECONDS = {TICK_S}
from millpond_worker.cli import main
"""
RENTER = """
import json, sys, time
import millpond

app = millpond.App()


@app.task
def square(x, seconds):
    time.sleep(seconds)
    return x * x


def leave(share, tasks, seconds, ahead_s, until_done):
    client = millpond.Client()
    with client.rent(millpond.Vgpu(share=share), duration=600) as leases:
        [lease] = [lease.id for lease in leases]
        handles = [square.spawn(x, seconds).id for x in range(tasks)]
        cost = leases.detach(ahead_s, until_done=until_done)
    print(json.dumps({"lease": lease, "handles": handles, "cost": cost}), flush=True)


if __name__ == "__main__":
    leave(*json.loads(sys.argv[1]))
    time.sleep(float(sys.argv[2]))
"""


@dataclass(frozen=True, slots=True)
class Quick:
    """A stack whose ticks are short."""

    home: Path
    network: Network
    renter: Path
    stack: DevStack


@dataclass(frozen=True, slots=True)
class Left:
    """What a renter's process left behind."""

    lease: Bytes32
    handles: list[str]
    cost: int

    @property
    def job(self) -> Bytes32:
        return Bytes32(self.handles[0].partition("/")[0])


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quick]:
    try:
        devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    home, code = tmp_path_factory.mktemp("quick"), tmp_path_factory.mktemp("code")
    (code / "quick_worker.py").write_text(QUICK_WORKER)
    (code / "renter.py").write_text(RENTER)
    with pytest.MonkeyPatch.context() as patch, start_blocking_portal() as portal:
        patch.setattr(dev_stack, "WORKER_ENTRY", "quick_worker:main")
        patch.setenv("PYTHONPATH", str(code))
        config = StackConfig(home, launcher="process", chain_port=0, node_port=0)
        with portal.wrap_async_context_manager(DevStack(config)) as stack:
            network = load_network(home)
            with Client(network=network, home=home) as client:
                client.fund(100_000_000)
            yield Quick(home, network, code / "renter.py", stack)


@pytest.fixture(scope="module")
def client(quick: Quick) -> Iterator[Client]:
    with Client(network=quick.network, home=quick.home) as made:
        yield made


@pytest.fixture(scope="module")
def departed(quick: Quick) -> Iterator[list[Left]]:
    """Two processes that rented, spawned and detached at the same time: one was killed, one ended."""
    plans = [(4, 2.0, 60, True, 600), (1, 0.1, 300, True, 0)]
    started = [_start_renter(quick, [250, *plan[:-1]], plan[-1]) for plan in plans]
    left = [_left(process) for process in started]
    started[0].kill()
    assert [process.wait(30) for process in started] == [-signal.SIGKILL, 0]
    yield left
    for process in started:
        process.kill()


def _start_renter(quick: Quick, arguments: list[Any], stays_s: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(quick.renter), json.dumps(arguments), str(stays_s)],
        env={**os.environ, "MILLPOND_HOME": str(quick.home)},
        stdout=subprocess.PIPE,
        text=True,
    )


def _left(process: subprocess.Popen[str]) -> Left:
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    return Left(Bytes32(said["lease"]), said["handles"], said["cost"])


def view_of(client: Client, lease: Bytes32) -> LeaseView:
    [view] = [view for view in client.leases() if view.lease == lease]
    return view


def wait_for(client: Client, lease: Bytes32, condition: Callable[[LeaseView], bool], seconds: float = 30) -> LeaseView:
    deadline = time.monotonic() + seconds
    while not condition(view := view_of(client, lease)):
        assert time.monotonic() < deadline, view
        time.sleep(0.3)
    return view


def test_killed_renters_tasks_go_on_and_another_process_gets_pays_and_closes(
    departed: list[Left], client: Client
) -> None:
    left = departed[0]
    price, first = view_of(client, left.lease).offer.offer.pricePerSecond, view_of(client, left.lease).voucher

    paid = wait_for(client, left.lease, lambda view: view.voucher >= first + 3 * TICK_S * price)
    assert paid.state is LeaseState.SERVING
    later = list(client.results(left.job, 2, follow=True))
    with client.attach(left.lease) as leases:
        found = [client.handle(handle).result(30) for handle in left.handles]

    assert [result.cursor for result in later] == [3, 4]
    assert found == [0, 1, 4, 9]
    [settlement] = leases.settlements
    assert settlement.is_settled
    assert settlement.paid + settlement.fee + settlement.burnt >= paid.voucher
    assert left.cost == 60 * price


def test_ladder_until_done_ends_with_the_tasks_and_a_later_process_resumes(
    departed: list[Left], client: Client
) -> None:
    left = departed[1]
    paused = wait_for(client, left.lease, lambda view: view.state is LeaseState.UNPAID)
    price = paused.offer.offer.pricePerSecond
    time.sleep(TICK_S)

    assert view_of(client, left.lease).voucher == paused.voucher < 300 * price
    with client.attach(left.lease) as leases:
        wait_for(client, left.lease, lambda view: view.state is LeaseState.SERVING)
        assert leases.detach(20) == 20 * price
        assert len(leases) == 0


def test_run_detached_then_results_and_attach_by_commands(millpond: Callable[..., str]) -> None:
    left = json.loads(millpond("run", "--detach", "60s", "--json", "--", "sh", "-c", "sleep 3; echo hi; exit 3"))
    attached = json.loads(millpond("attach", left["lease"], "--job", left["job"], "--json"))
    shown = json.loads(millpond("results", left["job"], "--log", "--json"))

    assert attached["is_settled"]
    assert (shown["cursor"], shown["log"], shown["failure"]["type"]) == (1, "hi\n", "ProcessEnded")
    assert left["handle"] == f"{left['job']}/0"
    assert millpond("results", left["job"], "--after", "1") == ""


def test_ladder_of_a_killed_worker_releases_nothing(quick: Quick, departed: list[Left], client: Client) -> None:
    lease = departed[1].lease
    with client.attach(lease) as leases:
        leases.detach(60, until_done=False)
    first = view_of(client, lease).voucher
    wait_for(client, lease, lambda view: view.voucher > first)
    quick.stack.kill(0)
    time.sleep(1)
    before = view_of(client, lease).voucher
    time.sleep(PATIENCE_S + TICK_S)

    assert view_of(client, lease).voucher == before


@pytest.fixture
def millpond(quick: Quick, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in this process that succeeds; what it writes to standard output."""
    monkeypatch.setenv("MILLPOND_HOME", str(quick.home))

    def run(*arguments: str) -> str:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capfd.readouterr()
        assert not ended.value.code, captured.err
        return captured.out

    return run
