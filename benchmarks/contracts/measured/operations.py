"""The operations whose gas has a ceiling, each as a real transaction in the state its name says."""

from __future__ import annotations

from millpond.chain.bindings.structs import SlashSplit
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_ADDRESS, ZERO_BYTES32, Bytes32, bytes32

from .world import (
    DURATION,
    MODEL,
    NODE,
    OPERATOR,
    PAYOUT,
    PRICE,
    PROVIDER,
    RELAYER,
    RENTER,
    SLASHER,
    STAKE,
    World,
)

BATCH = 32


async def measure(world: World) -> dict[str, int]:
    """Gas by operation. "first": every slot the operation writes is still empty."""
    gas = {"create_pool": await world.create_pool(b"second")}
    devices = await _enter(world, gas)
    leases = await _lease(world, gas, devices)
    await _collect(world, gas, leases)
    await _withdraw(world, gas, leases[1])
    await _slash(world, gas)
    await _attest(world, gas)
    return gas


async def _enter(world: World, gas: dict[str, int]) -> list[Bytes32]:
    staking, devices, who = world.core.staking, world.core.devices, PROVIDER.address
    gas["register_provider"] = await world.send(who, devices.register_provider(OPERATOR.address, PAYOUT.address))
    found = []
    for key in ("register_device_first", "register_device"):
        uuid_hash, device = world.device(key.encode())
        gas[key] = await world.send(who, devices.register_device(uuid_hash, 1, 80_000, MODEL))
        found.append(device)
    gas["stake"] = await world.send(who, staking.deposit(world.token.address, STAKE))
    gas["provision"] = await world.provision()
    gas["thaw"] = await world.send(who, staking.thaw(world.pool.address, STAKE // 100))
    for device in found:
        gas["join_pool"] = await world.send(who, devices.join(device, world.pool.address))
    return found


async def _lease(world: World, gas: dict[str, int], devices: list[Bytes32]) -> list[Bytes32]:
    leases = []
    for index in range(BATCH + 2):
        lease, used = await world.open_lease(devices[0])
        leases.append(lease)
        if index < 2:
            gas["open_lease" if index else "open_lease_first"] = used
    return leases


async def _collect(world: World, gas: dict[str, int], leases: list[Bytes32]) -> None:
    await world.skip(DURATION // 2)
    await world.resize(leases[1], 30, 2 * PRICE, 0)
    gas["resize_lease"] = await world.resize(leases[1], 40, 3 * PRICE, 1)
    gas["collect_voucher_first"] = await world.collect(leases[0], 10 * PRICE)
    gas["collect_voucher"] = await world.collect(leases[0], 20 * PRICE)
    for lease in leases[2:]:
        await world.collect(lease, 10 * PRICE)
    batch = world.core.escrow.collect_many([world.claim(lease, 20 * PRICE) for lease in leases[2:]])
    used = await world.send(RELAYER.address, batch)
    gas["collect_voucher_batch32_each"] = -(-used // BATCH)
    gas["close_lease"] = await world.send(RENTER.address, world.pool.close_lease(leases[0]))


async def _withdraw(world: World, gas: dict[str, int], lease: Bytes32) -> None:
    """The dearest of a payee's, a renter's and a provider's withdrawal, each to an account that holds the token."""
    escrow, staking, token = world.core.escrow, world.core.staking, world.token.address
    await world.send(RELAYER.address, escrow.withdraw_owed(token, PAYOUT.address))
    await world.collect(lease, 10 * PRICE)
    owed = await world.send(RELAYER.address, escrow.withdraw_owed(token, PAYOUT.address))
    await world.send(RENTER.address, escrow.notice_withdrawal(token, PRICE))
    await world.skip(900)
    free = await world.send(RENTER.address, escrow.withdraw(token, RENTER.address))
    staked = await world.send(PROVIDER.address, staking.withdraw(token, PRICE, PROVIDER.address))
    gas["withdraw"] = max(owed, free, staked)


async def _slash(world: World, gas: dict[str, int]) -> None:
    """`slash_first` credits a renter and a challenger for the first time; the token was slashed before."""
    staking, who = world.core.staking, SLASHER.address
    nobody = SlashSplit(ZERO_ADDRESS, 0, ZERO_ADDRESS, 0)
    payees = SlashSplit(RENTER.address, STAKE, RELAYER.address, STAKE)
    for name, split in (("warm", nobody), ("slash", nobody), ("slash_first", payees)):
        offence = bytes32(keccak256(name.encode()))
        freeze = staking.freeze(world.pool.address, PROVIDER.address, offence, await world.now(), STAKE // 100)
        await world.send(who, freeze)
        gas[name] = await world.send(who, staking.slash(offence, STAKE // 200, split))
    del gas["warm"]


async def _attest(world: World, gas: dict[str, int]) -> None:
    root = bytes32(keccak256(b"root"))
    call = world.core.attestations.post_receipts(world.pool.address, root, 10_000, ZERO_BYTES32)
    gas["attest_batch"] = await world.send(NODE.address, call)
