"""Edges of Python tasks on real leases: what travels, what fails, and how that reads."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from millpond import App, Client, Vgpu
from millpond.errors import PythonMismatchError, TaskFailedError, TaskSourceError, TaskTimedOutError

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(300)]

PACKAGE = {
    "__init__.py": "",
    "helper.py": "def double(x):\n    return 2 * x\n",
    "work.py": """
import os
import time
from pathlib import Path

import numpy as np

import millpond
from edge_package.helper import double

app = millpond.App(name="edges")


@app.task
def compute(x, *, plus=0):
    print("computing", x)
    return double(x) + plus


@app.task
def fail(x):
    if x % 2:
        raise ValueError(f"odd: {x}")
    return x


@app.task
def size_of(data):
    return len(data)


@app.task
def make(size):
    return b"x" * size


@app.task
def scale(array, factor):
    return array * factor


@app.task
def read_input():
    return (Path(os.environ["MILLPOND_IN"]) / "given").read_text()


@app.task(time_limit_s=1.0)
def linger():
    time.sleep(60)


@app.task(python=">=99")
def from_the_future():
    return 1
""",
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("code")
    (folder / "edge_package").mkdir()
    for name, text in PACKAGE.items():
        (folder / "edge_package" / name).write_text(text)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("edge_package.work")
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def client(stack: Any) -> Iterator[Client]:
    with Client(network=stack.network, home=stack.home) as made:
        yield made


@pytest.fixture(scope="module")
def leases(client: Client, work: ModuleType) -> Iterator[Any]:
    with client.rent(Vgpu(300), duration=600) as made:
        yield made


def test_task_of_a_package_takes_keywords_and_imports_its_neighbours(leases: Any, work: ModuleType) -> None:
    assert work.compute.remote(4, plus=1) == 9


def test_map_of_a_generator_keeps_the_order_of_inputs(leases: Any, work: ModuleType) -> None:
    assert list(work.compute.map(i for i in range(20))) == [2 * i for i in range(20)]
    assert sorted(work.compute.map(range(20), is_ordered=False)) == [2 * i for i in range(20)]


def test_map_of_nothing_yields_nothing(leases: Any, work: ModuleType) -> None:
    assert list(work.compute.map([])) == []


def test_exception_in_a_task_shows_its_remote_traceback(leases: Any, work: ModuleType) -> None:
    with pytest.raises(TaskFailedError) as caught:
        work.fail.remote(3)

    error = caught.value
    assert "ValueError: odd: 3" in error.message
    assert 'raise ValueError(f"odd: {x}")' in error.fields["traceback"]
    assert "work.py" in error.fields["traceback"]
    assert error.exit_code == 8


def test_map_that_does_not_raise_yields_errors_in_place(leases: Any, work: ModuleType) -> None:
    found = list(work.fail.map(range(4), is_raising=False))

    assert found[0::2] == [0, 2]
    assert all(isinstance(item, TaskFailedError) for item in found[1::2])


def test_map_abandoned_half_way_leaves_the_lease_usable(leases: Any, work: ModuleType) -> None:
    for value in work.compute.map(range(50)):
        assert value == 0
        break

    assert work.compute.remote(1) == 2


def test_arguments_and_values_over_64_kib_travel_by_cid(leases: Any, work: ModuleType) -> None:
    assert work.size_of.remote(b"y" * 3_000_000) == 3_000_000
    assert work.make.remote(3_000_000) == b"x" * 3_000_000


def test_arrays_travel_both_ways(leases: Any, work: ModuleType) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)

    np.testing.assert_array_equal(work.scale.remote(array, 2), array * 2)


def test_input_by_cid_is_a_file_of_the_task(leases: Any, client: Client, work: ModuleType) -> None:
    assert work.read_input.using(given=client.store(b"hello")).remote() == "hello"


def test_task_over_its_time_says_its_limit(leases: Any, work: ModuleType) -> None:
    with pytest.raises(TaskTimedOutError, match="longer than its 1 s"):
        work.linger.remote()


def test_task_for_another_python_is_refused_by_version(leases: Any, work: ModuleType) -> None:
    with pytest.raises(PythonMismatchError, match="99"):
        work.from_the_future.remote()


def test_lambda_as_a_task_is_refused_before_it_travels(leases: Any) -> None:
    with pytest.raises(TaskSourceError, match="lambda") as caught:
        App().task(lambda x: x).remote(1)

    assert (caught.value.exit_code, caught.value.remedy) == (2, "Use `def`.")


def test_two_clients_of_one_wallet_rent_at_the_same_time(client: Client, leases: Any, stack: Any) -> None:
    with Client(network=stack.network, home=stack.home) as other, other.rent(Vgpu(500), duration=60) as rented:
        assert len(rented) == 1

    assert rented.settlements[0].is_settled


def test_two_processes_of_one_wallet_send_at_the_same_time(stack: Any) -> None:
    """Each keeps its transactions apart from the other's; none is lost."""
    with _fund(stack.home) as first, _fund(stack.home) as second:
        said = [first.communicate(timeout=90), second.communicate(timeout=90)]

    assert [first.returncode, second.returncode] == [0, 0], said


def _fund(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millpond", "fund", "0.01"],
        env={**os.environ, "MILLPOND_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
