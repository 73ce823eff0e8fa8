"""When a rung of a ladder is released: one per healthy tick, never ahead of the meter, and never faster than the node's own clock.

The time since the last release fills a bucket at the lease's price. It holds two ticks, which is as long as a worker serves without
a voucher: so much and no more is made up for after an outage, and a worker that invents its meter still gains no more than time passed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from millpond.protocol.ladders import Ladder, Rung
from millpond.protocol.messages import Message
from millpond.protocol.views import LeaseState
from millpond.protocol.vouchers import Meter

PATIENCE_TICKS = 2


@dataclass(slots=True)
class Climb(Message):
    """How far a ladder is. `at`: Unix seconds from which the bucket fills. A limit of -1 does not bind.

    `paused_limit` holds while the worker is paused, `ended_limit` once the lease's tasks have all ended.
    """

    at: int
    paused_limit: int = -1
    ended_limit: int = -1


@dataclass(frozen=True, slots=True)
class Scene:
    """A ladder's lease at this moment. `given` is the highest voucher the node has, whoever gave it."""

    state: LeaseState
    is_online: bool
    meter: Meter
    tick: int
    given: int
    has_open_task: bool


def climb(ladder: Ladder, state: Climb, scene: Scene, now: int) -> Rung | None:
    """The rung to release now, if any; `state` changes with it. `now` is Unix seconds."""
    _set_limits(ladder, state, scene, now)
    if not scene.is_online or scene.state not in (LeaseState.SERVING, LeaseState.UNPAID):
        return None
    rung = _highest(ladder, _allowed(state, scene, now))
    if rung is None or rung.cumulative <= scene.given:
        return None
    seconds = -(-(rung.cumulative - scene.given) // scene.meter.price_per_second)
    state.at = max(state.at, now - _patience(scene)) + seconds
    return rung


def is_over(ladder: Ladder, given: int) -> bool:
    """Nothing is left to release."""
    return not ladder.rungs or ladder.rungs[-1].cumulative <= given


def _set_limits(ladder: Ladder, state: Climb, scene: Scene, now: int) -> None:
    if scene.state is not LeaseState.UNPAID:
        state.paused_limit = -1
    elif state.paused_limit < 0:
        state.paused_limit = scene.given + _patience(scene) * scene.meter.price_per_second
    if not ladder.is_until_done or scene.has_open_task:
        state.ended_limit = -1
    elif state.ended_limit < 0:
        served = scene.meter.earned(now) if scene.state is LeaseState.SERVING else scene.given
        state.ended_limit = served + scene.tick * scene.meter.price_per_second - 1


def _allowed(state: Climb, scene: Scene, now: int) -> int:
    bucket = scene.given + min(max(0, now - state.at), _patience(scene)) * scene.meter.price_per_second
    limits = [bucket, scene.meter.earned(now), state.paused_limit, state.ended_limit]
    return min(limit for limit in limits if limit >= 0)


def _highest(ladder: Ladder, allowed: int) -> Rung | None:
    found = bisect_right(ladder.rungs, allowed, key=lambda rung: rung.cumulative)
    return ladder.rungs[found - 1] if found else None


def _patience(scene: Scene) -> int:
    return PATIENCE_TICKS * scene.tick
