"""The pool's entry rules as the chain will judge them: when a device joins, when stake is provisioned, when a lease opens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from millpond.chain.bindings.structs import PoolParams, Provision
from millpond.protocol.ids import ZERO_ADDRESS, Address, Bytes32
from millpond.protocol.units import format_amount
from millpond_worker.devices.port import DeviceInfo
from millpond_worker.doctor import FAIL, OK, WARN, Check
from millpond_worker.plan import Plan
from millpond_worker.preflight import find_problems
from millpond_worker.standing import Contracts, Standing, kind_number

INIT = "Run `millpond-worker init`."
DAY_S = 86_400


async def entry_checks(found: Contracts, standing: Standing, plan: Plan) -> list[Check]:
    """Raises the errors of `Rpc`."""
    pool = found.controller.address
    paused_until, provision, header = await asyncio.gather(
        found.controller.paused_until(), found.staking.provision_of(pool, plan.owner), found.eth.header()
    )
    now = header.timestamp if header else 0
    checks = [
        paused_check(paused_until, now),
        terms_check(provision, found.params),
        retired_check(standing),
        *(device_spec_check(standing, device, info) for device, info in plan.devices.items()),
        join_check(found, standing, plan.devices),
        Check("licence", OK, "none is asked for: entry is by stake alone", "none"),
    ]
    return checks + list(_owner_checks(found, standing, plan, header.base_fee if header else 0))


def paused_check(paused_until: int, now: int) -> Check:
    needed = "a pool that is not paused"
    if paused_until <= now:
        return Check("paused", OK, "not paused", needed)
    return Check(
        "paused",
        FAIL,
        f"paused for {paused_until - now} s more: no device joins, no lease opens",
        needed,
        "Wait; running leases go on. Ask the pool's owner why.",
    )


def terms_check(provision: Provision, params: PoolParams) -> Check:
    """The terms a provision was made with, which the pool cannot change; none yet: those it would get."""
    wanted = f"slasher {params.slasher}, thaw {_days(params.thawPeriod)}"
    if provision.slasher == ZERO_ADDRESS:
        return Check("terms", OK, f"no provision yet; it would be held under: {wanted}", wanted)
    held = f"slasher {provision.slasher}, thaw {_days(provision.thawPeriod)}"
    if (provision.slasher, provision.thawPeriod) != (params.slasher, params.thawPeriod):
        return Check(
            "terms", FAIL, held, wanted, "Leave with `millpond-worker exit`, then run `millpond-worker init` anew."
        )
    return Check("terms", OK, held, wanted)


def retired_check(standing: Standing) -> Check:
    if standing.is_retired:
        return Check(
            "retired",
            FAIL,
            "the provider is leaving this pool: no lease opens on it",
            "a provider that stays",
            "Finish with `millpond-worker exit`; to come back, run `millpond-worker init` afterwards.",
        )
    return Check("retired", OK, "not leaving", "a provider that stays")


def device_spec_check(standing: Standing, device: Bytes32, info: DeviceInfo) -> Check:
    """Kind and memory on chain bound every lease; a registration cannot be changed."""
    needed = f"kind {kind_number(info)}, {info.memory_mib} MiB, as this machine says"
    known = standing.registered.get(device)
    if known is None:
        return Check("spec", OK, f"{info.name}: not registered yet", needed)
    measured = f"{info.name}: kind {known.kind}, {known.memoryMiB} MiB"
    if known.kind != kind_number(info) or known.memoryMiB > info.memory_mib:
        remedy = f"Set memory_mib = {known.memoryMiB} in worker.toml, or give the device another label."
        return Check("spec", FAIL, measured, needed, remedy)
    return Check("spec", OK if known.memoryMiB == info.memory_mib else WARN, measured, needed)


def join_check(found: Contracts, standing: Standing, devices: Mapping[Bytes32, DeviceInfo]) -> Check:
    """A device that is to join needs the pool's least provision, unreserved, at that moment."""
    least, pool = found.params.minProvision, found.controller.address
    needed = f"{_amount(found, least)} unreserved when a device joins"
    measured = f"{_amount(found, standing.unreserved)} unreserved"
    inside = all(_pool(standing, device) == pool for device in devices)
    if inside or standing.unreserved >= least:
        return Check("join", OK, f"{measured}{', every device is in' if inside else ''}", needed)
    return Check("join", FAIL, measured, needed, f"{INIT} It provisions the stake before devices join.")


def _owner_checks(found: Contracts, standing: Standing, plan: Plan, base_fee: int) -> Iterator[Check]:
    """What would stop `init` before its first transaction."""
    for item in find_problems(found, standing, plan, 2 * base_fee):
        if item.id in ("stake", "gas"):
            yield Check(f"owner_{item.id}", FAIL, item.measured, item.needed, item.remedy)


def _pool(standing: Standing, device: Bytes32) -> Address:
    known = standing.registered.get(device)
    return known.pool if known is not None else ZERO_ADDRESS


def _days(seconds: int) -> str:
    return f"{seconds / DAY_S:g} days"


def _amount(found: Contracts, value: int) -> str:
    return f"{format_amount(value, found.decimals)} {found.symbol}"
