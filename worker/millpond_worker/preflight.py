"""What `init` checks before it sends its first transaction: everything that would stop it half-way, found at once."""

from __future__ import annotations

from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32
from millpond.protocol.units import format_amount
from millpond_worker.devices.port import DeviceInfo
from millpond_worker.doctor import FAIL, Check
from millpond_worker.errors import SetupError
from millpond_worker.plan import Plan, missing_deposit, missing_steps
from millpond_worker.standing import Contracts, Standing, kind_number

GAS_PER_STEP = 200_000
"""Above the dearest step: a deposit took 111,464 on a development chain."""


def check_all(found: Contracts, standing: Standing, plan: Plan, gas_price: int) -> None:
    """Raises `SetupError` that names everything which is missing. `gas_price` is the most a transaction offers, wei per gas."""
    problems = find_problems(found, standing, plan, gas_price)
    if not problems:
        return
    raise SetupError(
        "nothing was sent: " + "; ".join(f"{item.id}: {item.measured}, needed: {item.needed}" for item in problems),
        findings=[{"id": item.id, "measured": item.measured, "needed": item.needed} for item in problems],
        remedy=" ".join(dict.fromkeys(item.remedy for item in problems)),
    )


def find_problems(found: Contracts, standing: Standing, plan: Plan, gas_price: int) -> list[Check]:
    """In the order a newcomer mends them."""
    checks = [_stake(found, standing, plan), _gas(standing, plan, gas_price)]
    for device, info in plan.devices.items():
        checks += [_same_device(standing, device, info), _free_device(standing, device, info, found.controller.address)]
    return [check for check in checks if check is not None]


def _stake(found: Contracts, standing: Standing, plan: Plan) -> Check | None:
    missing = missing_deposit(standing, plan)
    if missing <= standing.wallet:
        return None
    return Check(
        "stake",
        FAIL,
        f"{plan.owner} holds {_amount(found, standing.wallet)}",
        f"{_amount(found, missing)} more stake for {_amount(found, plan.stake)} in all",
        f"Send {_amount(found, missing - standing.wallet)} to {plan.owner}, or stake less with --stake.",
    )


def _gas(standing: Standing, plan: Plan, gas_price: int) -> Check | None:
    steps = missing_steps(standing, plan)
    needed = steps.count * GAS_PER_STEP * gas_price + steps.grant_wei
    if standing.owner_gas >= needed:
        return None
    return Check(
        "gas",
        FAIL,
        f"{plan.owner} holds {format_amount(standing.owner_gas, 18)} of the chain's coin",
        f"{format_amount(needed, 18)} for {steps.count} transactions, {format_amount(steps.grant_wei, 18)} of it for the worker's key",
        f"Send {format_amount(needed - standing.owner_gas, 18)} of the chain's coin to {plan.owner}.",
    )


def _same_device(standing: Standing, device: Bytes32, info: DeviceInfo) -> Check | None:
    known = standing.registered.get(device)
    if known is None or (known.memoryMiB, known.kind) == (info.memory_mib, kind_number(info)):
        return None
    return Check(
        "device",
        FAIL,
        f"the chain has {known.memoryMiB} MiB of kind {known.kind} for {info.name}",
        f"{info.memory_mib} MiB of kind {kind_number(info)}, as this machine says",
        f"Set memory_mib = {known.memoryMiB} in worker.toml, or give the device another label.",
    )


def _free_device(standing: Standing, device: Bytes32, info: DeviceInfo, pool: Address) -> Check | None:
    known = standing.registered.get(device)
    if known is None or known.pool in (ZERO_ADDRESS, pool):
        return None
    needed, remedy = "in no pool", "Take it out with `Devices.leave` first."
    return Check("device", FAIL, f"{info.name} is in the pool {known.pool}", needed, remedy)


def _amount(found: Contracts, value: int) -> str:
    return f"{format_amount(value, found.decimals)} {found.symbol}"
