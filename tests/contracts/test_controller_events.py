"""C44: what the views tell can be rebuilt from events alone."""

from typing import Any

import brownie
from system import DAY, DURATION, PRICE, System, opened, sign, warp


def new_device(event: Any) -> dict[str, Any]:
    return {
        "provider": event["provider"],
        "offerEpoch": 0,
        "kind": event["kind"],
        "memoryMiB": event["memoryMiB"],
        "stint": 0,
        "pool": brownie.ZERO_ADDRESS,
        "usedShare": 0,
        "usedMemoryMiB": 0,
        "latestEnd": 0,
        "isDraining": False,
        "model": event["model"],
    }


def empty(device: dict[str, Any]) -> None:
    device["stint"] += device["usedShare"] > 0
    device |= {
        "pool": brownie.ZERO_ADDRESS,
        "usedShare": 0,
        "usedMemoryMiB": 0,
        "latestEnd": 0,
        "isDraining": False,
    }


def fold_device(devices: dict[str, Any], name: str, event: Any) -> None:
    if name == "DeviceRegistered":
        devices[str(event["device"])] = new_device(event)
        return
    device = devices[str(event["device"])]
    match name:
        case "DeviceJoined":
            device["pool"] = event["pool"]
        case "DeviceLeft":
            empty(device)
        case "DeviceDraining":
            device["isDraining"] = event["isDraining"]
        case "OffersCancelled":
            device["offerEpoch"] = event["epoch"]
        case "SliceReserved":
            device["usedShare"] += event["share"]
            device["usedMemoryMiB"] += event["memoryMiB"]
            device["latestEnd"] = max(device["latestEnd"], event["until"])
        case "SliceResized":
            device["usedShare"] += event["share"] - event["previousShare"]
            device["usedMemoryMiB"] += event["memoryMiB"] - event["previousMemoryMiB"]
        case "SliceReleased":
            device["usedShare"] -= event["share"]
            device["usedMemoryMiB"] -= event["memoryMiB"]


def new_lease(event: Any, terms: dict[str, Any], stint: int) -> dict[str, Any]:
    return {
        "device": event["device"],
        "share": terms["share"],
        "memoryMiB": terms["memoryMiB"],
        "notice": min(terms["notice"], event["endsAt"] - event["openedAt"]),
        "status": 1,
        "noticeEndsAt": 0,
        "closedAt": 0,
        "exposure": terms["pricePerSecond"] * (event["endsAt"] - event["openedAt"]),
        "stint": stint,
        "demandedAt": 0,
        "collectedAtDemand": 0,
    }


def fold_lease(leases: dict[str, Any], devices: dict[str, Any], fields: list[str], name: str, event: Any) -> None:
    if name == "LeaseOpened":
        terms = dict(zip(fields, event["terms"], strict=True))
        stint = devices[str(event["device"])]["stint"]
        leases[str(event["lease"])] = new_lease(event, terms, stint)
        return
    lease = leases[str(event["lease"])]
    match name:
        case "LeaseResized":
            lease |= {key: event[key] for key in ("share", "memoryMiB")}
            lease |= {"exposure": event["pricePerSecond"] * DURATION, "demandedAt": 0}
        case "LeaseNoticed":
            lease["noticeEndsAt"] = event["endsAt"]
        case "PaymentDemanded":
            lease |= {"demandedAt": event["answerBy"] - 900, "collectedAtDemand": event["collected"]}
        case "LeaseClosed":
            lease |= {"status": 2, "closedAt": event["at"]}
        case "ExposureReleased":
            lease["status"] = 3


def replay(system: System) -> tuple[dict[str, Any], dict[str, Any]]:
    devices: dict[str, Any] = {}
    leases: dict[str, Any] = {}
    fields = list(system.offer())
    for tx in brownie.history:
        for event in tx.events if tx.status == 1 else []:
            if event.address == system.devices.address and "device" in event:
                fold_device(devices, event.name, event)
            elif event.address == system.pool.address and "lease" in event:
                fold_lease(leases, devices, fields, event.name, event)
    return devices, leases


def check(system: System) -> None:
    devices, leases = replay(system)
    assert devices
    assert leases
    for device, expected in devices.items():
        assert system.devices.deviceOf(device).dict() == expected
    for lease, expected in leases.items():
        assert system.pool.leaseOf(lease).dict() == expected


def test_C44_events_wholeStory_rebuildDevicesAndLeases(system: System) -> None:
    by_operator, by_owner = {"from": system.operator}, {"from": system.provider}
    closed = opened(system.open())
    demanded = opened(system.open())
    check(system)
    warp(100)
    system.escrow.collect(system.pool, demanded, PRICE, system.voucher(demanded, PRICE), by_operator)
    system.pool.demandPayment(demanded, by_operator)
    resized = {"lease": demanded, "share": 10, "memoryMiB": 20, "pricePerSecond": 3, "sequence": 0, "deadline": 2**63}
    signature = sign("Resize", resized, system.escrow.address, system.renter)
    system.pool.resizeLease(tuple(resized.values()), signature, by_operator)
    check(system)
    system.pool.giveNotice(demanded, by_operator)
    system.pool.closeLease(closed, {"from": system.renter})
    system.devices.cancelOffers(system.device, by_operator)
    system.devices.setDraining(system.device, True, by_owner)
    check(system)
    warp(DURATION + DAY)
    system.devices.leave(system.device, by_owner)
    system.devices.join(system.device, system.pool, by_owner)
    system.pool.closeLease(demanded, {"from": system.stranger})
    system.open()
    warp(3 * DAY)
    system.pool.releaseExposure(closed, {"from": system.stranger})
    check(system)
