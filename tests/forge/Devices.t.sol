// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Devices} from "../../contracts/Devices.sol";
import {IDevices} from "../../contracts/interfaces/IDevices.sol";
import {ForgeTest} from "./Vm.sol";

/// @notice A pool that lets everybody in, and fills and empties the ledger as it is told.
contract OpenPool {
    function onDeviceJoin(bytes32, address) external pure {}
}

contract ShutPool {
    error NotHere(bytes32 device, address provider);

    function onDeviceJoin(bytes32 device, address provider) external pure {
        revert NotHere(device, provider);
    }
}

contract DevicesTest is ForgeTest {
    bytes32 private constant UUID = keccak256("GPU-1");
    bytes32 private constant MODEL = keccak256("H200");
    uint32 private constant MEMORY = 10_000;

    address private owner = address(0x0111);
    address private operator = address(0x0222);
    address private payout = address(0x0333);
    address private stranger = address(0x0444);
    Devices private devices;
    address private pool;
    bytes32 private device;

    function setUp() public {
        vm.warp(1_800_000_000);
        devices = new Devices();
        pool = address(new OpenPool());
        vm.startPrank(owner);
        devices.registerProvider(operator, payout);
        device = devices.registerDevice(UUID, 1, MEMORY, MODEL);
        devices.join(device, pool);
        vm.stopPrank();
    }

    /* PROVIDERS */

    function test_registerProvider_any_keepsKeysAndEmits() public {
        vm.expectEmit(address(devices));
        emit IDevices.ProviderRegistered(stranger, operator, payout);
        vm.prank(stranger);
        devices.registerProvider(operator, payout);

        IDevices.Provider memory provider = devices.providerOf(stranger);
        vm.assertEq(provider.operator, operator);
        vm.assertEq(provider.payout, payout);
    }

    function test_registerProvider_again_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesProviderKnown.selector, owner));
        vm.prank(owner);
        devices.registerProvider(operator, payout);
    }

    function test_registerProvider_zeroKey_reverts() public {
        vm.startPrank(stranger);
        vm.expectRevert(IDevices.DevicesZeroAddress.selector);
        devices.registerProvider(address(0), payout);
        vm.expectRevert(IDevices.DevicesZeroAddress.selector);
        devices.registerProvider(operator, address(0));
    }

    function test_registerProvider_keysNotApart_reverts() public {
        vm.startPrank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesKeysNotApart.selector, stranger));
        devices.registerProvider(stranger, payout);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesKeysNotApart.selector, operator));
        devices.registerProvider(operator, operator);
    }

    function test_registerProvider_payoutIsOwner_allowed() public {
        vm.prank(stranger);
        devices.registerProvider(operator, stranger);
        vm.assertEq(devices.providerOf(stranger).payout, stranger);
    }

    function test_C39_setOperator_owner_revokesOldAtOnce() public {
        vm.expectEmit(address(devices));
        emit IDevices.OperatorChanged(owner, operator, stranger);
        vm.prank(owner);
        devices.setOperator(stranger);

        vm.assertTrue(devices.isOperator(owner, stranger));
        vm.assertFalse(devices.isOperator(owner, operator));
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesNotProvider.selector, operator, owner));
        vm.prank(operator);
        devices.cancelOffers(device);
    }

    function test_setOperator_badKeys_reverts() public {
        vm.startPrank(owner);
        vm.expectRevert(IDevices.DevicesZeroAddress.selector);
        devices.setOperator(address(0));
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesKeysNotApart.selector, owner));
        devices.setOperator(owner);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesKeysNotApart.selector, payout));
        devices.setOperator(payout);
    }

    function test_setPayout_owner_changesAndEmits() public {
        vm.expectEmit(address(devices));
        emit IDevices.PayoutChanged(owner, payout, stranger);
        vm.prank(owner);
        devices.setPayout(stranger);
        vm.assertEq(devices.providerOf(owner).payout, stranger);
    }

    function test_O21_setPayout_operatorKey_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesProviderUnknown.selector, operator));
        vm.prank(operator);
        devices.setPayout(stranger);

        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesKeysNotApart.selector, operator));
        vm.prank(owner);
        devices.setPayout(operator);
    }

    function test_setOperator_unknownProvider_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesProviderUnknown.selector, stranger));
        vm.prank(stranger);
        devices.setOperator(operator);
    }

    function test_isOperator_zeroKeyOfUnknown_false() public view {
        vm.assertFalse(devices.isOperator(stranger, address(0)));
    }

    function test_providerOf_unknown_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesProviderUnknown.selector, stranger));
        devices.providerOf(stranger);
    }

    /* DEVICES */

    function test_registerDevice_any_keepsSpecAndEmits() public {
        bytes32 uuid = keccak256("GPU-2");
        bytes32 expected = keccak256(abi.encode(owner, uuid));
        vm.expectEmit(address(devices));
        emit IDevices.DeviceRegistered(expected, owner, uuid, 0, 77, MODEL);
        vm.prank(owner);
        vm.assertEq(devices.registerDevice(uuid, 0, 77, MODEL), expected);

        IDevices.Device memory record = devices.deviceOf(expected);
        vm.assertEq(record.provider, owner);
        vm.assertEq(record.memoryMiB, 77);
        vm.assertEq(record.kind, 0);
        vm.assertEq(record.model, MODEL);
        vm.assertEq(record.pool, address(0));
        vm.assertEq(devices.deviceId(owner, uuid), expected);
        vm.assertEq(devices.deviceOf(device).kind, 1);
    }

    function test_registerDevice_unknownProvider_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesProviderUnknown.selector, stranger));
        vm.prank(stranger);
        devices.registerDevice(UUID, 1, MEMORY, MODEL);
    }

    function test_registerDevice_badSpec_reverts() public {
        vm.startPrank(owner);
        vm.expectRevert(IDevices.DevicesBadSpec.selector);
        devices.registerDevice(keccak256("x"), 2, MEMORY, MODEL);
        vm.expectRevert(IDevices.DevicesBadSpec.selector);
        devices.registerDevice(keccak256("x"), 1, 0, MODEL);
    }

    function test_D07_registerDevice_twice_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesDeviceKnown.selector, device));
        vm.prank(owner);
        devices.registerDevice(UUID, 1, MEMORY, MODEL);
    }

    function test_deviceOf_unknown_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesDeviceUnknown.selector, bytes32("none")));
        devices.deviceOf("none");
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesDeviceUnknown.selector, bytes32("none")));
        devices.standingOf("none");
    }

    function test_standingOf_joined_tellsKeysPoolAndEpoch() public {
        vm.prank(operator);
        devices.cancelOffers(device);
        IDevices.Standing memory standing = devices.standingOf(device);
        vm.assertEq(abi.encode(standing), abi.encode(IDevices.Standing(owner, pool, operator, payout, 1, 0)));
    }

    /* JOINING AND LEAVING */

    function test_join_owner_entersPoolAndEmits() public {
        bytes32 second = _register("GPU-2");
        vm.expectEmit(address(devices));
        emit IDevices.DeviceJoined(second, pool);
        vm.prank(owner);
        devices.join(second, pool);
        vm.assertEq(devices.deviceOf(second).pool, pool);
    }

    function test_join_poolRefuses_reverts() public {
        bytes32 second = _register("GPU-2");
        address shut = address(new ShutPool());
        vm.expectRevert(abi.encodeWithSelector(ShutPool.NotHere.selector, second, owner));
        vm.prank(owner);
        devices.join(second, shut);
    }

    function test_join_noPool_reverts() public {
        bytes32 second = _register("GPU-2");
        vm.startPrank(owner);
        vm.expectRevert(IDevices.DevicesZeroAddress.selector);
        devices.join(second, address(0));
        vm.expectRevert();
        devices.join(second, stranger);
    }

    function test_D07_join_secondPool_reverts() public {
        address second = address(new OpenPool());
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesInPool.selector, device, pool));
        vm.prank(owner);
        devices.join(device, second);
    }

    function test_C17_ownerCalls_byOthers_revert() public {
        address[2] memory others = [operator, stranger];
        for (uint256 i; i < others.length; ++i) {
            bytes memory error = abi.encodeWithSelector(IDevices.DevicesNotOwner.selector, others[i], owner);
            vm.startPrank(others[i]);
            vm.expectRevert(error);
            devices.join(device, pool);
            vm.expectRevert(error);
            devices.leave(device);
            vm.expectRevert(error);
            devices.setDraining(device, true);
            vm.stopPrank();
        }
    }

    function test_leave_unused_leavesAndEmits() public {
        vm.expectEmit(address(devices));
        emit IDevices.DeviceLeft(device, pool);
        vm.prank(owner);
        devices.leave(device);
        vm.assertEq(devices.deviceOf(device).pool, address(0));
        vm.assertEq(devices.deviceOf(device).stint, 0);
    }

    function test_leave_notInPool_reverts() public {
        vm.startPrank(owner);
        devices.leave(device);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesNotInPool.selector, device, address(0)));
        devices.leave(device);
    }

    function test_leave_inUse_revertsWithTimeOfExit() public {
        _reserve(300, 100, 1 hours);
        uint256 freeAt = block.timestamp + 1 hours + 1 days;
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesInUse.selector, device, 300, freeAt));
        vm.prank(owner);
        devices.leave(device);

        vm.warp(freeAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesInUse.selector, device, 300, freeAt));
        vm.prank(owner);
        devices.leave(device);
    }

    /// @dev A pool that never frees its slices holds a drained device one day beyond the longest of them, no longer.
    function test_C43_leave_hostilePool_exitsAfterLongestReservation() public {
        _reserve(300, 100, 90 days);
        vm.prank(owner);
        devices.setDraining(device, true);
        _skip(90 days - 1);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesDraining.selector, device));
        vm.prank(pool);
        devices.reserve(device, 1, 1, block.timestamp + 90 days);

        _skip(1 days + 1);
        vm.prank(owner);
        devices.leave(device);

        IDevices.Device memory record = devices.deviceOf(device);
        vm.assertEq(record.pool, address(0));
        vm.assertEq(record.usedShare, 0);
        vm.assertEq(record.usedMemoryMiB, 0);
        vm.assertEq(record.latestEnd, 0);
        vm.assertEq(record.stint, 1);
        vm.assertFalse(record.isDraining);
    }

    /// @dev The slice of an abandoned stay must not free what a later stay reserved.
    function test_release_ofAbandonedStay_changesNothing() public {
        _reserve(600, 100, 1 hours);
        _skip(1 hours + 1 days);
        vm.startPrank(owner);
        devices.leave(device);
        devices.join(device, pool);
        vm.stopPrank();
        _reserve(700, 200, 1 hours);

        vm.prank(pool);
        vm.assertFalse(devices.release(device, 600, 100, 0));
        vm.assertEq(devices.deviceOf(device).usedShare, 700);

        vm.prank(pool);
        vm.assertTrue(devices.release(device, 700, 200, 1));
        vm.assertEq(devices.deviceOf(device).usedShare, 0);
    }

    function test_setDraining_owner_togglesAndEmits() public {
        vm.startPrank(owner);
        vm.expectEmit(address(devices));
        emit IDevices.DeviceDraining(device, true);
        devices.setDraining(device, true);
        vm.assertTrue(devices.deviceOf(device).isDraining);
        devices.setDraining(device, false);
        vm.stopPrank();
        _reserve(1, 1, 60);
    }

    function test_cancelOffers_ownerOrOperator_raisesEpoch() public {
        vm.prank(operator);
        vm.assertEq(devices.cancelOffers(device), 1);
        vm.expectEmit(address(devices));
        emit IDevices.OffersCancelled(device, 2);
        vm.prank(owner);
        devices.cancelOffers(device);
        vm.assertEq(devices.deviceOf(device).offerEpoch, 2);
    }

    function test_C17_cancelOffers_stranger_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesNotProvider.selector, stranger, owner));
        vm.prank(stranger);
        devices.cancelOffers(device);
    }

    /* LEDGER */

    function test_reserve_pool_fillsLedgerAndEmits() public {
        uint256 until = block.timestamp + 1 hours;
        vm.expectEmit(address(devices));
        emit IDevices.SliceReserved(device, 300, 4000, until);
        vm.prank(pool);
        devices.reserve(device, 300, 4000, until);
        _reserve(200, 1000, 60);

        IDevices.Device memory record = devices.deviceOf(device);
        vm.assertEq(record.usedShare, 500);
        vm.assertEq(record.usedMemoryMiB, 5000);
        vm.assertEq(record.latestEnd, until);
    }

    function test_E03_reserve_beyondShare_reverts() public {
        _reserve(700, 1, 60);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesShareFull.selector, 300, 301));
        vm.prank(pool);
        devices.reserve(device, 301, 1, block.timestamp);
        _reserve(300, 1, 60);
    }

    function test_E03_reserve_beyondMemory_reverts() public {
        _reserve(1, 9000, 60);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesMemoryFull.selector, 1000, 1001));
        vm.prank(pool);
        devices.reserve(device, 1, 1001, block.timestamp);
        _reserve(1, 1000, 60);
    }

    function test_reserve_emptySlice_reverts() public {
        vm.startPrank(pool);
        vm.expectRevert(IDevices.DevicesEmptySlice.selector);
        devices.reserve(device, 0, 1, block.timestamp);
        vm.expectRevert(IDevices.DevicesEmptySlice.selector);
        devices.reserve(device, 1, 0, block.timestamp);
    }

    function test_C46_reserve_tooLong_reverts() public {
        uint256 latest = block.timestamp + 90 days;
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesReservationTooLong.selector, latest + 1, latest));
        vm.prank(pool);
        devices.reserve(device, 1, 1, latest + 1);
    }

    function test_C17_ledger_otherPool_reverts() public {
        bytes memory error = abi.encodeWithSelector(IDevices.DevicesNotInPool.selector, device, stranger);
        _reserve(10, 10, 60);
        vm.startPrank(stranger);
        vm.expectRevert(error);
        devices.reserve(device, 1, 1, block.timestamp);
        vm.expectRevert(error);
        devices.release(device, 1, 1, 0);
    }

    function test_release_pool_freesAndEmits() public {
        _reserve(300, 4000, 60);
        vm.expectEmit(address(devices));
        emit IDevices.SliceReleased(device, 100, 1000);
        vm.prank(pool);
        vm.assertTrue(devices.release(device, 100, 1000, 0));
        vm.assertEq(devices.deviceOf(device).usedShare, 200);
        vm.assertEq(devices.deviceOf(device).usedMemoryMiB, 3000);
    }

    function test_release_aboveUsed_reverts() public {
        _reserve(300, 4000, 60);
        vm.startPrank(pool);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesReleaseAbove.selector, 300, 301));
        devices.release(device, 301, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(IDevices.DevicesReleaseAbove.selector, 4000, 4001));
        devices.release(device, 1, 4001, 0);
    }

    /// @dev Whatever a pool asks, in whatever order, the ledger is the sum of its live slices and never above the device.
    function testFuzz_E03_ledger_anyCalls_isSumOfLiveSlices(uint256[16] calldata draws) public {
        uint256 share;
        uint256 memoryMiB;
        uint16[16] memory shares;
        uint32[16] memory memories;
        for (uint256 i; i < draws.length; ++i) {
            uint16 askedShare = uint16(bound(draws[i], 0, 600));
            uint32 askedMemory = uint32(bound(draws[i] >> 16, 0, 6000));
            vm.prank(pool);
            try devices.reserve(device, askedShare, askedMemory, block.timestamp + 60) {
                (shares[i], memories[i]) = (askedShare, askedMemory);
                share += askedShare;
                memoryMiB += askedMemory;
            } catch {}
            uint256 victim = (draws[i] >> 64) % 16;
            if (draws[i] % 3 == 0 && shares[victim] != 0) {
                vm.prank(pool);
                devices.release(device, shares[victim], memories[victim], 0);
                share -= shares[victim];
                memoryMiB -= memories[victim];
                shares[victim] = 0;
            }
            IDevices.Device memory record = devices.deviceOf(device);
            vm.assertEq(record.usedShare, share);
            vm.assertEq(record.usedMemoryMiB, memoryMiB);
            vm.assertLe(share, 1000);
            vm.assertLe(memoryMiB, MEMORY);
        }
    }

    function _register(string memory uuid) private returns (bytes32) {
        vm.prank(owner);
        return devices.registerDevice(keccak256(bytes(uuid)), 1, MEMORY, MODEL);
    }

    function _reserve(uint16 share, uint32 memoryMiB, uint256 span) private {
        vm.prank(pool);
        devices.reserve(device, share, memoryMiB, block.timestamp + span);
    }

    function _skip(uint256 elapsed) private {
        vm.warp(block.timestamp + elapsed);
    }
}
