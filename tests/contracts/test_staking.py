"""Every function of Staking: what it does, what it tells and how it refuses."""

import brownie
import pytest
from money import CAP_PPM, FUNDS, OFFENCE, THAW, Money, deploy, next_block_at, now, refusal, warp_to
from system import ZERO


@pytest.fixture(scope="module")
def money() -> Money:
    made = deploy()
    made.stake(made.provider, FUNDS)
    made.provision(1_000)
    return made


def test_constructor_zeroTokens_reverts(money: Money) -> None:
    with brownie.reverts("StakingZeroAddress: "):
        brownie.Staking.deploy(ZERO, money.sink, {"from": money.admin})


def test_deposit_listedToken_credits(money: Money) -> None:
    money.give(money.stranger, money.staking, 10)
    tx = money.staking.deposit(money.token, 10, {"from": money.stranger})
    assert dict(tx.events["StakeDeposited"]) == {"token": money.token, "provider": money.stranger, "amount": 10}
    assert money.staking.idle(money.token, money.stranger) == 10


def test_withdraw_idleStake_pays(money: Money) -> None:
    tx = money.staking.withdraw(money.token, 5, money.stranger, {"from": money.provider})
    assert tx.events["StakeWithdrawn"]["to"] == money.stranger
    assert money.token.balanceOf(money.stranger) == 5
    idle = FUNDS - 1_000 - 5
    with refusal("StakingInsufficientIdle", idle, idle + 1):
        money.staking.withdraw(money.token, idle + 1, money.provider, {"from": money.provider})


def test_provision_again_addsUnderFirstTerms(money: Money) -> None:
    money.pool.setTerms(money.token, money.stranger, THAW + 1, 1, {"from": money.admin})
    tx = money.provision(500)
    assert dict(tx.events["StakeProvisioned"]) == {"pool": money.pool, "provider": money.provider, "amount": 500}
    assert money.provision_of() == {
        "slasher": money.slasher,
        "tokenId": 1,
        "thawPeriod": THAW,
        "slashCapPpm": CAP_PPM,
        "active": 1_500,
        "thawing": 0,
        "frozen": 0,
        "exposure": 0,
        "retiredAt": 0,
    }


def test_C34_provision_termsChanged_reverts(money: Money) -> None:
    money.stake(money.stranger, 10)
    with refusal("StakingTermsChanged", money.slasher, THAW):
        money.staking.provision(money.pool, 10, money.slasher, THAW - 1, {"from": money.stranger})


def test_C03_provision_thawPeriodTooLong_reverts(money: Money) -> None:
    money.stake(money.stranger, 10)
    money.pool.setTerms(money.token, money.slasher, 2**32 - 1, CAP_PPM, {"from": money.admin})
    term = "0x" + b"thawPeriod".ljust(32, b"\0").hex()
    with refusal("StakingBadTerms", term, 2**32 - 1, 120 * 86_400):
        money.staking.provision(money.pool, 10, money.slasher, 2**32 - 1, {"from": money.stranger})


def test_thaw_unreservedStake_maturesAfterItsPeriod(money: Money) -> None:
    tx = money.staking.thaw(money.pool, 400, {"from": money.provider})
    matures = tx.timestamp + THAW
    assert tx.events["ThawStarted"]["maturesAt"] == matures
    assert money.staking.thawEntries(money.pool, money.provider) == ((400, matures),)
    next_block_at(matures - 1)
    with refusal("StakingNothingMature", money.pool, money.provider):
        money.staking.completeThaw(money.pool, {"from": money.provider})
    next_block_at(matures)
    tx = money.staking.completeThaw(money.pool, {"from": money.provider})
    assert tx.return_value == tx.events["ThawCompleted"]["amount"] == 400
    assert money.staking.idle(money.token, money.provider) == FUNDS - 600


def test_C25_thaw_ninthEntry_reverts(money: Money) -> None:
    for _ in range(8):
        money.staking.thaw(money.pool, 1, {"from": money.provider})
    with refusal("StakingTooManyThaws", 8, 8):
        money.staking.thaw(money.pool, 1, {"from": money.provider})


def test_reserve_byPool_bindsStake(money: Money) -> None:
    tx = money.pool.reserve(money.provider, 900, {"from": money.admin})
    assert tx.events["ExposureReserved"]["amount"] == 900
    assert money.staking.unreserved(money.pool, money.provider) == 100
    assert money.staking.thawable(money.pool, money.provider) == 100
    with refusal("StakingInsufficientUnreserved", 100, 101):
        money.pool.reserve(money.provider, 101, {"from": money.admin})
    with refusal("StakingInsufficientUnreserved", 100, 101):
        money.staking.thaw(money.pool, 101, {"from": money.provider})


def test_release_byPool_givesBack(money: Money) -> None:
    money.pool.reserve(money.provider, 900, {"from": money.admin})
    tx = money.pool.release(money.provider, 300, {"from": money.admin})
    assert tx.events["ExposureReleased"]["amount"] == 300
    with refusal("StakingExposureBelow", 600, 601):
        money.pool.release(money.provider, 601, {"from": money.admin})


def test_C43_retire_poolNeverReleases_freesStake(money: Money) -> None:
    money.pool.reserve(money.provider, 1_000, {"from": money.admin})
    tx = money.staking.retire(money.pool, {"from": money.provider})
    assert tx.events["ProvisionRetired"]["exposureVoidAt"] == tx.timestamp + THAW
    with refusal("StakingRetired", tx.timestamp):
        money.pool.reserve(money.provider, 0, {"from": money.admin})
    warp_to(tx.timestamp + THAW)
    assert money.staking.thawable(money.pool, money.provider) == 1_000


def test_freeze_bySlasher_clampsToCap(money: Money) -> None:
    assert money.staking.slashable(money.pool, money.provider, now()) == 500
    tx = money.freeze(OFFENCE, 10_000)
    assert tx.return_value == 500
    assert dict(tx.events["StakeFrozen"]) == {
        "pool": money.pool,
        "provider": money.provider,
        "offence": OFFENCE,
        "amount": 500,
        "fromThawing": 0,
    }
    assert money.staking.offenceOf(money.slasher, OFFENCE) == (money.pool, money.provider, 500, tx.timestamp)
    with refusal("StakingOffenceKnown", OFFENCE):
        money.freeze(OFFENCE, 1)


def test_C04_freeze_byStranger_reverts(money: Money) -> None:
    with refusal("StakingNotSlasher", money.stranger, money.slasher):
        money.staking.freeze(money.pool, money.provider, OFFENCE, now(), 1, {"from": money.stranger})


def test_C10_freeze_newerStake_staysOut(money: Money) -> None:
    offended = now()
    warp_to(offended + 100)
    money.provision(100_000)
    assert money.freeze(OFFENCE, 100_000, offended).return_value == 1_000


def test_unfreeze_bySlasher_givesBack(money: Money) -> None:
    money.freeze(OFFENCE, 300)
    tx = money.slasher.unfreeze(OFFENCE, {"from": money.admin})
    assert tx.events["StakeUnfrozen"]["amount"] == 300
    assert money.provision_of()["active"] == 1_000


def test_C43_unfreezeExpired_silentSlasher_givesBack(money: Money) -> None:
    ends = money.freeze(OFFENCE, 300).timestamp + THAW
    next_block_at(ends - 1)
    with refusal("StakingFreezeRunning", ends, ends - 1):
        money.staking.unfreezeExpired(money.slasher, OFFENCE, {"from": money.stranger})
    next_block_at(ends)
    tx = money.staking.unfreezeExpired(money.slasher, OFFENCE, {"from": money.stranger})
    assert tx.return_value == 300


def test_slash_frozenStake_burnsHalfAndPaysLater(money: Money) -> None:
    money.freeze(OFFENCE, 400)
    tx = money.slasher.slash(OFFENCE, 200, money.split(1_000, 1_000), {"from": money.admin})
    event = tx.events["StakeSlashed"]
    assert (event["taken"], event["burnt"], event["toRenter"], event["toChallenger"]) == (200, 100, 50, 50)
    assert tx.events["StakeUnfrozen"]["amount"] == 200
    matures = tx.timestamp + THAW
    assert money.staking.payoutOf(money.slasher, OFFENCE, money.renter) == (50, matures)
    next_block_at(matures - 1)
    with refusal("StakingPayoutImmature", matures, matures - 1):
        money.staking.withdrawPayout(money.slasher, OFFENCE, money.renter, {"from": money.renter})
    next_block_at(matures)
    tx = money.staking.withdrawPayout(money.slasher, OFFENCE, money.stranger, {"from": money.renter})
    assert tx.events["PayoutWithdrawn"]["amount"] == money.token.balanceOf(money.stranger) == 50
    with refusal("StakingNothingToPay", OFFENCE, money.renter):
        money.staking.withdrawPayout(money.slasher, OFFENCE, money.renter, {"from": money.renter})


def test_C17_slash_byStranger_reverts(money: Money) -> None:
    money.freeze(OFFENCE, 400)
    with refusal("StakingOffenceUnknown", OFFENCE):
        money.staking.slash(OFFENCE, 200, money.split(), {"from": money.stranger})


def test_flushBurn_afterSlash_paysTheSink(money: Money) -> None:
    money.freeze(OFFENCE, 400)
    money.slasher.slash(OFFENCE, 400, money.split(), {"from": money.admin})
    assert money.staking.burnPending(money.token) == 400
    money.staking.flushBurn(money.token, {"from": money.stranger})
    assert money.token.balanceOf(money.sink) == 400
    with brownie.reverts("StakingZeroAmount: "):
        money.staking.flushBurn(money.token, {"from": money.stranger})
