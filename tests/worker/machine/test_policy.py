from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from worker_world import PRICE, RENTER, desired, offer, state

from millpond.protocol.link import LeasePhase
from millpond_worker.machine.commands import Pull, Report
from millpond_worker.machine.handle import handle
from millpond_worker.machine.policy import Policy, parse_hours
from millpond_worker.zones import LocalMinute, check_zone

NIGHT = Policy(hours=(parse_hours("22:00-06:00"),), time_zone="UTC")
DIGEST = "ab" * 32


def at(hour: int, minute: int = 0, second: int = 0, zone: str = "UTC", day: int = 10, month: int = 6) -> int:
    return int(datetime(2026, month, day, hour, minute, second, tzinfo=ZoneInfo(zone)).timestamp())


@pytest.mark.parametrize(
    ("hour", "minute", "second", "is_open"),
    [(21, 59, 59, False), (22, 0, 0, True), (0, 0, 0, True), (5, 59, 59, True), (6, 0, 0, False), (12, 0, 0, False)],
)
def test_hours_over_midnight_are_half_open(hour: int, minute: int, second: int, is_open: bool) -> None:
    assert NIGHT.is_open(at(hour, minute, second)) is is_open


def test_next_change_is_the_first_second_of_the_other_state() -> None:
    assert NIGHT.next_change(at(21, 30, 5)) == at(22)
    assert NIGHT.next_change(at(22)) == at(6, day=11)
    assert NIGHT.next_change(at(12), within_s=3000) == 0
    assert Policy().next_change(at(12)) == 0


def test_hours_follow_the_zone_through_the_change_of_clocks() -> None:
    policy = Policy(
        hours=(parse_hours("01:00-04:00"),), time_zone="Europe/Berlin", minute_of=LocalMinute("Europe/Berlin")
    )
    opens = at(1, zone="Europe/Berlin", day=29, month=3)
    assert policy.next_change(opens - 600) == opens
    assert policy.next_change(opens) == opens + 2 * 3600  # the hour from two to three is not there


def test_hours_that_meet_at_midnight_never_close() -> None:
    policy = Policy(hours=(parse_hours("00:00-12:00"), parse_hours("12:00-24:00")))
    assert all(policy.is_open(at(hour)) for hour in range(24))
    assert policy.next_change(at(3)) == 0


@pytest.mark.parametrize(
    "text", ["22-06", "22:00", "25:00-06:00", "22:60-06:00", "06:00-06:00", "24:00-06:00", "a:00-b:00"]
)
def test_parse_hours_of_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"needed|there is no time"):
        parse_hours(text)


def test_check_zone_unknown_is_refused() -> None:
    assert check_zone("Europe/Berlin") == "Europe/Berlin"
    with pytest.raises(ValueError, match="no such time zone"):
        check_zone("Moon/Base")


@pytest.mark.parametrize(
    ("allow", "refuse", "name", "digest", "is_refused"),
    [
        ((), (), "any:1", "", False),
        (("pytorch/*",), (), "pytorch/pytorch:2", "", False),
        (("pytorch/*",), (), "ubuntu:24.04", "", True),
        ((), ("*miner*",), "x/miner:1", "", True),
        (("pytorch/*",), ("pytorch/old*",), "pytorch/old:1", "", True),
        ((f"sha256:{DIGEST}",), (), "ubuntu:24.04", "", False),  # undecided until it is here
        ((f"sha256:{DIGEST}",), (), "ubuntu:24.04", DIGEST, False),
        ((f"sha256:{DIGEST}",), (), "ubuntu:24.04", "cd" * 32, True),
        ((), ("sha256:abab*",), "ubuntu:24.04", DIGEST, True),
        ((), ("sha256:abab*",), f"ubuntu@sha256:{DIGEST}", "", True),
        (("ubuntu",), (), f"ubuntu@sha256:{DIGEST}", "", False),
    ],
)
def test_image_problem(
    allow: tuple[str, ...], refuse: tuple[str, ...], name: str, digest: str, is_refused: bool
) -> None:
    assert bool(Policy(allow_images=allow, refuse_images=refuse).image_problem(name, digest)) is is_refused


def test_price_floor_is_per_whole_device() -> None:
    policy = Policy(price_floor=1000)
    assert policy.price_problem(600, 600) == ""
    assert "below this provider's floor" in policy.price_problem(599, 600)


NOON, MIDNIGHT = at(12), at(0)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Policy(refuse_renters=frozenset({RENTER.address})), "refuses the renter"),
        (Policy(refuse_images=("millpond-task*",)), "refuses the image"),
        (NIGHT, "accepts no new leases now; it does again at 22:00 UTC"),
        (Policy(price_floor=PRICE * 10), "below this provider's floor"),
    ],
)
def test_hint_against_the_policy_is_refused_and_the_node_hears_why(policy: Policy, says: str) -> None:
    commands = handle(state(policy=policy), desired(), NOON)
    [ended] = [command.body for command in commands if isinstance(command, Report)]
    assert says in ended.message


def test_hint_within_the_hours_is_prepared() -> None:
    assert any(isinstance(command, Pull) for command in handle(state(policy=NIGHT), desired(), MIDNIGHT))


def test_lease_that_is_open_on_chain_is_served_outside_hours_and_below_a_raised_floor() -> None:
    policy = Policy(hours=NIGHT.hours, price_floor=PRICE * 10)
    commands = handle(state(policy=policy), desired(phase=LeasePhase.SEEN), NOON)
    assert any(isinstance(command, Pull) for command in commands)


def test_lease_that_is_known_is_not_judged_again() -> None:
    world = state(policy=NIGHT)
    handle(world, desired(), MIDNIGHT)
    later = handle(world, desired(), NOON)
    assert later == []
    assert len(world.leases) == 1


def test_utc_needs_no_zone_data() -> None:
    assert Policy(hours=NIGHT.hours).is_open(int(datetime(2026, 6, 10, 23, tzinfo=UTC).timestamp()))
    assert offer().pricePerSecond == PRICE
