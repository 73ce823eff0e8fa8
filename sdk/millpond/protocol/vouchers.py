"""What a lease has earned: the arithmetic of meter, vouchers and earmarks, the same as in `Escrow`."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.units import PPM


@dataclass(frozen=True, slots=True)
class Meter:
    """Runs from READY. Times are Unix seconds, the price token base units per second."""

    ready_at: int
    ends_at: int
    price_per_second: int

    def earned(self, now: int) -> int:
        """Base units earned in `[ready_at, now)`, never beyond the lease's end."""
        return max(0, min(now, self.ends_at) - self.ready_at) * self.price_per_second

    def unpaid_seconds(self, now: int, cumulative: int) -> int:
        """Whole seconds served for which no voucher of `cumulative` pays."""
        return max(0, self.earned(now) - cumulative) // self.price_per_second if self.price_per_second else 0


def earmark(price_per_second: int, duration: int, deposit_seconds: int) -> int:
    """The most a lease can cost, opening deposit included."""
    return price_per_second * (duration + deposit_seconds)


def split(cumulative: int, fee_ppm: int, burn_ppm: int) -> tuple[int, int, int]:
    """`(payee, fee, burnt)` of all that vouchers collected: the fee of the sum, the burn of the rest, both rounded down."""
    fee = cumulative * fee_ppm // PPM
    burnt = (cumulative - fee) * burn_ppm // PPM
    return cumulative - fee - burnt, fee, burnt
