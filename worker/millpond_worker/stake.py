"""How much of a provider's stake is left for new leases."""

from __future__ import annotations

from dataclasses import dataclass

STAKE_REMEDY = "stake more with `millpond-worker init --stake`, or offer shorter leases (max_duration in worker.toml)"


@dataclass(frozen=True, slots=True)
class Stake:
    """Stake that no lease has reserved, and what the dearest lease offered would reserve, base units."""

    left: int
    dearest: int

    @property
    def is_enough(self) -> bool:
        return self.left >= self.dearest
