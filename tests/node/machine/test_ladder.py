"""Rungs are released one per healthy tick: never ahead of the meter, never faster than time, and not while nothing is served."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.protocol.ids import Bytes32
from millpond.protocol.ladders import Ladder, LadderError, Rung, amounts, check_shape
from millpond.protocol.views import LeaseState
from millpond.protocol.vouchers import Meter
from millpond_node.machine.ladder import Climb, Scene, climb, is_over

LEASE = Bytes32("0x" + "a" * 64)
TICK, PRICE, START, END = 10, 3, 1000, 5000


def ladder(horizon: int = 100, paid: int = 0, is_until_done: bool = False) -> Ladder:
    most = (END - START) * PRICE
    return Ladder(LEASE, tuple(Rung(a, b"\1" * 65) for a in amounts(paid, PRICE, TICK, horizon, most)), is_until_done)


@dataclass
class World:
    """A lease READY at START; `pass_time` looks every second, as the node does."""

    ladder: Ladder
    now: int = START
    state: Climb = field(default_factory=lambda: Climb(START))
    scene: Scene = field(
        default_factory=lambda: Scene(LeaseState.SERVING, True, Meter(START, END, PRICE), TICK, 0, True)
    )
    released: list[tuple[int, int]] = field(default_factory=list)

    def pass_time(self, seconds: int, **changes: object) -> list[int]:
        """The amounts released in this time."""
        self.scene = replace(self.scene, **changes)
        before = len(self.released)
        for _ in range(seconds):
            self.now += 1
            rung = climb(self.ladder, self.state, self.scene, self.now)
            if rung is not None:
                self.released.append((self.now, rung.cumulative))
                self.scene = replace(self.scene, given=rung.cumulative)
        return [amount for _, amount in self.released[before:]]


def test_climb_of_a_healthy_lease_releases_one_rung_per_tick_to_the_last() -> None:
    world = World(ladder(100))

    assert world.pass_time(35) == [30, 60, 90]
    assert world.pass_time(500)[-1] == 300
    assert [at for at, _ in world.released] == [START + TICK * i for i in range(1, 11)]
    assert is_over(world.ladder, world.scene.given)


@pytest.mark.parametrize(
    "trouble",
    [
        {"is_online": False},
        {"state": LeaseState.OPENING},
        {"state": LeaseState.OPEN},
        {"state": LeaseState.CLOSING},
        {"state": LeaseState.CLOSED},
    ],
)
def test_climb_of_an_unhealthy_lease_releases_nothing(trouble: dict[str, object]) -> None:
    world = World(ladder())
    world.pass_time(20)

    assert world.pass_time(100, **trouble) == []


def test_climb_after_an_outage_makes_up_for_two_ticks_at_most() -> None:
    world = World(ladder(600))
    world.pass_time(20)
    world.pass_time(300, is_online=False)

    assert world.pass_time(1, is_online=True) == [60 + 2 * TICK * PRICE]
    assert world.pass_time(9) == []


def test_climb_of_a_meter_set_back_in_time_keeps_to_the_nodes_clock() -> None:
    """O: a worker that says it has been ready for long gains no more than time passed."""
    world = World(ladder(3000))

    released = world.pass_time(100, meter=Meter(0, END, PRICE))

    assert released[-1] <= 100 * PRICE


def test_climb_of_a_lease_that_became_ready_late_keeps_to_its_meter() -> None:
    world = World(ladder(600))

    assert world.pass_time(55, meter=Meter(START + 50, END, PRICE)) == []
    assert world.pass_time(6) == [30]


def test_climb_of_a_paused_lease_pays_what_it_may_have_served_and_no_more() -> None:
    world = World(ladder(600))
    world.pass_time(20)

    paid = world.pass_time(400, state=LeaseState.UNPAID)

    assert paid[-1] == 60 + 2 * TICK * PRICE


def test_climb_after_a_pause_goes_on_tick_by_tick() -> None:
    world = World(ladder(600))
    world.pass_time(20)
    world.pass_time(400, state=LeaseState.UNPAID)
    resumed = Meter(world.now - 40, END, PRICE)

    after = world.pass_time(35, state=LeaseState.SERVING, meter=resumed)

    assert after == [150, 180, 210]


def test_climb_once_all_tasks_ended_pays_that_tick_and_stops() -> None:
    world = World(ladder(600, is_until_done=True))
    world.pass_time(25)

    assert world.pass_time(300, has_open_task=False) == [90]


def test_climb_to_its_horizon_goes_on_whatever_the_tasks_do() -> None:
    world = World(ladder(600))

    assert len(world.pass_time(300, has_open_task=False)) == 30


def test_climb_with_tasks_again_goes_on() -> None:
    world = World(ladder(600, is_until_done=True))
    world.pass_time(100, has_open_task=False)

    assert world.pass_time(20, has_open_task=True)


def test_climb_beyond_what_the_renter_paid_itself_releases_nothing() -> None:
    world = World(ladder(100))

    assert world.pass_time(50, given=1000) == []


@given(
    st.lists(
        st.tuples(
            st.integers(1, 60),
            st.sampled_from(list(LeaseState)),
            st.booleans(),
            st.integers(-200, 200),
        ),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_climb_through_any_history_is_never_ahead_of_time_or_meter(
    history: list[tuple[int, LeaseState, bool, int]],
) -> None:
    world = World(ladder(1000))
    for seconds, state, is_online, shift in history:
        world.pass_time(seconds, state=state, is_online=is_online, meter=Meter(START + shift, END, PRICE))

    given_so_far = [amount for _, amount in world.released]
    assert given_so_far == sorted(set(given_so_far))
    assert all(amount <= (at - START) * PRICE for at, amount in world.released)
    assert all(amount <= 1000 * PRICE for amount in given_so_far)


@given(st.integers(0, 500), st.integers(1, 50), st.integers(1, 60), st.integers(1, 5000), st.integers(1, 100_000))
def test_amounts_make_a_ladder_that_passes_its_check(
    paid: int, price: int, tick: int, horizon: int, length: int
) -> None:
    most = price * length
    cumulatives = amounts(min(paid, most), price, tick, horizon, most)

    check_shape(Ladder(LEASE, tuple(Rung(a, bytes(65)) for a in cumulatives)), price, tick, length)
    assert not cumulatives or cumulatives[-1] == min(min(paid, most) + horizon * price, most)


def test_amounts_of_more_than_a_day_of_ticks_are_refused() -> None:
    with pytest.raises(LadderError, match="at most 8640"):
        amounts(0, PRICE, TICK, 86_401, 10**9)


@pytest.mark.parametrize(
    ("rungs", "text"),
    [
        ([30, 20], "rise"),
        ([30, 30], "rise"),
        ([30, 61], "rise"),
        ([0, 30], "rise"),
        ([30 * i for i in range(1, 8642)], "at most 8640"),
        ([30 * i for i in range(1, 402)], "whole lease"),
    ],
)
def test_check_of_a_bad_shape_refuses(rungs: list[int], text: str) -> None:
    with pytest.raises(LadderError, match=text):
        check_shape(Ladder(LEASE, tuple(Rung(a, bytes(65)) for a in rungs)), PRICE, TICK, 4000)


def test_check_of_a_short_signature_refuses() -> None:
    with pytest.raises(LadderError, match="65 bytes"):
        check_shape(Ladder(LEASE, (Rung(30, b""),)), PRICE, TICK, 4000)
