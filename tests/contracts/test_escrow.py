"""Every function of Escrow: what it does, what it tells and how it refuses."""

from typing import Any

import brownie
import pytest
from money import (
    BURN_PPM,
    CLAIM_WINDOW,
    DEPOSIT,
    DEPOSIT_SECONDS,
    DURATION,
    FEE_PPM,
    FUNDS,
    NOTICE,
    OFFER,
    PRICE,
    RENT,
    Money,
    deploy,
    next_block_at,
    now,
    refusal,
    warp_to,
)
from system import EMPTY, ZERO, digest_of, struct_hash

UNKNOWN = "0x" + "ab" * 32


@pytest.fixture(scope="module")
def money() -> Money:
    made = deploy()
    made.fund(made.renter, FUNDS)
    return made


@pytest.fixture
def lease(money: Money) -> str:
    return str(money.open(0).return_value)


def opened_at(money: Money, lease: str) -> int:
    return int(money.escrow.leaseAccount(money.pool, lease)["openedAt"])


def test_constructor_zeroSink_reverts(money: Money) -> None:
    with brownie.reverts("EscrowZeroAddress: "):
        brownie.Escrow.deploy(money.tokens, ZERO, {"from": money.admin})


def test_deposit_listedToken_credits(money: Money) -> None:
    money.give(money.stranger, money.escrow, 10)
    tx = money.escrow.deposit(money.token, 10, {"from": money.stranger})
    assert tx.return_value == 10
    assert dict(tx.events["Deposited"]) == {
        "token": money.token,
        "account": money.stranger,
        "funder": money.stranger,
        "amount": 10,
    }
    assert money.free(money.stranger) == 10


def test_deposit_unlistedToken_reverts(money: Money) -> None:
    with refusal("EscrowTokenNotListed", money.stranger):
        money.escrow.deposit(money.stranger, 1, {"from": money.stranger})


def test_C23_deposit_feeToken_creditsWhatArrived(money: Money) -> None:
    coin = brownie.FeeToken.deploy({"from": money.admin})
    money.tokens.list(coin, {"from": money.admin})
    coin.mint(money.renter, 1_000, {"from": money.admin})
    coin.approve(money.escrow, 1_000, {"from": money.renter})
    assert money.escrow.deposit(coin, 1_000, {"from": money.renter}).return_value == 990
    assert money.escrow.free(coin, money.renter) == 990


def test_withdraw_afterNotice_paysAnotherAddress(money: Money) -> None:
    tx = money.escrow.noticeWithdrawal(money.token, 300, {"from": money.renter})
    ready = tx.timestamp + NOTICE
    assert tx.events["WithdrawalNoticed"]["readyAt"] == ready
    assert money.escrow.noticed(money.token, money.renter) == (300, ready)
    next_block_at(ready - 1)
    with refusal("EscrowNoticeRunning", ready, ready - 1):
        money.escrow.withdraw(money.token, money.stranger, {"from": money.renter})
    next_block_at(ready)
    tx = money.escrow.withdraw(money.token, money.stranger, {"from": money.renter})
    assert tx.events["Withdrawn"]["to"] == money.stranger
    assert money.token.balanceOf(money.stranger) == 300
    with refusal("EscrowNothingNoticed", money.renter):
        money.escrow.withdraw(money.token, money.renter, {"from": money.renter})


def test_openLease_signedRequest_earmarks(money: Money) -> None:
    tx = money.open(7)
    request = money.request(7)
    expected = brownie.web3.keccak(
        b"".join(
            bytes.fromhex(word)
            for word in (
                f"{brownie.chain.id:064x}",
                money.pool.address[2:].rjust(64, "0"),
                OFFER[2:],
                struct_hash("Request", request)[2:],
            )
        )
    )
    assert tx.return_value == "0x" + expected.hex()
    assert tx.events["LeaseFunded"]["earmark"] == RENT + DEPOSIT
    assert tx.events["LeaseFunded"]["terms"] == tuple(money.terms().values())
    assert money.free(money.renter) == FUNDS - RENT - DEPOSIT
    assert money.escrow.leaseAccount(money.pool, tx.return_value).dict() == {
        "payer": money.renter,
        "openedAt": tx.timestamp,
        "duration": DURATION,
        "claimWindow": CLAIM_WINDOW,
        "payee": money.payee,
        "pricePerSecond": PRICE,
        "tokenId": 1,
        "voucherSigner": money.session,
        "depositSeconds": DEPOSIT_SECONDS,
        "feePpm": FEE_PPM,
        "burnPpm": BURN_PPM,
        "stoppedAfter": 0,
        "collected": 0,
        "accrued": 0,
        "isSettled": False,
        "isDepositReturned": False,
    }
    assert money.escrow.termsOf(money.pool).dict() == money.pool_terms()
    assert money.escrow.isNonceUsed(money.renter, 7)


def test_C28_digests_areThoseOfEthAccount(money: Money) -> None:
    request = money.request(5, offer=OFFER, deadline=2**63, voucherSigner=money.stranger.address)
    ours = money.escrow.requestDigest(tuple(request.values()))
    assert ours == digest_of("Request", request, money.escrow.address)
    voucher = {"lease": UNKNOWN, "cumulative": 2**127 + 1}
    assert money.escrow.voucherDigest(UNKNOWN, 2**127 + 1) == digest_of("Voucher", voucher, money.escrow.address)


def test_C04_openLease_signedByAnother_reverts(money: Money) -> None:
    request = money.request(0)
    with refusal("EscrowBadRequestSignature", money.renter):
        money.pool.openLease(
            tuple(request.values()),
            money.signed(request, money.stranger),
            tuple(money.terms().values()),
            {"from": money.admin},
        )


def test_C20_openLease_callerNotNamed_reverts(money: Money) -> None:
    request = money.request(0)
    with refusal("EscrowWrongController", money.stranger, money.pool):
        money.escrow.openLease(
            tuple(request.values()),
            money.signed(request),
            tuple(money.terms().values()),
            {"from": money.stranger},
        )


@pytest.mark.parametrize(
    ("changes", "error", "values"),
    [
        ({"pricePerSecond": PRICE + 1}, "EscrowPriceAboveRequest", (PRICE + 1, PRICE)),
        ({"duration": DURATION + 1}, "EscrowDurationAboveRequest", (DURATION + 1, DURATION)),
        ({"payee": ZERO}, "EscrowZeroAddress", ()),
        ({"duration": 0}, "EscrowBadTerms", ("0x" + b"duration".ljust(32, b"\0").hex(), 0, 1)),
    ],
)
def test_openLease_termsRenterDidNotSign_revert(money: Money, changes: dict, error: str, values: tuple) -> None:
    with refusal(error, *values):
        money.open(0, **changes)


def test_C36_openLease_poolChangesItsTerms_keepsTheFirst(money: Money) -> None:
    tx = money.open(0)
    assert tx.events["PoolFixed"]["terms"] == tuple(money.pool_terms().values())
    money.pool.setPoolTerms(tuple(money.pool_terms(feePpm=250_000).values()), {"from": money.admin})
    assert "PoolFixed" not in money.open(1).events
    assert money.escrow.termsOf(money.pool)["feePpm"] == FEE_PPM


def test_C46_openLease_poolTermsOutsideBounds_reverts(money: Money) -> None:
    money.pool.setPoolTerms(tuple(money.pool_terms(feePpm=250_001).values()), {"from": money.admin})
    with refusal("EscrowBadTerms", "0x" + b"feePpm".ljust(32, b"\0").hex(), 250_001, 250_000):
        money.open(0)


def test_C29_cancelRequest_owner_voidsNonce(money: Money) -> None:
    tx = money.escrow.cancelRequest(3, {"from": money.renter})
    assert dict(tx.events["RequestCancelled"]) == {"renter": money.renter, "nonce": 3}
    with refusal("EscrowNonceUsed", money.renter, 3):
        money.open(3)


def test_collect_voucher_paysPayeeTreasuryAndBurn(money: Money, lease: str) -> None:
    warp_to(opened_at(money, lease) + 100)
    assert money.escrow.accruedOf(money.pool, lease) == 100 * PRICE
    assert money.escrow.collectable(money.pool, lease, 10**9) == 100 * PRICE
    tx = money.collect(lease, 5_000)
    assert tx.return_value == 5_000
    assert tx.events["VoucherCollected"]["cumulative"] == 5_000
    assert (tx.events["VoucherCollected"]["fee"], tx.events["VoucherCollected"]["burnt"]) == (100, 49)
    assert tx.events["OpeningDepositReturned"]["amount"] == DEPOSIT
    assert (money.owed(money.payee), money.takings()) == (4_851, (100, 49))
    assert money.free(money.renter) == FUNDS - RENT


def test_collect_otherSigner_reverts(money: Money, lease: str) -> None:
    signature = money.voucher(lease, 5, money.stranger)
    with refusal("EscrowBadVoucher", money.stranger, money.session):
        money.escrow.collect(money.pool, lease, 5, signature, {"from": money.stranger})


def test_C19_collect_sameVoucherTwice_reverts(money: Money, lease: str) -> None:
    warp_to(now() + 100)
    money.collect(lease, 5)
    with refusal("EscrowNothingToCollect", 5, 5):
        money.collect(lease, 5)


def test_collectMany_severalLeases_sumsThem(money: Money, lease: str) -> None:
    other = str(money.open(1).return_value)
    warp_to(now() + 100)
    claims = [(money.pool, which, 40, money.voucher(which, 40)) for which in (lease, other, lease)]
    assert money.escrow.collectMany(claims, {"from": money.stranger}).return_value == 80


def test_D03_stopLease_voucherInClaimWindow_isPaid(money: Money, lease: str) -> None:
    start = opened_at(money, lease)
    next_block_at(start + 500)
    tx = money.pool.stopLease(lease, {"from": money.admin})
    assert tx.events["LeaseStopped"]["at"] == start + 500
    next_block_at(start + 500 + CLAIM_WINDOW - 1)
    assert money.collect(lease, 10**9).return_value == 500 * PRICE
    with refusal("EscrowLeaseStopped", lease):
        money.pool.stopLease(lease, {"from": money.admin})


def test_C43_settle_byAnyone_refundsAfterTheWindow(money: Money, lease: str) -> None:
    start = opened_at(money, lease)
    ends = start + DURATION + CLAIM_WINDOW
    warp_to(start + 100)
    money.collect(lease, 700)
    next_block_at(ends - 1)
    with refusal("EscrowClaimWindowOpen", ends, ends - 1):
        money.escrow.settle(money.pool, lease, {"from": money.stranger})
    next_block_at(ends)
    tx = money.escrow.settle(money.pool, lease, {"from": money.stranger})
    assert tx.events["LeaseSettled"]["refunded"] == RENT - 700
    assert money.free(money.renter) == FUNDS - 700
    with refusal("EscrowLeaseSettled", lease):
        money.escrow.settle(money.pool, lease, {"from": money.stranger})


def test_D11_settleEarly_noVoucher_burnsOpeningDeposit(money: Money, lease: str) -> None:
    with refusal("EscrowLeaseRunning", lease):
        money.pool.settleEarly(lease, {"from": money.admin})
    money.pool.stopLease(lease, {"from": money.admin})
    tx = money.pool.settleEarly(lease, {"from": money.admin})
    assert tx.events["LeaseSettled"]["burnt"] == DEPOSIT
    assert money.free(money.renter) == FUNDS - DEPOSIT
    money.escrow.sweep(money.pool, money.token, {"from": money.stranger})
    tx = money.escrow.flushBurn(money.token, {"from": money.stranger})
    assert tx.events["BurnFlushed"]["amount"] == DEPOSIT
    assert money.token.balanceOf(money.sink) == DEPOSIT


def test_withdrawOwed_byAnyone_paysTheAccount(money: Money, lease: str) -> None:
    warp_to(now() + 100)
    money.collect(lease, 1_000)
    tx = money.escrow.withdrawOwed(money.token, money.payee, {"from": money.stranger})
    assert tx.events["OwedWithdrawn"]["amount"] == money.token.balanceOf(money.payee) == 971
    with refusal("EscrowNothingOwed", money.payee):
        money.escrow.withdrawOwed(money.token, money.payee, {"from": money.stranger})
    tx = money.escrow.sweep(money.pool, money.token, {"from": money.stranger})
    assert dict(tx.events["PoolSwept"]) == {"controller": money.pool, "token": money.token, "fees": 20, "burnt": 9}
    tx = money.escrow.withdrawOwedTo(money.token, money.stranger, {"from": money.treasury})
    assert tx.return_value == money.token.balanceOf(money.stranger) == 20


@pytest.mark.parametrize("view", ["accruedOf", "leaseAccount"])
def test_C17_views_unknownLease_revert(money: Money, view: str) -> None:
    with refusal("EscrowLeaseUnknown", UNKNOWN):
        getattr(money.escrow, view)(money.pool, UNKNOWN)


def test_openLease_replacement_staysWithinTheSpendingCap(money: Money) -> None:
    earmark = RENT + DEPOSIT
    request = money.request(8, replacements=2, spendCap=earmark + 500)
    signature = money.signed(request)

    def open_with(offer: int) -> Any:
        terms = money.terms(offer="0x" + f"{offer:064x}")
        return money.pool.openLease(tuple(request.values()), signature, tuple(terms.values()), {"from": money.admin})

    first = str(open_with(1).return_value)
    with refusal("EscrowSpendAboveCap", 2 * earmark, earmark + 500):
        open_with(2)
    warp_to(opened_at(money, first) + 100)
    money.collect(first, 500)
    money.pool.stopLease(first, {"from": money.admin})
    money.pool.settleEarly(first, {"from": money.admin})
    tx = open_with(2)
    assert dict(tx.events["LeaseGrouped"]) == {
        "request": struct_hash("Request", request),
        "lease": tx.return_value,
        "opened": 2,
        "held": earmark + 500,
    }
    tx = money.escrow.endRequest(struct_hash("Request", request), {"from": money.renter})
    assert tx.events["RequestEnded"]["renter"] == money.renter
    assert money.escrow.groupOf(struct_hash("Request", request)) == (money.renter, 255, earmark + 500)


def test_depositFor_gift_belongsToTheAccount(money: Money) -> None:
    money.give(money.stranger, money.escrow, 40)
    tx = money.escrow.depositFor(money.token, money.renter, 40, {"from": money.stranger})
    assert (tx.events["Deposited"]["account"], tx.events["Deposited"]["funder"]) == (money.renter, money.stranger)
    assert money.free(money.renter) == FUNDS + 40


def test_depositWithPermit_usedPermit_stillDeposits(money: Money) -> None:
    money.give(money.renter, money.escrow, 40)
    empty = (0, 27, EMPTY, EMPTY)
    money.escrow.depositWithPermit(money.token, 40, *empty, {"from": money.renter})
    assert money.free(money.renter) == FUNDS + 40


def test_resizeLease_dearer_foldsWhatAccrued(money: Money, lease: str) -> None:
    at = opened_at(money, lease) + 600
    resize = money.resize(lease, 2 * PRICE, 0)
    assert money.escrow.resizeDigest(tuple(resize.values())) == digest_of("Resize", resize, money.escrow.address)
    next_block_at(at)
    tx = money.pool.resizeLease(tuple(resize.values()), money.signed_resize(resize), {"from": money.admin})
    rent = 600 * PRICE + (DURATION - 600) * 2 * PRICE
    event = tx.events["LeaseRepriced"]
    assert (event["pricePerSecond"], event["accrued"], event["rent"]) == (2 * PRICE, 600 * PRICE, rent)
    assert money.free(money.renter) == FUNDS - DEPOSIT - rent
    with refusal("EscrowResizeOutdated", 0, 1):
        money.pool.resizeLease(tuple(resize.values()), money.signed_resize(resize), {"from": money.admin})
    warp_to(at + 100)
    assert money.escrow.accruedOf(money.pool, lease) == 800 * PRICE


def test_resizeLease_notSignedByPayer_reverts(money: Money, lease: str) -> None:
    resize = money.resize(lease, PRICE, 0)
    with refusal("EscrowBadRequestSignature", money.renter):
        money.pool.resizeLease(
            tuple(resize.values()), money.signed_resize(resize, money.stranger), {"from": money.admin}
        )
