// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {Request} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Vouchers, closing, refunds and what is owed.
contract EscrowVouchersTest is MoneyBase {
    uint256 internal constant RENT = uint256(PRICE) * DURATION;
    uint256 internal constant DEPOSIT = uint256(PRICE) * DEPOSIT_SECONDS;
    uint256 internal constant END = START + DURATION;

    bytes32 internal lease;

    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
        lease = open(0);
    }

    function expectCollectReverts(bytes memory reason, uint128 cumulative) internal {
        bytes memory signature = voucher(lease, cumulative);
        vm.expectRevert(reason);
        escrow.collect(address(pool), lease, cumulative, signature);
    }

    /* COLLECTING */

    function test_collect_dividesBetweenPayeeTreasuryAndBurn() external {
        vm.warp(START + 1000);
        vm.assertEq(collect(lease, 10_000), 10_000);
        (uint256 fees, uint256 burnt) = taken();
        vm.assertEq(fees, 200);
        vm.assertEq(burnt, 98);
        vm.assertEq(owedTo(PAYEE), 10_000 - 200 - 98);
        vm.assertEq(leaseOf(lease).collected, 10_000);
    }

    function test_collect_tellsIt() external {
        vm.warp(START + 1000);
        collect(lease, 5000);
        bytes memory signature = voucher(lease, 10_000);
        vm.expectEmit(address(escrow));
        emit IEscrow.VoucherCollected(address(pool), lease, 10_000, 5000, 100, 49);
        escrow.collect(address(pool), lease, 10_000, signature);
    }

    function test_collect_first_returnsOpeningDepositOnce() external {
        vm.warp(START + 1000);
        uint256 previous = freeOf(renter);
        bytes memory signature = voucher(lease, 1);
        vm.expectEmit(address(escrow));
        emit IEscrow.OpeningDepositReturned(address(pool), lease, DEPOSIT);
        escrow.collect(address(pool), lease, 1, signature);
        vm.assertEq(freeOf(renter), previous + DEPOSIT);
        vm.assertTrue(leaseOf(lease).isDepositReturned);
        collect(lease, 2);
        vm.assertEq(freeOf(renter), previous + DEPOSIT);
    }

    function test_collect_withoutDeposit_returnsNothing() external {
        IEscrow.PoolTerms memory terms = newPoolTerms();
        terms.depositSeconds = 0;
        usePool(terms);
        bytes32 other = open(1);
        uint256 previous = freeOf(renter);
        vm.warp(START + 10);
        vm.recordLogs();
        collect(other, 1);
        vm.assertEq(vm.getRecordedLogs().length, 1);
        vm.assertEq(freeOf(renter), previous);
    }

    function test_collect_withoutFeeOrBurn_paysThePayeeAll() external {
        IEscrow.PoolTerms memory terms = newPoolTerms();
        (terms.feePpm, terms.burnPpm) = (0, 0);
        usePool(terms);
        bytes32 other = open(1);
        vm.warp(START + 10);
        collect(other, 1000);
        vm.assertEq(owedTo(PAYEE), 1000);
        (uint256 fees, uint256 burnt) = taken();
        vm.assertEq(fees + burnt, 0);
    }

    function test_collect_aboveAccrued_paysTheBoundAndLaterTheRest() external {
        vm.warp(START + 5);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 5 * PRICE);
        vm.assertEq(leaseOf(lease).accrued, 5 * PRICE);
        vm.assertEq(collect(lease, type(uint128).max), 5 * PRICE);
        vm.warp(START + 6);
        vm.assertEq(collect(lease, type(uint128).max), PRICE);
        vm.warp(END + 100);
        vm.assertEq(collect(lease, type(uint128).max), RENT - 6 * PRICE);
    }

    function test_C35_collect_inOpeningSecond_reverts() external {
        expectCollectReverts(abi.encodeWithSelector(IEscrow.EscrowNothingToCollect.selector, 0, 0), 100);
    }

    function test_C19_collect_sameVoucherTwice_reverts() external {
        vm.warp(START + 100);
        collect(lease, 100);
        expectCollectReverts(abi.encodeWithSelector(IEscrow.EscrowNothingToCollect.selector, 100, 100), 100);
    }

    function test_C19_collect_lowerVoucher_reverts() external {
        vm.warp(START + 100);
        collect(lease, 100);
        expectCollectReverts(abi.encodeWithSelector(IEscrow.EscrowNothingToCollect.selector, 100, 99), 99);
        vm.assertEq(leaseOf(lease).collected, 100);
    }

    function test_C04_collect_signedByAnother_reverts() external {
        vm.warp(START + 100);
        bytes memory signature = sign(RENTER_KEY, escrow.voucherDigest(lease, 100));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadVoucher.selector, renter, session));
        escrow.collect(address(pool), lease, 100, signature);
    }

    function test_C28_collect_anotherAmountThanSigned_reverts(uint128 cumulative) external {
        vm.assume(cumulative != 100);
        vm.warp(START + 100);
        bytes memory signature = voucher(lease, 100);
        vm.expectPartialRevert(IEscrow.EscrowBadVoucher.selector);
        escrow.collect(address(pool), lease, cumulative, signature);
    }

    function test_C19_collect_voucherOfAnotherLease_reverts() external {
        bytes32 other = open(1);
        vm.warp(START + 100);
        bytes memory signature = voucher(lease, 100);
        vm.expectPartialRevert(IEscrow.EscrowBadVoucher.selector);
        escrow.collect(address(pool), other, 100, signature);
    }

    function test_C30_collect_malformedSignature_reverts() external {
        vm.warp(START + 100);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(SESSION_KEY, escrow.voucherDigest(lease, 100));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes[4] memory bad = [
            abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27)),
            abi.encodePacked(r, s, v - 27),
            abi.encodePacked(r, s),
            bytes("")
        ];
        for (uint256 i = 0; i < bad.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadVoucher.selector, address(0), session));
            escrow.collect(address(pool), lease, 100, bad[i]);
        }
    }

    function test_C27_collect_signedForAnotherChain_reverts() external {
        vm.warp(START + 100);
        bytes memory signature = voucher(lease, 100);
        vm.chainId(99);
        vm.expectPartialRevert(IEscrow.EscrowBadVoucher.selector);
        escrow.collect(address(pool), lease, 100, signature);
    }

    function test_C17_collect_unknownLease_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.collect(STRANGER, lease, 100, "");
        bytes32 unknown = keccak256("unknown");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, unknown));
        escrow.collectable(address(pool), unknown, 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, unknown));
        escrow.accruedOf(address(pool), unknown);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, unknown));
        escrow.leaseAccount(address(pool), unknown);
    }

    /// @dev A second controller that the same renter also signed for, with the same session key, gains nothing from the
    /// first one's vouchers: its lease has another id.
    function test_C20_collect_hostileControllerReplaysVoucher_reverts() external {
        MockPool hostile = new MockPool(escrow, staking);
        hostile.setPoolTerms(newPoolTerms());
        Request memory request = newRequest(1);
        request.controller = address(hostile);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = STRANGER;
        bytes32 other = hostile.openLease(request, signed(request), terms);
        vm.warp(START + 100);
        bytes memory signature = voucher(lease, 100);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.collect(address(hostile), lease, 100, signature);
        vm.expectPartialRevert(IEscrow.EscrowBadVoucher.selector);
        escrow.collect(address(hostile), other, 100, signature);
    }

    function test_C42_collect_inPieces_costsTheSame(uint256 total, uint256 seed) external {
        total = bound(total, 2, RENT);
        bytes32 other = open(1);
        vm.warp(END);
        collect(lease, uint128(total));
        uint256 payee = owedTo(PAYEE);
        (uint256 fee, uint256 burnt) = taken();
        vm.assertEq(payee + fee + burnt, total);
        uint256 next;
        while (next < total) {
            next = bound(seed, next + 1, total);
            seed = uint256(keccak256(abi.encode(seed)));
            if (seed % 4 == 0) next = total;
            collect(other, uint128(next));
        }
        vm.assertEq(owedTo(PAYEE), 2 * payee);
        (uint256 fees, uint256 burns) = taken();
        vm.assertEq(fees, 2 * fee);
        vm.assertEq(burns, 2 * burnt);
    }

    function test_C45_collectable_isWhatCollectDoes(uint128 first, uint128 second, uint32 wait) external {
        vm.warp(START + bound(wait, 0, 2 * DURATION));
        for (uint256 i = 0; i < 2; ++i) {
            uint128 cumulative = i == 0 ? first : second;
            uint256 expected = escrow.collectable(address(pool), lease, cumulative);
            bytes memory signature = voucher(lease, cumulative);
            try escrow.collect(address(pool), lease, cumulative, signature) returns (uint256 paid) {
                vm.assertEq(paid, expected);
            } catch {
                vm.assertEq(expected, 0);
            }
        }
    }

    /* BATCHES */

    function claimOf(bytes32 id, uint128 cumulative) internal view returns (IEscrow.VoucherClaim memory) {
        return IEscrow.VoucherClaim(address(pool), id, cumulative, voucher(id, cumulative));
    }

    function test_collectMany_paysAllAndPassesOverTheRest() external {
        bytes32 other = open(1);
        vm.warp(START + 100);
        collect(lease, 50);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](3);
        claims[0] = claimOf(lease, 50);
        claims[1] = claimOf(other, 70);
        claims[2] = claimOf(lease, 80);
        vm.assertEq(escrow.collectMany(claims), 100);
        vm.assertEq(leaseOf(lease).collected, 80);
        vm.assertEq(leaseOf(other).collected, 70);
    }

    function test_collectMany_settledLease_isPassedOver() external {
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](1);
        claims[0] = claimOf(lease, 50);
        vm.assertEq(escrow.collectMany(claims), 0);
        vm.assertEq(owedTo(PAYEE), 0);
    }

    function test_C25_collectMany_aboveCap_reverts() external {
        vm.assertEq(escrow.MOST_CLAIMS(), 64);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](65);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBatchTooLong.selector, 65, 64));
        escrow.collectMany(claims);
    }

    function test_collectMany_atCap_collects() external {
        vm.warp(START + 100);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](64);
        for (uint128 i = 0; i < 64; ++i) {
            claims[i] = claimOf(lease, i + 1);
        }
        vm.assertEq(escrow.collectMany(claims), 64);
    }

    /* STOPPING */

    function test_stopLease_endsAccrual() external {
        vm.warp(START + 30);
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseStopped(address(pool), lease, START + 30);
        pool.stopLease(lease);
        vm.assertEq(leaseOf(lease).stoppedAfter, 31);
        vm.warp(START + 60);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 30 * PRICE);
    }

    function test_C35_stopLease_inOpeningSecond_accruesNothing() external {
        pool.stopLease(lease);
        vm.assertEq(leaseOf(lease).stoppedAfter, 1);
        vm.warp(START + 60);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseStopped.selector, lease));
        pool.stopLease(lease);
    }

    function test_stopLease_afterEnd_stopsAtTheEnd() external {
        vm.warp(END + 1000);
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseStopped(address(pool), lease, END);
        pool.stopLease(lease);
        vm.assertEq(leaseOf(lease).stoppedAfter, DURATION + 1);
    }

    function test_stopLease_afterSettlement_movesNoMoney() external {
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        uint256 previous = freeOf(renter);
        pool.stopLease(lease);
        vm.assertEq(freeOf(renter), previous);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseSettled.selector, lease));
        pool.settleEarly(lease);
    }

    function test_C17_stopLease_byAnotherController_reverts() external {
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.stopLease(lease);
    }

    function test_D03_collect_afterClose_isPaidInFull() external {
        vm.warp(START + 3000);
        pool.stopLease(lease);
        vm.warp(START + 3000 + CLAIM_WINDOW - 1);
        vm.assertEq(collect(lease, 300_000), 300_000);
    }

    /* SETTLING */

    function test_C35_settle_oneSecondEarly_reverts() external {
        uint256 endsAt = END + CLAIM_WINDOW;
        vm.warp(endsAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowClaimWindowOpen.selector, endsAt, endsAt - 1));
        escrow.settle(address(pool), lease);
        vm.warp(endsAt);
        escrow.settle(address(pool), lease);
    }

    function test_settle_ofStoppedLease_waitsFromTheStop() external {
        vm.warp(START + 7);
        pool.stopLease(lease);
        uint256 endsAt = START + 7 + CLAIM_WINDOW;
        vm.warp(endsAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowClaimWindowOpen.selector, endsAt, endsAt - 1));
        escrow.settle(address(pool), lease);
        vm.warp(endsAt);
        escrow.settle(address(pool), lease);
    }

    function test_C43_settle_byAnyone_refundsTheRest() external {
        vm.warp(START + 100);
        collect(lease, 1234);
        vm.warp(END + CLAIM_WINDOW);
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseSettled(address(pool), lease, RENT - 1234, 0);
        vm.prank(STRANGER);
        escrow.settle(address(pool), lease);
        vm.assertEq(freeOf(renter), FUNDS - 1234);
        vm.assertTrue(leaseOf(lease).isSettled);
    }

    function test_D11_settle_withoutVoucher_burnsOpeningDeposit() external {
        vm.warp(END + CLAIM_WINDOW);
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseSettled(address(pool), lease, RENT, DEPOSIT);
        escrow.settle(address(pool), lease);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT);
        (uint256 fees, uint256 burnt) = taken();
        vm.assertEq(fees, 0);
        vm.assertEq(burnt, DEPOSIT);
    }

    function test_settle_fullyCollected_refundsNothing() external {
        vm.warp(END);
        collect(lease, uint128(RENT));
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        vm.assertEq(freeOf(renter), FUNDS - RENT);
    }

    function test_C18_settle_twice_reverts() external {
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseSettled.selector, lease));
        escrow.settle(address(pool), lease);
    }

    function test_C18_collect_afterSettlement_reverts() external {
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        expectCollectReverts(abi.encodeWithSelector(IEscrow.EscrowLeaseSettled.selector, lease), 100);
        vm.assertEq(escrow.collectable(address(pool), lease, 100), 0);
    }

    function test_C17_settle_unknownLease_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.settle(STRANGER, lease);
    }

    function test_settleEarly_ofRunningLease_reverts() external {
        vm.warp(END - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseRunning.selector, lease));
        pool.settleEarly(lease);
        vm.warp(END);
        pool.settleEarly(lease);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT);
    }

    function test_settleEarly_ofStoppedLease_refundsAtOnce() external {
        vm.warp(START + 10);
        pool.stopLease(lease);
        collect(lease, 1000);
        pool.settleEarly(lease);
        vm.assertEq(freeOf(renter), FUNDS - 1000);
    }

    function test_C17_settleEarly_byAnotherController_reverts() external {
        vm.warp(END);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.settleEarly(lease);
    }

    /* OWED */

    function test_withdrawOwed_byAnyone_paysTheAccount() external {
        vm.warp(START + 100);
        collect(lease, 10_000);
        vm.expectEmit(address(escrow));
        emit IEscrow.OwedWithdrawn(address(token), PAYEE, PAYEE, 9702);
        vm.prank(STRANGER);
        vm.assertEq(escrow.withdrawOwed(address(token), PAYEE), 9702);
        vm.assertEq(token.balanceOf(PAYEE), 9702);
        vm.assertEq(owedTo(PAYEE), 0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNothingOwed.selector, PAYEE));
        escrow.withdrawOwed(address(token), PAYEE);
    }

    function test_withdrawOwedTo_paysWhereTheOwnerSays() external {
        vm.warp(START + 100);
        collect(lease, 10_000);
        vm.expectEmit(address(escrow));
        emit IEscrow.OwedWithdrawn(address(token), PAYEE, STRANGER, 9702);
        vm.prank(PAYEE);
        vm.assertEq(escrow.withdrawOwedTo(address(token), STRANGER), 9702);
        vm.assertEq(token.balanceOf(STRANGER), 9702);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNothingOwed.selector, STRANGER));
        escrow.withdrawOwedTo(address(token), STRANGER);
    }

    function test_withdrawOwedTo_zero_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAddress.selector);
        escrow.withdrawOwedTo(address(token), address(0));
    }

    function test_sweep_byAnyone_creditsTreasuryAndBurn() external {
        vm.warp(START + 100);
        collect(lease, 10_000);
        vm.expectEmit(address(escrow));
        emit IEscrow.PoolSwept(address(pool), address(token), 200, 98);
        vm.prank(STRANGER);
        (uint256 fees, uint256 burnt) = escrow.sweep(address(pool), address(token));
        vm.assertEq(fees, 200);
        vm.assertEq(burnt, 98);
        vm.assertEq(owedTo(TREASURY), 200);
        vm.assertEq(escrow.burnPending(address(token)), 98);
        (fees, burnt) = taken();
        vm.assertEq(fees + burnt, 0);
    }

    function test_sweep_nothingTaken_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.sweep(address(pool), address(token));
        vm.warp(START + 100);
        collect(lease, 10_000);
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.sweep(address(pool), STRANGER);
        escrow.sweep(address(pool), address(token));
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.sweep(address(pool), address(token));
    }

    function test_flushBurn_sendsToTheSink() external {
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.flushBurn(address(token));
        vm.warp(START + 100);
        collect(lease, 10_000);
        escrow.sweep(address(pool), address(token));
        vm.expectEmit(address(escrow));
        emit IEscrow.BurnFlushed(address(token), 98);
        vm.assertEq(escrow.flushBurn(address(token)), 98);
        vm.assertEq(token.balanceOf(SINK), 98);
        vm.assertEq(escrow.burnPending(address(token)), 0);
    }
}
