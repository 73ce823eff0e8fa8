"""Makes a provider ready in a pool: register, stake, provision, join. Each step is skipped where the chain shows it done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from millpond.chain.calls import Call
from millpond.chain.outbox import LIVE
from millpond.chain.sender import DEFAULT_TIP
from millpond.chain.transactor import Transactor
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import ZERO_ADDRESS, Bytes32, bytes32, device_uuid_hash
from millpond_worker.plan import Plan, gas_grant, missing_deposit
from millpond_worker.preflight import check_all
from millpond_worker.standing import Contracts, Standing, kind_number, read_standing

WAIT_S = 180.0


@dataclass(frozen=True, slots=True)
class Done:
    """A step: its transaction, or none where it had been done before."""

    step: str
    tx: Bytes32 | None = None
    gas_used: int = 0
    block: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    label: str
    call: Call | None


async def prepare(found: Contracts, transactor: Transactor, plan: Plan) -> AsyncIterator[Done]:
    """Does what is missing, one transaction after the other, and tells of each. Repeating it changes nothing.

    Raises `SetupError`, with nothing sent, where something only its owner can mend; `ContractRevertError` kinds.
    """
    await finish_earlier(transactor)
    standing = await read_standing(found, plan.owner, plan.operator, list(plan.devices))
    check_all(found, standing, plan, await _gas_price(found, transactor))
    for number in range(len(_STEPS)):
        standing = await read_standing(found, plan.owner, plan.operator, list(plan.devices))
        for step in _STEPS[number](found, standing, plan):
            yield await send_step(transactor, step)


async def _gas_price(found: Contracts, transactor: Transactor) -> int:
    """The most that a transaction sent now would offer, wei per gas."""
    header = await found.eth.header()
    return transactor.config.fees.offer(header.base_fee if header else 0, DEFAULT_TIP).max_fee


async def send_step(transactor: Transactor, step: Step) -> Done:
    """Sends a step's transaction and waits until it is mined. Raises `ContractRevertError` kinds."""
    if step.call is None:
        return Done(step.label)
    key = f"init:{transactor.count}:{step.label}"
    receipt = await (await transactor.send_call(key, step.call)).mined(WAIT_S)
    return Done(step.label, receipt.tx_hash, receipt.gas_used, receipt.block_number)


async def finish_earlier(transactor: Transactor) -> None:
    """Transactions of a run that was cut off are mined before the chain is asked what is done."""
    for row in transactor.rows():
        handle = transactor.handle(row.key)
        if row.state in LIVE and handle is not None:
            await handle.mined(WAIT_S)


def _register(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    now = standing.provider
    if now is None:
        return [Step("register provider", found.devices.register_provider(plan.operator, plan.payout or plan.owner))]
    operator = found.devices.set_operator(plan.operator) if now.operator != plan.operator else None
    payout = found.devices.set_payout(plan.payout) if plan.payout and plan.payout != now.payout else None
    return [
        Step("set operator" if operator else "register provider", operator),
        *([Step("set payout", payout)] if payout else []),
    ]


def _gas(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    wei = gas_grant(standing)
    return [Step("gas for the operator", Call(plan.operator, b"", "fund operator", wei) if wei else None)]


def _register_devices(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    steps = []
    for device, info in plan.devices.items():
        known = standing.registered.get(device)
        model = bytes32(sha256(info.name.encode()))
        call = found.devices.register_device(device_uuid_hash(info.uuid), kind_number(info), info.memory_mib, model)
        steps.append(Step(f"register device {info.name}", None if known else call))
    return steps


def _approve(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    missing = missing_deposit(standing, plan)
    call = found.token.approve(found.staking.address, missing) if standing.allowance < missing else None
    return [Step("allow the stake", call)]


def _deposit(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    missing = missing_deposit(standing, plan)
    return [Step("deposit stake", found.staking.deposit(found.params.token, missing) if missing else None)]


def _provision(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    missing = max(0, plan.stake - standing.active)
    terms = found.params
    call = found.staking.provision(found.controller.address, missing, terms.slasher, terms.thawPeriod)
    return [Step("provision stake to the pool", call if missing else None)]


def _join(found: Contracts, standing: Standing, plan: Plan) -> list[Step]:
    steps = []
    for device, info in plan.devices.items():
        pool = standing.registered[device].pool
        call = found.devices.join(device, found.controller.address) if pool == ZERO_ADDRESS else None
        steps.append(Step(f"join the pool with {info.name}", call))
    return steps


_STEPS = (_register, _gas, _register_devices, _approve, _deposit, _provision, _join)
