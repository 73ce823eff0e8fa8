"""Making pools, and telling them from others."""

import pytest
from system import DAY, ZERO, System, refuses, word

CEILING = 175_000


def test_createPool_anyone_makesPoolAtPredictedAddress(system: System) -> None:
    params = tuple(system.params().values())
    expected = system.factory.predict(system.stranger, word("mine"), params)
    tx = system.factory.createPool(word("mine"), system.node, params, {"from": system.stranger})
    event = tx.events["PoolCreated"]
    assert (event["pool"], event["owner"], event["node"]) == (expected, system.stranger, system.node)
    assert tuple(event["params"]) == params
    assert system.factory.isPool(expected)
    assert tx.gas_used <= CEILING


def test_createPool_params_areThePoolsForGood(system: System) -> None:
    pool = system.create_pool("mine", feePpm=1, grace=60)
    assert pool.params().dict() == system.params(feePpm=1, grace=60)
    assert (pool.owner(), pool.founder(), pool.node()) == (system.pool_owner, system.pool_owner, system.node)
    assert pool.label() == "0x" + word("mine").hex()
    assert pool.provisionTerms() == (system.token, system.slasher, 21 * DAY, 500_000)
    assert (pool.escrow(), pool.staking(), pool.devices()) == (system.escrow, system.staking, system.devices)


def test_createPool_twice_reverts(system: System) -> None:
    with refuses("PoolFactoryExists", system.pool.address):
        system.create_pool("main")


def test_createPool_tokenNotListed_reverts(system: System) -> None:
    with refuses("PoolFactoryTokenNotListed", system.stranger.address):
        system.create_pool("x", token=system.stranger.address)


def test_createPool_noSlasher_reverts(system: System) -> None:
    with refuses("PoolFactoryZeroAddress"):
        system.create_pool("x", slasher=ZERO)


@pytest.mark.parametrize(
    ("param", "value", "bound"),
    [
        ("feePpm", 250_001, 250_000),
        ("burnPpm", 100_001, 100_000),
        ("exposurePpm", 10_000_001, 10_000_000),
        ("claimWindow", DAY - 1, DAY),
        ("disputeWindow", 30 * DAY + 1, 30 * DAY),
        ("maxDuration", 90 * DAY + 1, 90 * DAY),
        ("thawPeriod", 19 * DAY - 1, 19 * DAY),
        ("depositSeconds", 59, 60),
        ("grace", 841, 840),
    ],
)
def test_C46_createPool_paramOutside_reverts(system: System, param: str, value: int, bound: int) -> None:
    with refuses("PoolFactoryParamOutside", word(param), value, bound):
        system.create_pool("x", **{param: value})


def test_pools_pages_listEveryPoolOnce(system: System) -> None:
    second = system.create_pool("second")
    assert system.factory.poolCount() == 2
    assert system.factory.pools(0, 10) == (system.pool, second)
    assert system.factory.pools(1, 1) == (second,)
    assert system.factory.pools(2, 5) == ()


def test_isPool_implementationOrAccount_false(system: System) -> None:
    assert system.factory.implementation() == system.implementation
    assert not system.factory.isPool(system.implementation)
    assert not system.factory.isPool(system.stranger)
