// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../../contracts/interfaces/IController.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Closing by each party and by time, demands, last collection, and stake set free.
contract ControllerClosingTest is Fixture {
    bytes32 private lease;
    uint256 private openedAt;

    function setUp() public override {
        super.setUp();
        lease = _open();
        openedAt = block.timestamp;
    }

    /* BY THE RENTER */

    function test_closeLease_renter_stopsMeterAndFreesSlice() public {
        _skip(600);
        _expectClosed(renter, IController.CloseReason.Renter, block.timestamp);
        vm.prank(renter);
        pool.closeLease(lease);

        IController.Lease memory record = pool.leaseOf(lease);
        vm.assertTrue(record.status == IController.LeaseStatus.Closed);
        vm.assertEq(record.closedAt, block.timestamp);
        vm.assertEq(pool.liveLeases(renter, device), 0);
        vm.assertEq(devices.deviceOf(device).usedShare, 0);
        vm.assertEq(devices.deviceOf(device).usedMemoryMiB, 0);
        _skip(1 hours);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 600 * uint256(PRICE));
    }

    function test_closeLease_voucherSigner_closesAsRenter() public {
        _expectClosed(session, IController.CloseReason.Renter, block.timestamp);
        vm.prank(session);
        pool.closeLease(lease);
    }

    function test_D03_closeLease_renterAtOnce_vouchersStayCollectable() public {
        _skip(1 hours);
        _close(lease);
        _skip(23 hours);
        _collect(lease, 3600 * PRICE);
        vm.assertEq(escrow.leaseAccount(address(pool), lease).collected, 3600 * uint256(PRICE));
    }

    /* BY THE PROVIDER */

    function test_giveNotice_ownerOrOperator_startsNotice() public {
        vm.expectEmit(address(pool));
        emit IController.LeaseNoticed(lease, block.timestamp + 600);
        vm.prank(operator);
        pool.giveNotice(lease);
        vm.assertEq(pool.leaseOf(lease).noticeEndsAt, block.timestamp + 600);

        bytes32 second = _open();
        vm.prank(provider);
        pool.giveNotice(second);
    }

    function test_giveNotice_nearTheEnd_endsWithLease() public {
        _skip(DURATION - 60);
        vm.prank(operator);
        pool.giveNotice(lease);
        vm.assertEq(pool.leaseOf(lease).noticeEndsAt, openedAt + DURATION);
    }

    function test_giveNotice_again_reverts() public {
        vm.startPrank(operator);
        pool.giveNotice(lease);
        _skip(60);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerNoticeRunning.selector, openedAt + 600, block.timestamp)
        );
        pool.giveNotice(lease);
    }

    function test_closeLease_providerAfterNotice_closes() public {
        vm.startPrank(operator);
        pool.giveNotice(lease);
        _skip(599);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerNoticeRunning.selector, openedAt + 600, block.timestamp)
        );
        pool.closeLease(lease);

        _skip(1);
        _expectClosed(operator, IController.CloseReason.Provider, block.timestamp);
        pool.closeLease(lease);
    }

    function test_closeLease_providerWithoutNotice_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNoticeMissing.selector, lease));
        vm.prank(provider);
        pool.closeLease(lease);
    }

    function test_C36_giveNotice_offerReplaced_keepsPromisedNotice() public {
        vm.startPrank(operator);
        devices.cancelOffers(device);
        pool.giveNotice(lease);
        vm.assertEq(pool.leaseOf(lease).noticeEndsAt, block.timestamp + 600);
    }

    /* BY TIME */

    function test_C35_closeLease_strangerAtTheEnd_closesThenOnly() public {
        _skip(DURATION - 1);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotParty.selector, stranger));
        vm.prank(stranger);
        pool.closeLease(lease);

        _skip(1);
        _expectClosed(stranger, IController.CloseReason.End, block.timestamp);
        vm.prank(stranger);
        pool.closeLease(lease);
    }

    function test_C43_closeLease_longAfterSettlement_closesAtItsEnd() public {
        _skip(DURATION + 2 days);
        escrow.settle(address(pool), lease);
        vm.prank(stranger);
        pool.closeLease(lease);
        vm.assertEq(pool.leaseOf(lease).closedAt, openedAt + DURATION);
        vm.assertEq(pool.liveLeases(renter, device), 0);
    }

    function test_closeLease_afterOwnerLeftPool_stillCloses() public {
        _skip(DURATION + 1 days);
        vm.startPrank(provider);
        devices.leave(device);
        devices.join(device, address(pool));
        vm.stopPrank();
        bytes32 second = _open();
        pool.closeLease(lease);

        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Closed);
        vm.assertEq(devices.deviceOf(device).usedShare, 250);
        _close(second);
        vm.assertEq(devices.deviceOf(device).usedShare, 0);
    }

    function test_C18_closeLease_twice_reverts() public {
        _close(lease);
        bytes memory error =
            abi.encodeWithSelector(IController.ControllerLeaseNotOpen.selector, lease, IController.LeaseStatus.Closed);
        vm.expectRevert(error);
        pool.closeLease(lease);
        vm.startPrank(operator);
        vm.expectRevert(error);
        pool.giveNotice(lease);
        vm.expectRevert(error);
        pool.demandPayment(lease);
        vm.expectRevert(error);
        pool.closeUnpaid(lease);
    }

    function test_leaseOf_unknown_isEmpty() public view {
        IController.Lease memory empty;
        vm.assertEq(abi.encode(pool.leaseOf("none")), abi.encode(empty));
    }

    function test_C45_leaseOf_closedAtOnce_tellsTheSecond() public {
        _close(lease);
        vm.assertEq(pool.leaseOf(lease).closedAt, block.timestamp);
        _skip(1 days);
        vm.assertEq(pool.leaseOf(lease).closedAt, block.timestamp - 1 days);
    }

    function test_leaseCalls_unknownLease_revert() public {
        bytes32 none = "none";
        bytes memory error = abi.encodeWithSelector(IController.ControllerLeaseUnknown.selector, none);
        vm.expectRevert(error);
        pool.closeLease(none);
        vm.expectRevert(error);
        pool.giveNotice(none);
        vm.expectRevert(error);
        pool.demandPayment(none);
        vm.expectRevert(error);
        pool.closeUnpaid(none);
        vm.expectRevert(error);
        pool.collectFinal(none, 0, "");
        vm.expectRevert(error);
        pool.releaseExposure(none);
    }

    function test_C17_providerCalls_byOthers_revert() public {
        address[3] memory others = [stranger, renter, poolOwner];
        for (uint256 i; i < others.length; ++i) {
            bytes memory error = abi.encodeWithSelector(IController.ControllerNotParty.selector, others[i]);
            vm.startPrank(others[i]);
            vm.expectRevert(error);
            pool.giveNotice(lease);
            vm.expectRevert(error);
            pool.demandPayment(lease);
            vm.expectRevert(error);
            pool.closeUnpaid(lease);
            vm.stopPrank();
        }
    }

    /* UNPAID */

    function test_demandPayment_operator_recordsWhatWasCollected() public {
        _skip(100);
        _collect(lease, 50 * PRICE);
        vm.expectEmit(address(pool));
        emit IController.PaymentDemanded(lease, 50 * uint256(PRICE), block.timestamp + 900);
        vm.prank(operator);
        pool.demandPayment(lease);
        vm.assertEq(pool.leaseOf(lease).demandedAt, block.timestamp);
        vm.assertEq(pool.leaseOf(lease).collectedAtDemand, 50 * uint256(PRICE));
    }

    /// @dev A renter who signs nothing is out within 15 minutes, and its opening deposit burns.
    function test_D11_closeUnpaid_nothingPaid_freesSliceAndBurnsDeposit() public {
        _demand();
        _skip(900);
        _expectClosed(operator, IController.CloseReason.Unpaid, block.timestamp);
        vm.prank(operator);
        pool.closeUnpaid(lease);
        vm.assertEq(devices.deviceOf(device).usedShare, 0);

        vm.prank(operator);
        pool.collectFinal(lease, 0, "");
        (, uint256 burnt) = escrow.takings(address(pool), address(token));
        vm.assertEq(burnt, 900 * uint256(PRICE));
        vm.assertEq(escrow.free(address(token), renter), FUNDS - 900 * uint256(PRICE));
    }

    function test_closeUnpaid_notDemanded_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotDemanded.selector, lease));
        vm.prank(operator);
        pool.closeUnpaid(lease);
    }

    function test_C35_closeUnpaid_beforeAnswerTime_reverts() public {
        _demand();
        _skip(899);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerDemandRunning.selector, openedAt + 900, block.timestamp)
        );
        vm.prank(operator);
        pool.closeUnpaid(lease);
    }

    function test_closeUnpaid_answeredInFull_revertsUntilNextDemand() public {
        uint128 needed = (900 - 120) * PRICE;
        _demand();
        _skip(900);
        _collect(lease, needed);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerDemandAnswered.selector, needed, needed));
        vm.prank(operator);
        pool.closeUnpaid(lease);

        _demand();
        _skip(900);
        vm.prank(operator);
        pool.closeUnpaid(lease);
    }

    function test_closeUnpaid_answeredOneUnitShort_closes() public {
        _demand();
        _skip(900);
        _collect(lease, (900 - 120) * PRICE - 1);
        vm.prank(operator);
        pool.closeUnpaid(lease);
        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Closed);
    }

    /// @dev No more can be asked than the lease can still accrue.
    function test_closeUnpaid_demandNearTheEnd_asksOnlyUntilTheEnd() public {
        _skip(DURATION - 300);
        _collect(lease, (DURATION - 300) * uint128(PRICE));
        _demand();
        _skip(900);
        _collect(lease, DURATION * uint128(PRICE) - 120 * uint128(PRICE));
        uint256 needed = (DURATION - 120) * uint256(PRICE);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerDemandAnswered.selector, needed, needed));
        vm.prank(operator);
        pool.closeUnpaid(lease);
    }

    function test_closeUnpaid_demandInTheGraceBeforeTheEnd_asksNothing() public {
        _skip(DURATION - 60);
        _demand();
        _skip(900);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerDemandAnswered.selector, 0, 0));
        vm.prank(operator);
        pool.closeUnpaid(lease);
    }

    /* LAST COLLECTION */

    function test_collectFinal_voucher_paysAndRefundsAtOnce() public {
        _skip(1000);
        _close(lease);
        uint128 earned = 1000 * PRICE;
        bytes memory signature = _signVoucher(lease, earned);
        vm.prank(operator);
        pool.collectFinal(lease, earned, signature);

        uint256 fee = uint256(earned) * 20_000 / 1e6;
        uint256 burnt = (earned - fee) * 5000 / 1e6;
        vm.assertEq(escrow.owed(address(token), payout), earned - fee - burnt);
        escrow.sweep(address(pool), address(token));
        vm.assertEq(escrow.owed(address(token), treasury), fee);
        vm.assertEq(escrow.free(address(token), renter), FUNDS - earned);
        vm.assertTrue(escrow.leaseAccount(address(pool), lease).isSettled);
    }

    function test_collectFinal_voucherCollectedBefore_settlesStill() public {
        _skip(1000);
        _close(lease);
        _collect(lease, 1000 * PRICE);
        bytes memory signature = _signVoucher(lease, 1000 * PRICE);
        vm.prank(provider);
        pool.collectFinal(lease, 1000 * PRICE, signature);
        vm.assertTrue(escrow.leaseAccount(address(pool), lease).isSettled);
    }

    function test_collectFinal_badVoucher_revertsAndSettlesNothing() public {
        _skip(1000);
        _close(lease);
        bytes memory signature = _signVoucher(lease, 1000 * PRICE);
        vm.expectPartialRevert(IEscrow.EscrowBadVoucher.selector);
        vm.prank(operator);
        pool.collectFinal(lease, 999 * PRICE, signature);
    }

    function test_collectFinal_openLease_reverts() public {
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerLeaseNotClosed.selector, lease, IController.LeaseStatus.Open)
        );
        vm.prank(operator);
        pool.collectFinal(lease, 0, "");
    }

    /// @dev Nobody else may cut the payee's claim window short.
    function test_C17_collectFinal_notProvider_reverts() public {
        _close(lease);
        address[3] memory others = [stranger, renter, poolOwner];
        for (uint256 i; i < others.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotParty.selector, others[i]));
            vm.prank(others[i]);
            pool.collectFinal(lease, 0, "");
        }
    }

    function test_C18_collectFinal_twice_reverts() public {
        _close(lease);
        vm.startPrank(operator);
        pool.collectFinal(lease, 0, "");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseSettled.selector, lease));
        pool.collectFinal(lease, 0, "");
    }

    /* EXPOSURE */

    function test_releaseExposure_afterBothWindows_freesStakeOnce() public {
        _skip(600);
        _close(lease);
        uint256 endsAt = block.timestamp + 3 days;
        uint256 exposure = uint256(PRICE) * DURATION;
        vm.warp(endsAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerWindowOpen.selector, endsAt, endsAt - 1));
        pool.releaseExposure(lease);

        vm.warp(endsAt);
        vm.assertEq(staking.unreserved(address(pool), provider), STAKE - exposure);
        vm.expectEmit(address(pool));
        emit IController.ExposureReleased(lease, exposure);
        vm.prank(stranger);
        pool.releaseExposure(lease);
        vm.assertEq(staking.unreserved(address(pool), provider), STAKE);

        vm.expectRevert(
            abi.encodeWithSelector(
                IController.ControllerLeaseNotClosed.selector, lease, IController.LeaseStatus.Released
            )
        );
        pool.releaseExposure(lease);
    }

    function test_releaseExposure_openLease_reverts() public {
        _skip(DURATION + 30 days);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerLeaseNotClosed.selector, lease, IController.LeaseStatus.Open)
        );
        pool.releaseExposure(lease);
    }

    /// @dev A lease closed late counts from its end, not from when somebody noticed.
    function test_releaseExposure_closedLate_countsFromTheEnd() public {
        _skip(DURATION + 3 days);
        pool.closeLease(lease);
        pool.releaseExposure(lease);
        vm.assertEq(staking.unreserved(address(pool), provider), STAKE);
    }

    /* HELPERS */

    function _demand() private {
        vm.prank(operator);
        pool.demandPayment(lease);
    }

    function _expectClosed(address by, IController.CloseReason reason, uint256 at) private {
        vm.expectEmit(address(pool));
        emit IController.LeaseClosed(lease, by, reason, at);
    }
}
