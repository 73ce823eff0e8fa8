"""A ladder: vouchers signed in advance, one per tick, which the node hands to the worker one by one while the renter is away.

The node holds no key: it can only pass on what was signed. A node and a provider that cheat together gain the last rung at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.protocol.errors import InputError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import Amount, Message
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, sign

MAX_RUNGS = 8640
"""A day of ticks of 10 s: about 1.3 MB as JSON."""
SIGNATURE_BYTES = 65


class LadderError(InputError):
    remedy_text = (
        "Sign rungs that rise by at most one tick each, from the last voucher up to what the whole lease can earn."
    )


@dataclass(frozen=True, slots=True)
class Rung(Message):
    """A voucher of the ladder's lease; `cumulative` as in `Voucher`."""

    cumulative: Amount
    signature: bytes


@dataclass(frozen=True, slots=True)
class Ladder(Message):
    """All rungs of one lease; it takes the place of an earlier one, and one without rungs only takes the earlier one away.

    `is_until_done`: rungs are released while the lease's jobs have tasks to run, the tick in which the last one ends included;
    otherwise up to the last rung.
    """

    lease: Bytes32
    rungs: tuple[Rung, ...]
    is_until_done: bool = False


def amounts(paid: int, price: int, tick: int, horizon: int, most: int) -> list[int]:
    """Cumulative amounts for `horizon` seconds beyond `paid`, one per `tick`, none beyond `most`. Raises `LadderError` when they are too many."""
    if price <= 0 or horizon <= 0 or paid >= most:
        return []
    last = min(paid + horizon * price, most)
    count = -(-(last - paid) // (tick * price))
    if count > MAX_RUNGS:
        raise LadderError(
            f"{horizon} s are {count} ticks of {tick} s, at most {MAX_RUNGS} can be paid ahead",
            remedy=f"Stay away for {MAX_RUNGS * tick} s at most.",
        )
    return [min(paid + i * tick * price, last) for i in range(1, count + 1)]


def sign_ladder(
    lease: Bytes32, cumulatives: Sequence[int], escrow: Domain, key: bytes, *, is_until_done: bool = False
) -> Ladder:
    """`escrow` is the domain of the pool's Escrow, `key` the lease's session key."""
    rungs = tuple(Rung(amount, sign(Voucher(lease, amount), escrow, key)) for amount in cumulatives)
    return Ladder(lease, rungs, is_until_done)


def check_shape(ladder: Ladder, price: int, tick: int, duration: int) -> None:
    """Everything but the signatures; raises `LadderError`. `price` per second, `tick` and `duration` of the lease in seconds."""
    if len(ladder.rungs) > MAX_RUNGS:
        raise LadderError(f"{len(ladder.rungs)} rungs, at most {MAX_RUNGS} are kept")
    if any(len(rung.signature) != SIGNATURE_BYTES for rung in ladder.rungs):
        raise LadderError("a rung's signature is not 65 bytes long")
    if not ladder.rungs:
        return
    steps = [
        after.cumulative - before.cumulative for before, after in zip(ladder.rungs, ladder.rungs[1:], strict=False)
    ]
    if ladder.rungs[0].cumulative <= 0 or any(not 0 < step <= tick * price for step in steps):
        raise LadderError("the rungs do not rise by at most one tick each")
    if ladder.rungs[-1].cumulative > price * duration:
        raise LadderError("the last rung is more than the whole lease can earn", most=price * duration)
