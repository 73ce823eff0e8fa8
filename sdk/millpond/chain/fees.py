"""How much a transaction offers for gas. Pure.

A transaction offers twice the base fee and the server's tip (EIP-1559); one that is stuck is replaced by an offer at least 12.5 %
higher, because servers refuse smaller steps; none offers more per gas than the cap, nor more in all than the budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from millpond.chain.errors import FeeCapError

GWEI = 10**9


@dataclass(frozen=True, slots=True)
class Fees:
    """Wei per gas."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """`cap` is the most a transaction offers in wei per gas, `budget` the most its gas may cost in wei; the urgent ones for one marked so."""

    cap: int = 500 * GWEI
    urgent_cap: int = 2_000 * GWEI
    budget: int = 10**18
    urgent_budget: int = 4 * 10**18
    least_tip: int = 1
    bump_ppm: int = 125_000
    gas_margin_ppm: int = 200_000

    def cap_of(self, is_urgent: bool, gas: int = 0) -> int:
        """Wei per gas that a transaction of `gas` may offer; 0 gas: whatever the budget."""
        cap, budget = (self.urgent_cap, self.urgent_budget) if is_urgent else (self.cap, self.budget)
        return min(cap, budget // gas) if gas else cap

    def offer(self, base_fee: int, tip: int, is_urgent: bool = False, gas: int = 0) -> Fees:
        """For a transaction of `gas`. Raises `FeeCapError` when even the base fee is above the cap or the budget."""
        cap = self.cap_of(is_urgent, gas)
        tip = max(tip, self.least_tip)
        if base_fee > cap:
            raise FeeCapError(
                f"the base fee is {base_fee} wei per gas, above the cap of {cap}", base_fee=base_fee, cap=cap
            )
        max_fee = min(2 * base_fee + tip, cap)
        return Fees(max_fee, min(tip, max_fee))

    def bump(self, old: Fees, base_fee: int, tip: int, is_urgent: bool = False, gas: int = 0) -> Fees:
        """A replacement's offer. Raises `FeeCapError` when the cap leaves no room for a step that servers accept."""
        cap = self.cap_of(is_urgent, gas)
        raised = Fees(self._step(old.max_fee), self._step(old.tip))
        if raised.max_fee > cap:
            raise FeeCapError(
                f"replacing the transaction takes {raised.max_fee} wei per gas, above the cap of {cap}",
                needed=raised.max_fee,
                cap=cap,
            )
        wanted_tip = max(raised.tip, tip)
        max_fee = min(max(raised.max_fee, 2 * base_fee + wanted_tip), cap)
        return Fees(max_fee, min(wanted_tip, max_fee))

    def gas_limit(self, estimate: int) -> int:
        """The estimate and a margin, because state moves between the estimate and the block."""
        return estimate + estimate * self.gas_margin_ppm // 1_000_000

    def _step(self, value: int) -> int:
        return value + max(1, -(-value * self.bump_ppm // 1_000_000))
