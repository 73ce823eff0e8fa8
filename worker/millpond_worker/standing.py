"""How a provider stands on chain: registration, devices, stake, gas; read once, judged by `init` and `doctor`. Amounts in base units."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millpond.chain.bindings import Controller, Devices, MockToken, Staking
from millpond.chain.bindings.structs import Device, PoolParams, Provider
from millpond.chain.eth import Eth
from millpond.chain.reverts import ContractRevertError
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.units import PPM, SHARE_FULL
from millpond_worker.devices.port import DeviceInfo
from millpond_worker.offers import OfferTemplate, exposure_of


@dataclass(frozen=True, slots=True)
class Contracts:
    """The contracts a provider deals with, and the pool's rules."""

    eth: Eth
    controller: Controller
    devices: Devices
    staking: Staking
    token: MockToken
    params: PoolParams
    escrow: Address
    decimals: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Standing:
    """`registered` maps device ids to what the chain has of them. `gas` is wei held by the operator."""

    provider: Provider | None
    registered: Mapping[Bytes32, Device]
    idle: int
    active: int
    unreserved: int
    is_retired: bool
    wallet: int
    allowance: int
    owner_gas: int
    operator_gas: int


async def open_contracts(eth: Eth, pool: Address) -> Contracts:
    """Raises the errors of `Rpc`, and `ContractRevertError` kinds where `pool` is no pool."""
    controller = Controller(eth, pool)
    params, devices, staking, escrow = await asyncio.gather(
        controller.params(), controller.devices(), controller.staking(), controller.escrow()
    )
    token = MockToken(eth, params.token)
    decimals, symbol = await asyncio.gather(token.decimals(), token.symbol())
    return Contracts(
        eth, controller, Devices(eth, devices), Staking(eth, staking), token, params, escrow, decimals, symbol
    )


async def read_standing(found: Contracts, owner: Address, operator: Address, devices: Sequence[Bytes32]) -> Standing:
    pool, token = found.controller.address, found.params.token
    provision = await found.staking.provision_of(pool, owner)
    idle, unreserved, wallet, allowance, owner_gas, operator_gas = await asyncio.gather(
        found.staking.idle(token, owner),
        found.staking.unreserved(pool, owner),
        found.token.balance_of(owner),
        found.token.allowance(owner, found.staking.address),
        found.eth.balance(owner),
        found.eth.balance(operator),
    )
    known = await asyncio.gather(*(_device(found, device) for device in devices))
    return Standing(
        provider=await _provider(found, owner),
        registered={device: item for device, item in zip(devices, known, strict=True) if item is not None},
        idle=idle,
        active=provision.active,
        unreserved=unreserved,
        is_retired=provision.retiredAt != 0,
        wallet=wallet,
        allowance=allowance,
        owner_gas=owner_gas,
        operator_gas=operator_gas,
    )


def stake_for(templates: Sequence[OfferTemplate], params: PoolParams) -> int:
    """Enough stake for every device to be always full of its dearest slices, and no less than the pool demands.

    A lease's exposure stays reserved through the claim and dispute windows, so those seconds count too.
    """
    per_second: dict[Bytes32, int] = {}
    for item in templates:
        whole = -(-item.price * SHARE_FULL // item.slice.share_per_mille)
        per_second[item.device] = max(per_second.get(item.device, 0), whole)
    longest = max((item.max_duration for item in templates), default=0)
    seconds = longest + params.claimWindow + params.disputeWindow
    return max(params.minProvision, -(-sum(per_second.values()) * seconds * params.exposurePpm // PPM))


def kind_number(info: DeviceInfo) -> int:
    """`Devices.registerDevice`'s `kind`: 0 cpu, 1 nvidia."""
    return 0 if info.kind.value == "cpu" else 1


def largest_exposure(templates: Sequence[OfferTemplate], params: PoolParams) -> int:
    """Stake that the dearest single lease of the offers reserves."""
    return exposure_of(templates, params.exposurePpm)


async def _provider(found: Contracts, owner: Address) -> Provider | None:
    try:
        return await found.devices.provider_of(owner)
    except ContractRevertError:
        return None


async def _device(found: Contracts, device: Bytes32) -> Device | None:
    try:
        return await found.devices.device_of(device)
    except ContractRevertError:
        return None
