"""Leases behind `concurrent.futures`, spawned tasks, and single leases as context managers, on a running stack."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, as_completed, wait
from types import ModuleType
from typing import Any

import pytest

from millpond import AsyncClient, Client, Executor, Handle, Vgpu
from millpond.errors import NodeRefusedError, ResultWaitError, TaskCancelledError, TaskFailedError, TaskSourceError

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(300)]

CODE = """
import time
import millpond

app = millpond.App(name="executor")


def plain(x, *, plus=0):
    return x * x + plus


def fail(x):
    raise ValueError(f"bad: {x}")


def linger(seconds):
    time.sleep(seconds)
    return seconds


@app.task
def task(x):
    return -x


@app.task
def sleepy(seconds):
    time.sleep(seconds)
    return seconds
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("code")
    (folder / "executor_code.py").write_text(CODE)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("executor_code")
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def client(stack: Any) -> Iterator[Client]:
    with Client(network=stack.network, home=stack.home) as made:
        yield made


@pytest.fixture(scope="module")
def leases(client: Client, code: ModuleType) -> Iterator[Any]:
    """One lease, entered alone, which closes it."""
    rented = client.rent(Vgpu(300), duration=600)
    [lease] = rented
    with lease:
        yield rented
    assert lease.close().is_settled
    assert [settlement.is_settled for settlement in rented.close()] == [True]


@pytest.fixture
def executor(leases: Any) -> Iterator[Executor]:
    with Executor(leases) as made:
        yield made


def test_submit_of_plain_functions_and_tasks_gives_futures(executor: Executor, code: ModuleType) -> None:
    futures = [executor.submit(code.plain, x, plus=1) for x in range(20)] + [executor.submit(code.task, 5)]

    assert [future.result(30) for future in futures] == [x * x + 1 for x in range(20)] + [-5]


def test_map_keeps_the_order(executor: Executor, code: ModuleType) -> None:
    assert list(executor.map(code.plain, range(300), timeout=60)) == [x * x for x in range(300)]


def test_many_calls_travel_in_few_submissions(
    executor: Executor, code: ModuleType, leases: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, sizes = leases.asynchronous.client.api, []
    send = api.submit

    async def counted(submit: Any) -> Any:
        sizes.append(len(submit.tasks))
        return await send(submit)

    monkeypatch.setattr(api, "submit", counted)
    wait([executor.submit(code.plain, x) for x in range(500)], timeout=60)

    assert sum(sizes) == 500
    assert len(sizes) < 100


def test_as_completed_and_wait_see_what_ends_first(executor: Executor, code: ModuleType) -> None:
    slow, quick = executor.submit(code.linger, 0.5), executor.submit(code.fail, 3)

    done, _ = wait([slow, quick], return_when=FIRST_COMPLETED, timeout=30)
    assert done <= {slow, quick}
    assert set(as_completed([slow, quick], timeout=30)) == {slow, quick}
    with pytest.raises(TaskFailedError, match="bad: 3"):
        quick.result()


def test_cancel_of_a_running_call_ends_its_task_at_the_node(
    executor: Executor, code: ModuleType, client: Client
) -> None:
    future = executor.submit(code.linger, 100)
    other = executor.submit(code.plain, 2)
    time.sleep(1)

    assert future.cancel()
    assert future.cancel()
    assert other.result(30) == 4
    with pytest.raises(CancelledError):
        future.result()
    assert wait([future], timeout=5).done == {future}
    assert wait_for(lambda: client.job(executor.job).cancelled == 1)


def test_shutdown_with_cancel_ends_what_is_left(leases: Any, code: ModuleType, client: Client) -> None:
    executor = Executor(leases)
    futures = [executor.submit(code.linger, 50) for _ in range(4)]
    started = time.monotonic()
    executor.shutdown(cancel_futures=True)

    assert time.monotonic() - started < 10
    assert all(future.cancelled() for future in futures)
    assert wait_for(lambda: _open(client, executor) == 0), client.job(executor.job)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(code.plain, 1)


def test_callback_of_a_future_may_submit_and_cancel_others(executor: Executor, code: ModuleType) -> None:
    more: list[Any] = []
    first, other = executor.submit(code.linger, 0.3), executor.submit(code.linger, 50)
    first.add_done_callback(lambda _: more.extend([other.cancel(), executor.submit(code.plain, 3)]))

    assert wait_for(lambda: len(more) == 2)
    assert more[0] is True
    assert more[1].result(30) == 9


def test_submit_of_what_cannot_travel_is_refused_with_a_remedy(executor: Executor) -> None:
    with pytest.raises(TaskSourceError, match="lambda") as caught:
        executor.submit(lambda: 1)

    assert caught.value.remedy == "Use `def`."


async def test_event_loop_runs_blocking_calls_on_it(executor: Executor, code: ModuleType) -> None:
    loop = asyncio.get_running_loop()

    found = await asyncio.gather(*(loop.run_in_executor(executor, code.plain, x) for x in range(5)))

    assert found == [0, 1, 4, 9, 16]


def test_handle_of_a_spawned_task_is_found_again_by_its_id(
    leases: Any, code: ModuleType, client: Client, stack: Any
) -> None:
    handle = code.sleepy.spawn(0.5)
    assert not handle.done()
    with pytest.raises(ResultWaitError), Client(network=stack.network, home=stack.home) as other:
        other.handle(handle.id).result(0.01)
    with Client(network=stack.network, home=stack.home) as other:
        again = other.handle(handle.id)
        assert again.result(30) == 0.5
        assert again.done()
        assert again.result() == 0.5
        assert again.outcome().signed is not None
    assert isinstance(handle, Handle)
    assert handle.result(30) == 0.5


def test_handle_cancelled_says_so(leases: Any, code: ModuleType) -> None:
    handle = code.sleepy.spawn(60)

    assert handle.cancel()
    with pytest.raises(TaskCancelledError):
        handle.result(30)
    assert not handle.cancel()


def test_handle_of_no_job_here_is_refused(client: Client) -> None:
    with pytest.raises(NodeRefusedError):
        client.handle("0x" + "12" * 32 + "/0").result(10)


def test_lease_alone_is_entered_and_runs_tasks(leases: Any, code: ModuleType) -> None:
    assert code.task.remote(7) == -7


async def test_async_lease_and_set_are_context_managers(stack: Any, code: ModuleType) -> None:
    connection = await AsyncClient.connect(network=stack.network, home=stack.home)
    async with connection as client, await client.rent([Vgpu(300)], duration=60) as leases:
        handle = await leases.spawn(code.task, (3,), {})
        async with leases.leases[0]:
            assert await handle.result(30) == -3

    assert [settlement.is_settled for settlement in leases.settlements] == [True]


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not (is_met := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_met


def _open(client: Client, executor: Executor) -> int:
    try:
        view = client.job(executor.job)
    except NodeRefusedError:
        return 0  # all were cancelled before they were sent
    return view.queued + view.running
