"""What `init` is to bring about for a provider, and how much of it the chain does not show yet. Amounts in base units, gas in wei."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32
from millpond_worker.devices.port import DeviceInfo
from millpond_worker.standing import Standing

GAS_LEAST_WEI = 10**16
GAS_GRANT_WEI = 5 * 10**16


@dataclass(frozen=True, slots=True)
class Plan:
    """`payout` None keeps what is registered, at first the owner; `stake` is the active provision wanted."""

    owner: Address
    operator: Address
    payout: Address | None
    devices: Mapping[Bytes32, DeviceInfo]
    stake: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Transactions that are still to be sent, and what of the owner's coin goes to the operator."""

    count: int
    grant_wei: int


def missing_deposit(standing: Standing, plan: Plan) -> int:
    return max(0, plan.stake - standing.active - standing.idle)


def gas_grant(standing: Standing) -> int:
    return 0 if standing.operator_gas >= GAS_LEAST_WEI else GAS_GRANT_WEI


def missing_steps(standing: Standing, plan: Plan) -> Missing:
    deposit, grant, now = missing_deposit(standing, plan), gas_grant(standing), standing.provider
    known = [standing.registered.get(device) for device in plan.devices]
    steps = [
        now is None or now.operator != plan.operator,
        now is not None and plan.payout not in (None, now.payout),
        grant > 0,
        standing.allowance < deposit,
        deposit > 0,
        plan.stake > standing.active,
        *(item is None for item in known),
        *(item is None or item.pool == ZERO_ADDRESS for item in known),
    ]
    return Missing(sum(steps), grant)
