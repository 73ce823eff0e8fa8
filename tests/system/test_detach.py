"""A renter who goes away: the ladder pays meanwhile, and another process gets the results, pays up and closes."""

from __future__ import annotations

import json
import os
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
    """What a renter's process left behind; `process` may still run."""

    process: subprocess.Popen[str]
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


def leave(quick: Quick, share: int, tasks: int, seconds: float, ahead_s: int, *, until_done: bool, stays: bool) -> Left:
    """Another process rents, spawns, detaches; with `stays` it lives on until it is killed."""
    arguments = json.dumps([share, tasks, seconds, ahead_s, until_done])
    process = subprocess.Popen(
        [sys.executable, str(quick.renter), arguments, "600" if stays else "0"],
        env={**os.environ, "MILLPOND_HOME": str(quick.home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    if not stays:
        assert process.wait(60) == 0
    return Left(process, Bytes32(said["lease"]), said["handles"], said["cost"])


def view_of(client: Client, lease: Bytes32) -> LeaseView:
    [view] = [view for view in client.leases() if view.lease == lease]
    return view


def wait_for(client: Client, lease: Bytes32, condition: Callable[[LeaseView], bool], seconds: float = 30) -> LeaseView:
    deadline = time.monotonic() + seconds
    while not condition(view := view_of(client, lease)):
        assert time.monotonic() < deadline, view
        time.sleep(0.3)
    return view


def test_killed_renters_tasks_go_on_and_another_process_gets_pays_and_closes(quick: Quick, client: Client) -> None:
    left = leave(quick, 250, 5, 2.0, 60, until_done=True, stays=True)
    left.process.kill()
    left.process.wait(10)
    price = view_of(client, left.lease).offer.offer.pricePerSecond
    first = view_of(client, left.lease).voucher

    paid = wait_for(client, left.lease, lambda view: view.voucher >= first + 3 * TICK_S * price)
    assert paid.state is LeaseState.SERVING
    later = list(client.results(left.job, 2, follow=True))
    with client.attach(left.lease) as leases:
        found = [client.handle(handle).result(30) for handle in left.handles]

    assert [result.cursor for result in later] == [3, 4, 5]
    assert found == [0, 1, 4, 9, 16]
    [settlement] = leases.settlements
    assert settlement.is_settled
    assert settlement.paid + settlement.fee + settlement.burnt >= paid.voucher
    assert left.cost == 60 * price


def test_ladder_until_done_ends_with_the_tasks_and_a_later_process_resumes(quick: Quick, client: Client) -> None:
    left = leave(quick, 250, 1, 0.1, 300, until_done=True, stays=False)
    paused = wait_for(client, left.lease, lambda view: view.state is LeaseState.UNPAID)
    time.sleep(TICK_S)

    assert view_of(client, left.lease).voucher == paused.voucher
    price = paused.offer.offer.pricePerSecond
    assert paused.voucher <= (time.time() - paused.ready_at) * price
    with client.attach(left.lease) as leases:
        wait_for(client, left.lease, lambda view: view.state is LeaseState.SERVING)
        assert leases.detach(20) == 20 * price
        assert len(leases) == 0
    assert client.close_lease(left.lease).is_settled


def test_run_detached_then_results_and_attach_by_commands(quick: Quick) -> None:
    left = _millpond(quick, "run", "--detach", "60s", "--json", "--", "sh", "-c", "sleep 3; echo hi; exit 3")
    said = json.loads(left.stdout)

    attached = _millpond(quick, "attach", said["lease"], "--job", said["job"], "--json")
    results = _millpond(quick, "results", said["job"], "--log", "--json")
    behind = _millpond(quick, "results", said["job"], "--after", "1")

    assert json.loads(attached.stdout)["is_settled"]
    shown = json.loads(results.stdout)
    assert (shown["cursor"], shown["log"], shown["failure"]["type"]) == (1, "hi\n", "ProcessEnded")
    assert said["handle"] == f"{said['job']}/0"
    assert behind.stdout == ""


def test_ladder_of_a_killed_worker_releases_nothing(quick: Quick, client: Client) -> None:
    left = leave(quick, 250, 1, 100.0, 300, until_done=False, stays=False)
    wait_for(client, left.lease, lambda view: view.voucher > 0)
    quick.stack.kill(0)
    time.sleep(1)
    before = view_of(client, left.lease).voucher
    time.sleep(PATIENCE_S + TICK_S)

    assert view_of(client, left.lease).voucher == before


def _millpond(quick: Quick, *arguments: str) -> subprocess.CompletedProcess[str]:
    done: Any = subprocess.run(
        [sys.executable, "-m", "millpond", *arguments],
        env={**os.environ, "MILLPOND_HOME": str(quick.home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done
