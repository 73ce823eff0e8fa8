// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Controller} from "../../contracts/Controller.sol";
import {IController} from "../../contracts/interfaces/IController.sol";
import {IDevices} from "../../contracts/interfaces/IDevices.sol";
import {PoolArgs} from "../../contracts/libraries/PoolArgs.sol";
import {Fixture} from "./Fixture.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

/// @notice The duties of a pool beside its leases: rules, ownership, pause, entry, services, metadata.
contract ControllerTest is Fixture {
    bytes32 private constant KIND = keccak256("api");

    /* RULES */

    function test_provisionTerms_pool_areItsParams() public view {
        (address token_, address slasher_, uint32 thawPeriod, uint24 slashCapPpm) = pool.provisionTerms();
        vm.assertEq(token_, address(token));
        vm.assertEq(slasher_, address(slasher));
        vm.assertEq(thawPeriod, 21 days);
        vm.assertEq(slashCapPpm, 500_000);
    }

    function test_C38_initialize_again_reverts() public {
        vm.expectRevert(IController.ControllerInitialized.selector);
        pool.initialize(stranger);
        vm.assertEq(pool.node(), node);
    }

    function test_C38_initialize_implementation_reverts() public {
        vm.expectRevert(IController.ControllerInitialized.selector);
        implementation.initialize(stranger);
    }

    function test_initialize_cloneMadeByHand_onceOnly() public {
        bytes memory args = PoolArgs.pack(stranger, "hand", _params());
        IController clone = IController(Clones.cloneWithImmutableArgs(address(implementation), args));
        clone.initialize(address(0));
        vm.expectRevert(IController.ControllerInitialized.selector);
        clone.initialize(stranger);
    }

    /* OWNERSHIP */

    function test_offerOwnership_owner_offersOnly() public {
        vm.expectEmit(address(pool));
        emit IController.OwnershipOffered(poolOwner, stranger);
        vm.prank(poolOwner);
        pool.offerOwnership(stranger);
        vm.assertEq(pool.owner(), poolOwner);
        vm.assertEq(pool.heir(), stranger);
    }

    function test_C39_takeOwnership_heir_deniesOldOwnerEverything() public {
        vm.prank(poolOwner);
        pool.offerOwnership(stranger);
        vm.expectEmit(address(pool));
        emit IController.OwnershipTaken(poolOwner, stranger);
        vm.prank(stranger);
        pool.takeOwnership();

        vm.assertEq(pool.owner(), stranger);
        vm.assertEq(pool.founder(), poolOwner);
        vm.assertEq(pool.heir(), address(0));
        _expectDenied(poolOwner, stranger);
        vm.prank(stranger);
        pool.setNode(address(1));
    }

    function test_takeOwnership_twoHeirsInTurn_lastOwns() public {
        vm.prank(poolOwner);
        pool.offerOwnership(stranger);
        vm.prank(stranger);
        pool.takeOwnership();
        vm.prank(stranger);
        pool.offerOwnership(renter);
        vm.prank(renter);
        pool.takeOwnership();
        vm.assertEq(pool.owner(), renter);
    }

    function test_takeOwnership_notHeir_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotHeir.selector, stranger, address(0)));
        vm.prank(stranger);
        pool.takeOwnership();

        vm.prank(poolOwner);
        pool.offerOwnership(renter);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotHeir.selector, stranger, renter));
        vm.prank(stranger);
        pool.takeOwnership();
    }

    function test_offerOwnership_zero_withdrawsOffer() public {
        vm.startPrank(poolOwner);
        pool.offerOwnership(stranger);
        pool.offerOwnership(address(0));
        vm.stopPrank();
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotHeir.selector, stranger, address(0)));
        vm.prank(stranger);
        pool.takeOwnership();
    }

    function test_C17_ownerCalls_byOthers_revert() public {
        _expectDenied(stranger, poolOwner);
        _expectDenied(node, poolOwner);
        _expectDenied(provider, poolOwner);
    }

    function test_C39_setNode_owner_replacesOldKey() public {
        vm.expectEmit(address(pool));
        emit IController.NodeChanged(node, stranger);
        vm.prank(poolOwner);
        pool.setNode(stranger);
        vm.assertEq(pool.node(), stranger);

        vm.expectRevert(abi.encodeWithSelector(IController.ControllerProvisionBelow.selector, 0, MIN_PROVISION));
        vm.prank(node);
        pool.announce(KIND, "x", 0, 60);
    }

    function _expectDenied(address caller, address owner) private {
        bytes memory error = abi.encodeWithSelector(IController.ControllerNotOwner.selector, caller, owner);
        vm.startPrank(caller);
        vm.expectRevert(error);
        pool.setNode(caller);
        vm.expectRevert(error);
        pool.setMetadata(0, "");
        vm.expectRevert(error);
        pool.offerOwnership(caller);
        vm.expectRevert(error);
        pool.pause();
        vm.expectRevert(error);
        pool.unpause();
        vm.stopPrank();
    }

    /* PAUSE */

    function test_pause_owner_stopsNewBusinessUntilItsEnd() public {
        uint256 until = block.timestamp + 7 days;
        _pause();
        bytes memory error = abi.encodeWithSelector(IController.ControllerPaused.selector, until);
        vm.assertEq(pool.pausedUntil(), until);

        _refuse(_offer(), _request(), error);
        vm.expectRevert(error);
        vm.prank(poolOwner);
        pool.announce(KIND, "x", 0, 60);
        bytes32 second = _registerDevice("gpu-1");
        vm.expectRevert(error);
        vm.prank(provider);
        devices.join(second, address(pool));

        vm.warp(until - 1);
        _refuse(_offer(), _request(), error);
        vm.warp(until);
        vm.assertEq(pool.pausedUntil(), 0);
        _open();
    }

    function test_C37_pause_runningLease_everyExitStaysOpen() public {
        bytes32 lease = _open();
        bytes32 second = _open();
        bytes32 third = _open();
        _pause();

        vm.startPrank(operator);
        pool.giveNotice(lease);
        pool.demandPayment(second);
        vm.stopPrank();
        _skip(60);
        _collect(third, PRICE);
        _close(third);
        _skip(840);
        vm.startPrank(operator);
        pool.closeLease(lease);
        pool.closeUnpaid(second);
        pool.collectFinal(third, 0, "");
        vm.stopPrank();
        _skip(3 days);
        pool.releaseExposure(lease);
        vm.startPrank(provider);
        devices.leave(device);
        staking.thaw(address(pool), 1);
        vm.stopPrank();
        vm.assertTrue(pool.pausedUntil() != 0);
    }

    function test_D16_pause_again_reverts30Days() public {
        uint256 notBefore = block.timestamp + 30 days;
        _pause();
        _skip(7 days);
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerPausedRecently.selector, notBefore, block.timestamp)
        );
        vm.prank(poolOwner);
        pool.pause();

        vm.warp(notBefore - 1);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerPausedRecently.selector, notBefore, notBefore - 1));
        vm.prank(poolOwner);
        pool.pause();
        vm.warp(notBefore);
        _pause();
        vm.assertEq(pool.pausedUntil(), notBefore + 7 days);
    }

    function test_unpause_owner_endsPauseButNotInterval() public {
        uint256 notBefore = block.timestamp + 30 days;
        _pause();
        vm.expectEmit(address(pool));
        emit IController.Unpaused();
        vm.startPrank(poolOwner);
        pool.unpause();
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerPausedRecently.selector, notBefore, block.timestamp)
        );
        pool.pause();
        vm.stopPrank();
        _open();
    }

    function test_unpause_notPaused_reverts() public {
        vm.expectRevert(IController.ControllerNotPaused.selector);
        vm.prank(poolOwner);
        pool.unpause();

        _pause();
        _skip(7 days);
        vm.expectRevert(IController.ControllerNotPaused.selector);
        vm.prank(poolOwner);
        pool.unpause();
    }

    function _pause() private {
        vm.expectEmit(address(pool));
        emit IController.Paused(block.timestamp + 7 days);
        vm.prank(poolOwner);
        pool.pause();
    }

    /* ENTRY */

    function test_onDeviceJoin_tooLittleStake_reverts() public {
        uint256 spare = staking.unreserved(address(pool), provider) - MIN_PROVISION;
        vm.prank(provider);
        staking.thaw(address(pool), spare);
        bytes32 second = _registerDevice("gpu-1");
        _join(second, pool);
        vm.assertEq(devices.deviceOf(second).pool, address(pool));

        vm.prank(provider);
        staking.thaw(address(pool), 1);
        bytes32 third = _registerDevice("gpu-2");
        vm.expectRevert(
            abi.encodeWithSelector(IController.ControllerProvisionBelow.selector, MIN_PROVISION - 1, MIN_PROVISION)
        );
        vm.prank(provider);
        devices.join(third, address(pool));
    }

    function test_onDeviceJoin_notFromDevices_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerNotDevices.selector, provider, address(devices)));
        vm.prank(provider);
        pool.onDeviceJoin("gpu", provider);
    }

    /// @dev Leases name devices by half of their id: no two with the same half are in one pool.
    function test_onDeviceJoin_sameHalfOfId_reverts() public {
        bytes32 twin = bytes32(bytes16(device)) | bytes32(uint256(1));
        vm.startPrank(address(devices));
        pool.onDeviceJoin(device, provider);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerDeviceClash.selector, twin, device));
        pool.onDeviceJoin(twin, provider);
    }

    /* SERVICES */

    function test_announce_provider_isFoundUntilItExpires() public {
        uint256 expiresAt = block.timestamp + 1 hours;
        vm.expectEmit(address(pool));
        emit IController.ServiceAnnounced(provider, KIND, "https://a", "digest", expiresAt);
        vm.prank(provider);
        pool.announce(KIND, "https://a", "digest", 1 hours);

        IController.Service memory service = pool.serviceOf(provider, KIND);
        vm.assertEq(service.uri, "https://a");
        vm.assertEq(service.digest, bytes32("digest"));
        vm.assertEq(service.expiresAt, expiresAt);
        vm.warp(expiresAt - 1);
        vm.assertEq(pool.serviceOf(provider, KIND).uri, "https://a");
        vm.warp(expiresAt);
        vm.assertEq(pool.serviceOf(provider, KIND).uri, "");
        vm.assertEq(pool.serviceOf(provider, KIND).expiresAt, 0);
    }

    function test_announce_again_renews() public {
        vm.startPrank(node);
        pool.announce(KIND, "https://a", 0, 1 hours);
        _skip(30 minutes);
        pool.announce(KIND, "https://b", 0, 1 hours);
        vm.assertEq(pool.serviceOf(node, KIND).uri, "https://b");
        vm.assertEq(pool.serviceOf(node, KIND).expiresAt, block.timestamp + 1 hours);
    }

    function test_announce_ownerNodeOrStaked_othersRevert() public {
        vm.prank(poolOwner);
        pool.announce(KIND, "x", 0, 60);
        vm.prank(node);
        pool.announce(KIND, "x", 0, 60);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerProvisionBelow.selector, 0, MIN_PROVISION));
        vm.prank(stranger);
        pool.announce(KIND, "x", 0, 60);
    }

    function test_announce_ttlOutside_reverts() public {
        vm.startPrank(node);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerTtlOutside.selector, 59, 30 days));
        pool.announce(KIND, "x", 0, 59);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerTtlOutside.selector, 30 days + 1, 30 days));
        pool.announce(KIND, "x", 0, 30 days + 1);
        pool.announce(KIND, "x", 0, 30 days);
    }

    function test_C25_texts_tooLong_revert() public {
        string memory most = string(new bytes(200));
        string memory tooLong = string(new bytes(201));
        bytes memory error = abi.encodeWithSelector(IController.ControllerTextTooLong.selector, 201, 200);
        vm.startPrank(poolOwner);
        vm.expectRevert(error);
        pool.announce(KIND, tooLong, 0, 60);
        vm.expectRevert(error);
        pool.setMetadata(0, tooLong);
        pool.announce(KIND, most, 0, 60);
        pool.setMetadata(0, most);
    }

    function test_withdrawService_own_removesAndEmits() public {
        vm.startPrank(node);
        pool.announce(KIND, "x", 0, 60);
        vm.expectEmit(address(pool));
        emit IController.ServiceWithdrawn(node, KIND);
        pool.withdrawService(KIND);
        vm.assertEq(pool.serviceOf(node, KIND).uri, "");
    }

    function test_withdrawService_unknown_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerServiceUnknown.selector, stranger, KIND));
        vm.prank(stranger);
        pool.withdrawService(KIND);
    }

    /* METADATA */

    function test_setMetadata_owner_keepsDigestAndEmits() public {
        vm.expectEmit(address(pool));
        emit IController.MetadataSet("digest", "ipfs://x");
        vm.prank(poolOwner);
        pool.setMetadata("digest", "ipfs://x");
        vm.assertEq(pool.metadataDigest(), bytes32("digest"));
    }
}
