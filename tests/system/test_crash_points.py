"""kill -9 of a real worker, node, SDK process and Anvil where state changes hands: the same promises as in `tests/simulation`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest
from crash_stage import Renter, Stage, check_all, stage, wait_until

from millpond import Client
from millpond.chain import devnet
from millpond.chain.errors import DevnetError

pytestmark = [pytest.mark.anvil, pytest.mark.slow, pytest.mark.timeout(300)]
IS_LONG = os.environ.get("MILLPOND_CRASH") == "all"
TASKS, SECONDS = 4, 0.8


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    try:
        devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    with stage(tmp_path_factory.mktemp("crash"), tmp_path_factory.mktemp("code")) as made:
        yield made


def worked(it: Stage) -> tuple[Renter, str, list[str]]:
    """A renter whose tasks the node has accepted."""
    renter = it.renter("work", 250, TASKS, SECONDS)
    lease = renter.until("serving")["lease"]
    return renter, lease, renter.until("submitted")["handles"]


def finished(it: Stage, renter: Renter, lease: str, handles: list[str]) -> None:
    renter.until("closed")
    check_all(it, lease, handles, [renter])
    renter.kill()


def node_after_202(it: Stage) -> None:
    renter, lease, handles = worked(it)
    it.crash_node()
    finished(it, renter, lease, handles)


def worker_after_run(it: Stage) -> None:
    renter, lease, handles = worked(it)
    with Client(network=it.network, home=it.home) as client:
        job = handles[0].partition("/")[0]
        wait_until(lambda: client.job(job).running > 0, "a run", pause_s=0.01)  # type: ignore[arg-type]
    it.crash_worker()
    finished(it, renter, lease, handles)


def worker_during_a_task(it: Stage) -> None:
    renter, lease, handles = worked(it)
    time.sleep(SECONDS / 2)
    it.crash_worker()
    finished(it, renter, lease, handles)


def worker_after_a_receipt(it: Stage) -> None:
    renter, lease, handles = worked(it)
    renter.until("result")
    it.crash_worker()
    finished(it, renter, lease, handles)


def node_posting_receipts(it: Stage) -> None:
    renter, lease, handles = worked(it)
    wait_until(it.sending("node", "post:"), "a batch under way", pause_s=0.01)
    it.crash_node()
    finished(it, renter, lease, handles)


def node_opening_a_lease(it: Stage) -> None:
    renter = it.renter("work", 250, TASKS, SECONDS)
    renter.until("opening")
    wait_until(it.sending("node", "open:"), "an opening under way", pause_s=0.01)
    it.crash_node()
    lease = renter.until("serving")["lease"]
    finished(it, renter, lease, renter.until("submitted")["handles"])


def renter_closing(it: Stage) -> None:
    renter, lease, handles = worked(it)
    renter.until("closing")
    time.sleep(0.2)
    renter.kill()
    with Client(network=it.network, home=it.home) as client:
        assert client.close_lease(lease).is_settled  # type: ignore[arg-type]
    renter.said.append({"at": "closed", "settled": [True]})
    check_all(it, lease, handles, [renter])


def renter_during_its_tasks(it: Stage) -> None:
    renter, lease, handles = worked(it)
    renter.until("result")
    renter.kill()
    again = it.renter("resume", lease, handles)
    again.until("closed")
    check_all(it, lease, handles, [renter, again])
    again.kill()


def worker_collecting(it: Stage) -> None:
    renter, lease, handles = worked(it)
    renter.until("closing")
    wait_until(it.sending("worker-1", "collect_final:"), "a collection under way", pause_s=0.01)
    it.crash_worker()
    finished(it, renter, lease, handles)


def chain_during_tasks(it: Stage) -> None:
    renter, lease, handles = worked(it)
    it.crash_chain()
    finished(it, renter, lease, handles)


def node_away_for_a_while(it: Stage) -> None:
    renter, lease, handles = worked(it)
    it.crash_node(away_s=25.0)
    finished(it, renter, lease, handles)


QUICK = [node_after_202, worker_during_a_task, renter_closing]
LONG = [
    worker_collecting,
    worker_after_run,
    worker_after_a_receipt,
    node_posting_receipts,
    node_opening_a_lease,
    renter_during_its_tasks,
    chain_during_tasks,
    node_away_for_a_while,
]


@pytest.mark.parametrize("point", QUICK + LONG if IS_LONG else QUICK, ids=lambda point: point.__name__)
def test_O01_kill_9_at_a_real_point_loses_nothing(point: Callable[[Stage], None], it: Stage) -> None:
    begun = time.monotonic()
    point(it)
    print(f"\n{point.__name__}: {time.monotonic() - begun:.1f} s")
