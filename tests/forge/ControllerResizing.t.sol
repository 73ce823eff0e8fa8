// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../../contracts/interfaces/IController.sol";
import {IDevices} from "../../contracts/interfaces/IDevices.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {Resize} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Another slice and price for an open lease, and a lease taken back for a compensation.
contract ControllerResizingTest is Fixture {
    bytes32 internal lease;
    uint256 internal openedAt;

    function setUp() public override {
        super.setUp();
        lease = _open();
        openedAt = block.timestamp;
        _skip(600);
    }

    function _to(uint16 share, uint32 memoryMiB, uint80 price) internal view returns (Resize memory) {
        uint32 sequence = uint32(escrow.resizesOf(address(pool), lease));
        return Resize(lease, share, memoryMiB, price, sequence, uint64(block.timestamp + 60));
    }

    function _byRenter(Resize memory wanted) internal view returns (bytes memory) {
        return _sign(RENTER_KEY, escrow.resizeDigest(wanted));
    }

    function _resize(Resize memory wanted) internal {
        bytes memory signature = _byRenter(wanted);
        vm.prank(operator);
        pool.resizeLease(wanted, signature);
    }

    function _expectRefused(bytes memory reason, Resize memory wanted) internal {
        bytes memory signature = _byRenter(wanted);
        vm.expectRevert(reason);
        vm.prank(provider);
        pool.resizeLease(wanted, signature);
    }

    /* RESIZE */

    function test_resizeLease_larger_ledgerExposureAndEarmarkFollow() public {
        Resize memory wanted = _to(500, 8192, 2 * PRICE);
        vm.expectEmit(address(pool));
        emit IController.LeaseResized(lease, 500, 8192, 2 * PRICE);
        _resize(wanted);
        IDevices.Device memory record = devices.deviceOf(device);
        vm.assertEq(record.usedShare, 500);
        vm.assertEq(record.usedMemoryMiB, 8192);
        vm.assertEq(record.latestEnd, openedAt + DURATION);
        vm.assertEq(pool.leaseOf(lease).share, 500);
        vm.assertEq(pool.leaseOf(lease).memoryMiB, 8192);
        vm.assertEq(pool.leaseOf(lease).exposure, 2 * uint256(PRICE) * DURATION);
        vm.assertEq(staking.provisionOf(address(pool), provider).exposure, 2 * uint256(PRICE) * DURATION);
        uint256 rent = uint256(PRICE) * 600 + 2 * uint256(PRICE) * (DURATION - 600);
        vm.assertEq(escrow.free(address(token), renter), FUNDS - 900 * uint256(PRICE) - rent);
    }

    function test_resizeLease_smaller_freesSliceAndStake() public {
        _resize(_to(100, 1024, PRICE / 2));
        vm.assertEq(devices.deviceOf(device).usedShare, 100);
        vm.assertEq(devices.deviceOf(device).usedMemoryMiB, 1024);
        vm.assertEq(staking.provisionOf(address(pool), provider).exposure, uint256(PRICE / 2) * DURATION);
        _close(lease);
        vm.assertEq(devices.deviceOf(device).usedShare, 0);
        _skip(4 days);
        pool.releaseExposure(lease);
        vm.assertEq(staking.provisionOf(address(pool), provider).exposure, 0);
    }

    function test_resizeLease_ofDemandedLease_dropsTheDemand() public {
        vm.prank(operator);
        pool.demandPayment(lease);
        _resize(_to(250, 4096, 10 * PRICE));
        _skip(16 minutes);
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotDemanded.selector, lease));
        pool.closeUnpaid(lease);
    }

    function test_resizeLease_deviceFull_reverts() public {
        _open();
        _expectRefused(abi.encodeWithSelector(IDevices.DevicesShareFull.selector, 750, 751), _to(751, 4096, PRICE));
    }

    function test_D15_resizeLease_stakeExhausted_reverts() public {
        uint256 free_ = staking.unreserved(address(pool), provider);
        vm.prank(provider);
        staking.thaw(address(pool), free_);
        uint256 more = uint256(DURATION);
        _expectRefused(
            abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 0, more), _to(250, 4096, PRICE + 1)
        );
    }

    function test_C17_resizeLease_notByProvider_reverts() public {
        Resize memory wanted = _to(300, 4096, PRICE);
        bytes memory signature = _byRenter(wanted);
        vm.prank(renter);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotParty.selector, renter));
        pool.resizeLease(wanted, signature);
    }

    function test_resizeLease_notSignedByRenter_reverts() public {
        Resize memory wanted = _to(300, 4096, PRICE);
        bytes memory signature = _sign(OPERATOR_KEY, escrow.resizeDigest(wanted));
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.resizeLease(wanted, signature);
    }

    function test_resizeLease_closedOrUnknown_reverts() public {
        Resize memory wanted = _to(300, 4096, PRICE);
        _close(lease);
        _expectRefused(
            abi.encodeWithSelector(IController.ControllerLeaseNotOpen.selector, lease, IController.LeaseStatus.Closed),
            wanted
        );
        wanted.lease = keccak256("unknown");
        _expectRefused(abi.encodeWithSelector(IController.ControllerLeaseUnknown.selector, wanted.lease), wanted);
    }

    function test_resizeLease_paused_reverts() public {
        vm.prank(poolOwner);
        pool.pause();
        _expectRefused(
            abi.encodeWithSelector(IController.ControllerPaused.selector, block.timestamp + 7 days),
            _to(300, 4096, PRICE)
        );
    }

    function test_resizeLease_drainingDevice_reverts() public {
        vm.prank(provider);
        devices.setDraining(device, true);
        _expectRefused(abi.encodeWithSelector(IDevices.DevicesDraining.selector, device), _to(300, 4096, PRICE));
    }

    /// @dev The device's stay in the pool is over: nothing may be reserved in another stay for this lease.
    function test_resizeLease_deviceLeft_reverts() public {
        _skip(DURATION + 1 days);
        vm.prank(provider);
        devices.leave(device);
        _join(device, pool);
        _expectRefused(
            abi.encodeWithSelector(IDevices.DevicesNotInPool.selector, device, address(pool)), _to(300, 4096, PRICE)
        );
    }

    function test_resizeLease_emptySlice_reverts() public {
        _expectRefused(abi.encodeWithSelector(IDevices.DevicesEmptySlice.selector), _to(0, 4096, PRICE));
        _expectRefused(abi.encodeWithSelector(IDevices.DevicesEmptySlice.selector), _to(1, 0, PRICE));
    }

    function test_resizeLease_memoryFull_reverts() public {
        _open();
        _expectRefused(
            abi.encodeWithSelector(IDevices.DevicesMemoryFull.selector, MEMORY - 4096, MEMORY - 4095),
            _to(250, MEMORY - 4095, PRICE)
        );
    }

    /* RECLAIM */

    function _fundOperator(uint256 amount) internal {
        token.mint(operator, amount);
        vm.prank(operator);
        token.approve(address(pool), amount);
    }

    function test_reclaimLease_atOnce_paysTheMissingNotice() public {
        uint256 compensation = 600 * uint256(PRICE);
        _fundOperator(compensation);
        uint256 free_ = escrow.free(address(token), renter);
        vm.expectEmit(address(pool));
        emit IController.LeaseReclaimed(lease, compensation);
        vm.prank(operator);
        pool.reclaimLease(lease, compensation);
        vm.assertEq(escrow.free(address(token), renter), free_ + compensation);
        vm.assertEq(token.balanceOf(operator), 0);
        vm.assertEq(token.balanceOf(address(pool)), 0);
        vm.assertEq(token.allowance(address(pool), address(escrow)), 0);
        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Closed);
        vm.assertEq(pool.leaseOf(lease).closedAt, block.timestamp);
        vm.assertEq(devices.deviceOf(device).usedShare, 0);
    }

    function test_reclaimLease_partOfTheNoticeOver_paysTheRest() public {
        vm.prank(operator);
        pool.giveNotice(lease);
        _skip(400);
        _fundOperator(200 * uint256(PRICE));
        vm.prank(operator);
        pool.reclaimLease(lease, 200 * uint256(PRICE));
        vm.assertEq(token.balanceOf(operator), 0);
    }

    function test_reclaimLease_noticeOver_costsNothing() public {
        vm.prank(operator);
        pool.giveNotice(lease);
        _skip(600);
        vm.prank(provider);
        pool.reclaimLease(lease, 0);
        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Closed);
    }

    function test_reclaimLease_nearTheEnd_paysOnlyUntilTheEnd() public {
        _skip(DURATION - 600 - 10);
        _fundOperator(10 * uint256(PRICE));
        vm.prank(operator);
        pool.reclaimLease(lease, 10 * uint256(PRICE));
        vm.assertEq(token.balanceOf(operator), 0);
    }

    function test_reclaimLease_aboveWhatTheCallerAllows_reverts() public {
        uint256 compensation = 600 * uint256(PRICE);
        vm.prank(operator);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerCompensationAbove.selector, compensation, compensation - 1)
        );
        pool.reclaimLease(lease, compensation - 1);
    }

    function test_reclaimLease_unfunded_reverts() public {
        vm.prank(operator);
        vm.expectRevert();
        pool.reclaimLease(lease, type(uint256).max);
        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Open);
    }

    function test_C17_reclaimLease_byOthers_reverts() public {
        vm.prank(renter);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotParty.selector, renter));
        pool.reclaimLease(lease, type(uint256).max);
    }

    function test_C18_reclaimLease_twice_reverts() public {
        _close(lease);
        vm.prank(operator);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerLeaseNotOpen.selector, lease, IController.LeaseStatus.Closed)
        );
        pool.reclaimLease(lease, 0);
    }

    function test_C23_reclaimLease_tokenThatKeepsAPart_reverts() public {
        uint256 compensation = 600 * uint256(PRICE);
        _fundOperator(compensation);
        vm.mockCall(address(escrow), abi.encodeWithSelector(IEscrow.depositFor.selector), abi.encode(compensation - 1));
        vm.prank(operator);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerCompensationShort.selector, compensation - 1, compensation)
        );
        pool.reclaimLease(lease, compensation);
    }
}
