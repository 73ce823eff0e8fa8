from types import SimpleNamespace
from typing import Any

import pytest
from worker_world import DEVICE, INFO, place

from millpond.protocol.ids import ZERO_ADDRESS
from millpond_worker.doctor import FAIL, OK, WARN
from millpond_worker.doctor_entry import device_spec_check, join_check, paused_check, retired_check, terms_check

POOL, SLASHER, OTHER = place(1), place(2), place(3)
PARAMS: Any = SimpleNamespace(slasher=SLASHER, thawPeriod=864_000, minProvision=100)
FOUND: Any = SimpleNamespace(controller=SimpleNamespace(address=POOL), params=PARAMS, decimals=0, symbol="T")


def test_paused_pool_fails_and_says_for_how_long() -> None:
    found = paused_check(1000, 400)
    assert (found.level, found.id) == (FAIL, "paused")
    assert "600 s" in found.measured
    assert paused_check(1000, 1000).level == OK


@pytest.mark.parametrize(
    ("slasher", "thaw", "level"),
    [(SLASHER, 864_000, OK), (ZERO_ADDRESS, 0, OK), (OTHER, 864_000, FAIL), (SLASHER, 1, FAIL)],
)
def test_terms_of_the_provision_must_be_the_pools(slasher: str, thaw: int, level: str) -> None:
    provision: Any = SimpleNamespace(slasher=slasher, thawPeriod=thaw)
    assert terms_check(provision, PARAMS).level == level


def test_retired_provider_fails() -> None:
    gone: Any = SimpleNamespace(is_retired=True)
    assert retired_check(gone).level == FAIL


@pytest.mark.parametrize(
    ("kind", "memory", "level"),
    [
        (0, INFO.memory_mib, OK),
        (0, INFO.memory_mib - 1, WARN),
        (0, INFO.memory_mib + 1, FAIL),
        (1, INFO.memory_mib, FAIL),
    ],
)
def test_device_must_be_what_was_registered(kind: int, memory: int, level: str) -> None:
    standing: Any = SimpleNamespace(registered={DEVICE: SimpleNamespace(kind=kind, memoryMiB=memory)})
    assert device_spec_check(standing, DEVICE, INFO).level == level


@pytest.mark.parametrize(("pool", "left", "level"), [(POOL, 0, OK), (ZERO_ADDRESS, 100, OK), (ZERO_ADDRESS, 99, FAIL)])
def test_join_needs_the_least_provision_unreserved(pool: str, left: int, level: str) -> None:
    standing: Any = SimpleNamespace(registered={DEVICE: SimpleNamespace(pool=pool)}, unreserved=left)
    assert join_check(FOUND, standing, {DEVICE: INFO}).level == level
