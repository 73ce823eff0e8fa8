"""Providers, devices and the slice ledger, as their owner and their pool use them."""

import brownie
from system import DAY, DURATION, MEMORY, MODEL, SHARE, System, refuses, warp

FIRST_CEILINGS = {"provider": 150_000, "device": 135_000}
CEILINGS = {"device": 120_000, "join": 90_000}


def test_registerProvider_newcomer_keepsKeys(system: System) -> None:
    tx = system.devices.registerProvider(system.operator, system.payout, {"from": system.stranger})
    assert dict(tx.events["ProviderRegistered"]) == {
        "provider": system.stranger,
        "operator": system.operator,
        "payout": system.payout,
    }
    assert system.devices.providerOf(system.stranger).dict() == {
        "operator": system.operator,
        "payout": system.payout,
    }
    assert tx.gas_used <= FIRST_CEILINGS["provider"]


def test_registerProvider_operatorIsOwner_reverts(system: System) -> None:
    with refuses("DevicesKeysNotApart", system.stranger):
        system.devices.registerProvider(system.stranger, system.payout, {"from": system.stranger})


def test_C39_setOperator_owner_deniesOldKey(system: System) -> None:
    tx = system.devices.setOperator(system.stranger, {"from": system.provider})
    assert tx.events["OperatorChanged"]["previous"] == system.operator
    assert system.devices.isOperator(system.provider, system.stranger)
    assert not system.devices.isOperator(system.provider, system.operator)
    with refuses("DevicesNotProvider", system.operator, system.provider):
        system.devices.cancelOffers(system.device, {"from": system.operator})


def test_setPayout_owner_changes(system: System) -> None:
    tx = system.devices.setPayout(system.stranger, {"from": system.provider})
    assert tx.events["PayoutChanged"]["payout"] == system.stranger
    assert system.devices.providerOf(system.provider)["payout"] == system.stranger


def test_registerDevice_owner_isUnusedAndNowhere(system: System) -> None:
    uuid_hash = "0x" + "ab" * 32
    tx = system.devices.registerDevice(uuid_hash, 0, 2_048, MODEL, {"from": system.provider})
    device = tx.return_value
    assert device == system.devices.deviceId(system.provider, uuid_hash)
    record = system.devices.deviceOf(device)
    assert (record["provider"], record["kind"], record["memoryMiB"]) == (system.provider, 0, 2_048)
    assert int(record["pool"], 16) == record["usedShare"] == record["usedMemoryMiB"] == 0
    assert tx.gas_used <= CEILINGS["device"]


def test_D07_join_secondPool_reverts(system: System) -> None:
    other = system.create_pool("other")
    with refuses("DevicesInPool", system.device, system.pool.address):
        system.devices.join(system.device, other, {"from": system.provider})


def test_join_owner_entersPool(system: System) -> None:
    device = system.register_device("gpu-1")
    tx = system.devices.join(device, system.pool, {"from": system.provider})
    assert tx.events["DeviceJoined"]["pool"] == system.pool.address
    standing = system.devices.standingOf(device)
    assert (standing["pool"], standing["operator"]) == (system.pool.address, system.operator)
    assert tx.gas_used <= CEILINGS["join"]


def test_leave_leased_revertsUntilClosed(system: System, lease: str) -> None:
    free_at = system.devices.deviceOf(system.device)["latestEnd"] + DAY
    with refuses("DevicesInUse", system.device, SHARE, free_at):
        system.devices.leave(system.device, {"from": system.provider})
    system.pool.closeLease(lease, {"from": system.renter})
    tx = system.devices.leave(system.device, {"from": system.provider})
    assert tx.events["DeviceLeft"]["pool"] == system.pool.address


def test_C43_leave_leaseNeverClosed_ownerExitsADayAfterItsEnd(system: System, lease: str) -> None:
    system.devices.setDraining(system.device, True, {"from": system.provider})
    warp(DURATION + DAY)
    system.devices.leave(system.device, {"from": system.provider})
    assert system.devices.deviceOf(system.device)["stint"] == 1
    system.pool.closeLease(lease, {"from": system.stranger})
    assert system.devices.deviceOf(system.device)["usedShare"] == 0


def test_cancelOffers_operator_raisesEpoch(system: System) -> None:
    tx = system.devices.cancelOffers(system.device, {"from": system.operator})
    assert tx.events["OffersCancelled"]["epoch"] == 1
    assert system.devices.deviceOf(system.device)["offerEpoch"] == 1


def test_C17_ledger_stranger_reverts(system: System, lease: str) -> None:
    by_stranger = {"from": system.stranger}
    with refuses("DevicesNotInPool", system.device, system.stranger):
        system.devices.reserve(system.device, 1, 1, brownie.chain.time(), by_stranger)
    with refuses("DevicesNotInPool", system.device, system.stranger):
        system.devices.release(system.device, SHARE, MEMORY, 0, by_stranger)
    with refuses("DevicesNotInPool", system.device, system.stranger):
        system.devices.reslice(system.device, 0, SHARE, MEMORY, 1, 1, by_stranger)
    assert system.devices.deviceOf(system.device)["usedShare"] == SHARE
