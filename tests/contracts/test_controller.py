"""A pool's life as its parties live it: leases opened, ended and settled; ownership, pause, services."""

import brownie
import pytest
from system import (
    DAY,
    DURATION,
    EMPTY,
    FUNDS,
    MEMORY,
    MIN_PROVISION,
    PRICE,
    SHARE,
    STAKE,
    System,
    opened,
    refuses,
    sign,
    struct_hash,
    warp,
)

CLOSE_CEILING = 80_000
OPEN, CLOSED, RELEASED = 1, 2, 3
BY_RENTER, BY_PROVIDER, AT_END, UNPAID = range(4)
KIND = "0x" + "01" * 32


def test_openLease_signedPair_isOneLeaseEverywhere(system: System) -> None:
    offer, request = system.offer(), system.request()
    tx = system.open(offer, request)
    lease = opened(tx)
    assert lease == system.pool.leaseId(struct_hash("Offer", offer), struct_hash("Request", request))
    event = tx.events["LeaseOpened"]
    assert (event["device"], event["renter"], event["endsAt"] - event["openedAt"]) == (
        system.device,
        system.renter,
        DURATION,
    )
    assert tuple(event["terms"]) == tuple(offer.values())
    record = system.pool.leaseOf(lease)
    assert (record["device"], record["share"], record["memoryMiB"]) == (system.device, SHARE, MEMORY)
    assert (record["status"], record["exposure"]) == (OPEN, PRICE * DURATION)
    assert system.pool.liveLeases(system.renter, system.device) == 0, "counted only where an offer has a cap"
    assert system.staking.unreserved(system.pool, system.provider) == STAKE - PRICE * DURATION
    assert system.devices.deviceOf(system.device)["usedShare"] == SHARE
    assert system.escrow.free(system.token, system.renter) == FUNDS - PRICE * (DURATION + 900)


def test_C29_openLease_sameRequestAgain_reverts(system: System) -> None:
    request = system.request()
    system.open(request=request)
    with refuses("EscrowNonceUsed", system.renter, request["nonce"]):
        system.open(request=request)


def test_D09_openLease_notTheSubmitter_reverts(system: System) -> None:
    with refuses("ControllerSubmitterNotAllowed", system.node, system.stranger):
        system.open(request=system.request(submitter=system.stranger.address))


def test_E03_openLease_thirdSliceBeyondDevice_reverts(system: System) -> None:
    system.open(system.offer(share=600, memoryMiB=16_384))
    system.open()
    with refuses("DevicesShareFull", 150, SHARE):
        system.open()


def test_C27_openLease_offerSignedForOtherPool_reverts(system: System) -> None:
    other = system.create_pool("other")
    with refuses("ControllerWrongController", other.address, system.pool.address):
        system.open(system.offer(controller=other.address))


def test_closeLease_renter_endsItAndPaysToTheSecond(system: System, lease: str) -> None:
    warp(1_000)
    tx = system.pool.closeLease(lease, {"from": system.renter})
    closed_at = brownie.chain[tx.block_number]["timestamp"]
    assert dict(tx.events["LeaseClosed"]) == {
        "lease": lease,
        "by": system.renter,
        "reason": BY_RENTER,
        "at": closed_at,
    }
    assert tx.gas_used <= CLOSE_CEILING
    assert system.pool.leaseOf(lease)["closedAt"] == closed_at
    assert system.devices.deviceOf(system.device)["usedShare"] == 0

    earned = 1_000 * PRICE
    system.pool.collectFinal(lease, earned, system.voucher(lease, earned), {"from": system.operator})
    fee = earned * 20_000 // 10**6
    burnt = (earned - fee) * 5_000 // 10**6
    assert system.escrow.owed(system.token, system.payout) == earned - fee - burnt
    assert system.escrow.takings(system.pool, system.token) == (fee, burnt)
    system.escrow.sweep(system.pool, system.token, {"from": system.stranger})
    assert system.escrow.owed(system.token, system.treasury) == fee
    assert system.escrow.burnPending(system.token) == burnt
    assert system.escrow.free(system.token, system.renter) == FUNDS - earned


def test_closeLease_provider_onlyAfterItsNotice(system: System, lease: str) -> None:
    by_operator = {"from": system.operator}
    with refuses("ControllerNoticeMissing", lease):
        system.pool.closeLease(lease, by_operator)
    tx = system.pool.giveNotice(lease, by_operator)
    ends_at = tx.events["LeaseNoticed"]["endsAt"]
    assert ends_at == brownie.chain[tx.block_number]["timestamp"] + 600
    warp(600)
    tx = system.pool.closeLease(lease, by_operator)
    assert tx.events["LeaseClosed"]["reason"] == BY_PROVIDER


def test_C43_closeLease_everybodySilent_strangerEndsItAndMoneyLeaves(system: System, lease: str) -> None:
    with refuses("ControllerNotParty", system.stranger):
        system.pool.closeLease(lease, {"from": system.stranger})
    warp(DURATION)
    tx = system.pool.closeLease(lease, {"from": system.stranger})
    assert tx.events["LeaseClosed"]["reason"] == AT_END
    warp(DAY)
    system.escrow.settle(system.pool, lease, {"from": system.stranger})
    assert system.escrow.free(system.token, system.renter) == FUNDS - 900 * PRICE


def test_D11_closeUnpaid_nobodyPays_freesSliceWithin15Minutes(system: System, lease: str) -> None:
    by_operator = {"from": system.operator}
    with refuses("ControllerNotDemanded", lease):
        system.pool.closeUnpaid(lease, by_operator)
    tx = system.pool.demandPayment(lease, by_operator)
    assert tx.events["PaymentDemanded"]["answerBy"] == brownie.chain[tx.block_number]["timestamp"] + 900
    warp(900)
    tx = system.pool.closeUnpaid(lease, by_operator)
    assert tx.events["LeaseClosed"]["reason"] == UNPAID
    assert system.devices.deviceOf(system.device)["usedShare"] == 0


def test_closeUnpaid_renterPays_reverts(system: System, lease: str) -> None:
    system.pool.demandPayment(lease, {"from": system.operator})
    warp(900)
    paid = 780 * PRICE
    voucher = system.voucher(lease, paid)
    system.escrow.collect(system.pool, lease, paid, voucher, {"from": system.renter})
    with refuses("ControllerDemandAnswered", paid, paid):
        system.pool.closeUnpaid(lease, {"from": system.operator})


def test_releaseExposure_afterWindows_once(system: System, lease: str) -> None:
    system.pool.closeLease(lease, {"from": system.renter})
    warp(3 * DAY - 600)
    with brownie.reverts():
        system.pool.releaseExposure(lease, {"from": system.stranger})
    warp(600)
    tx = system.pool.releaseExposure(lease, {"from": system.stranger})
    assert tx.events["ExposureReleased"]["amount"] == PRICE * DURATION
    assert system.staking.unreserved(system.pool, system.provider) == STAKE
    with refuses("ControllerLeaseNotClosed", lease, RELEASED):
        system.pool.releaseExposure(lease, {"from": system.stranger})


@pytest.mark.parametrize("name", ["giveNotice", "demandPayment", "closeUnpaid"])
def test_C17_providerCalls_stranger_revert(system: System, lease: str, name: str) -> None:
    with refuses("ControllerNotParty", system.stranger):
        getattr(system.pool, name)(lease, {"from": system.stranger})


def test_C18_closeLease_closed_reverts(system: System, lease: str) -> None:
    system.pool.closeLease(lease, {"from": system.renter})
    with refuses("ControllerLeaseNotOpen", lease, CLOSED):
        system.pool.closeLease(lease, {"from": system.renter})


def test_C39_takeOwnership_heir_oldOwnerIsDenied(system: System) -> None:
    system.pool.offerOwnership(system.stranger, {"from": system.pool_owner})
    assert system.pool.heir() == system.stranger
    tx = system.pool.takeOwnership({"from": system.stranger})
    assert tx.events["OwnershipTaken"]["previous"] == system.pool_owner
    assert system.pool.owner() == system.stranger
    with refuses("ControllerNotOwner", system.pool_owner, system.stranger):
        system.pool.setNode(system.pool_owner, {"from": system.pool_owner})


def test_setNode_owner_replacesKey(system: System) -> None:
    tx = system.pool.setNode(system.stranger, {"from": system.pool_owner})
    assert tx.events["NodeChanged"]["previous"] == system.node
    assert system.pool.node() == system.stranger


def test_C38_initialize_again_reverts(system: System) -> None:
    for contract in (system.pool, system.implementation):
        with refuses("ControllerInitialized"):
            contract.initialize(system.stranger, {"from": system.stranger})


def test_C37_pause_owner_stopsOpeningNotClosing(system: System, lease: str) -> None:
    tx = system.pool.pause({"from": system.pool_owner})
    until = tx.events["Paused"]["until"]
    assert system.pool.pausedUntil() == until
    with refuses("ControllerPaused", until):
        system.open()
    system.pool.closeLease(lease, {"from": system.renter})
    system.pool.unpause({"from": system.pool_owner})
    assert system.pool.pausedUntil() == 0
    system.open()


def test_D16_pause_beforeInterval_reverts(system: System) -> None:
    system.pool.pause({"from": system.pool_owner})
    warp(8 * DAY)
    with brownie.reverts():
        system.pool.pause({"from": system.pool_owner})
    warp(22 * DAY)
    system.pool.pause({"from": system.pool_owner})


def test_onDeviceJoin_stakeBelowLeast_reverts(system: System) -> None:
    system.staking.thaw(system.pool, STAKE - MIN_PROVISION + 1, {"from": system.provider})
    device = system.register_device("gpu-1")
    with refuses("ControllerProvisionBelow", MIN_PROVISION - 1, MIN_PROVISION):
        system.devices.join(device, system.pool, {"from": system.provider})
    with refuses("ControllerNotDevices", system.provider, system.devices):
        system.pool.onDeviceJoin(device, system.provider, {"from": system.provider})


def test_announce_node_isFoundUntilWithdrawnOrExpired(system: System) -> None:
    tx = system.pool.announce(KIND, "https://a", EMPTY, 3_600, {"from": system.node})
    assert tx.events["ServiceAnnounced"]["uri"] == "https://a"
    assert system.pool.serviceOf(system.node, KIND)["uri"] == "https://a"
    warp(3_600)
    assert system.pool.serviceOf(system.node, KIND)["expiresAt"] == 0
    system.pool.announce(KIND, "https://b", EMPTY, 3_600, {"from": system.node})
    tx = system.pool.withdrawService(KIND, {"from": system.node})
    assert tx.events["ServiceWithdrawn"]["kind"] == KIND
    assert system.pool.serviceOf(system.node, KIND)["uri"] == ""


def test_announce_stranger_reverts(system: System) -> None:
    with refuses("ControllerProvisionBelow", 0, MIN_PROVISION):
        system.pool.announce(KIND, "https://a", EMPTY, 3_600, {"from": system.stranger})


def test_setMetadata_owner_keepsDigest(system: System) -> None:
    tx = system.pool.setMetadata(KIND, "ipfs://x", {"from": system.pool_owner})
    assert dict(tx.events["MetadataSet"]) == {"digest": KIND, "uri": "ipfs://x"}
    assert system.pool.metadataDigest() == KIND


def test_resizeLease_larger_ledgerExposureAndPriceFollow(system: System, lease: str) -> None:
    resize = {
        "lease": lease,
        "share": SHARE + 50,
        "memoryMiB": MEMORY + 1,
        "pricePerSecond": 2 * PRICE,
        "sequence": 0,
        "deadline": 2**64 - 1,
    }
    signature = sign("Resize", resize, system.escrow.address, system.renter)
    with refuses("ControllerNotParty", system.stranger):
        system.pool.resizeLease(tuple(resize.values()), signature, {"from": system.stranger})
    tx = system.pool.resizeLease(tuple(resize.values()), signature, {"from": system.operator})
    assert tx.events["LeaseResized"]["share"] == SHARE + 50
    assert tx.events["SliceResized"]["previousShare"] == SHARE
    assert system.devices.deviceOf(system.device)["usedShare"] == SHARE + 50
    assert system.pool.leaseOf(lease)["memoryMiB"] == MEMORY + 1
    assert system.pool.leaseOf(lease)["exposure"] == 2 * PRICE * DURATION
    assert system.staking.unreserved(system.pool, system.provider) == STAKE - 2 * PRICE * DURATION


def test_reclaimLease_atOnce_paysTheMissingNotice(system: System, lease: str) -> None:
    compensation = system.pool.leaseOf(lease)["notice"] * PRICE
    system.token.mint(system.operator, compensation, {"from": system.admin})
    system.token.approve(system.pool, compensation, {"from": system.operator})
    free = system.escrow.free(system.token, system.renter)
    with refuses("ControllerCompensationAbove", compensation, compensation - 1):
        system.pool.reclaimLease(lease, compensation - 1, {"from": system.operator})
    tx = system.pool.reclaimLease(lease, compensation, {"from": system.operator})
    assert tx.events["LeaseReclaimed"]["compensation"] == compensation
    assert system.escrow.free(system.token, system.renter) == free + compensation
    assert system.pool.leaseOf(lease)["status"] == CLOSED
