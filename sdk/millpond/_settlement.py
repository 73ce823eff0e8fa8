"""What a lease cost."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.protocol.ids import Bytes32


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a lease's earmark, token base units: `earmark = paid + fee + burnt + refunded`, read from the chain."""

    lease: Bytes32
    earmark: int
    paid: int
    fee: int
    burnt: int
    refunded: int
    is_settled: bool
