// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Offer, Request} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Gas of whole transactions: run with `--isolate`.
contract ControllerGasTest is Fixture {
    function test_gas_pools() external {
        vm.prank(poolOwner);
        factory.createPool("second", node, _params());
        vm.snapshotGasLastCall("createPool");
    }

    function test_gas_devices() external {
        vm.prank(stranger);
        devices.registerProvider(operator, payout);
        vm.snapshotGasLastCall("registerProvider");
        vm.prank(stranger);
        devices.registerDevice("first", 1, MEMORY, keccak256("H200"));
        vm.snapshotGasLastCall("registerDevice_first");
        bytes32 second = _registerDevice("gpu-1");
        vm.snapshotGasLastCall("registerDevice");
        _join(second, pool);
        vm.snapshotGasLastCall("join");
        vm.prank(operator);
        devices.cancelOffers(second);
        vm.snapshotGasLastCall("cancelOffers");
        vm.prank(provider);
        devices.leave(second);
        vm.snapshotGasLastCall("leave");
    }

    function test_gas_leases() external {
        bytes32 first = _open();
        vm.snapshotGasLastCall("openLease_first");
        bytes32 second = _open();
        vm.snapshotGasLastCall("openLease");
        _skip(600);
        vm.prank(operator);
        pool.giveNotice(second);
        vm.snapshotGasLastCall("giveNotice");
        vm.prank(operator);
        pool.demandPayment(second);
        vm.snapshotGasLastCall("demandPayment");
        vm.prank(renter);
        pool.closeLease(first);
        vm.snapshotGasLastCall("closeLease");
        _collectFinal(first, 500 * PRICE);
        vm.snapshotGasLastCall("collectFinal_first");
        _skip(900);
        vm.prank(operator);
        pool.closeUnpaid(second);
        vm.snapshotGasLastCall("closeUnpaid_last");
        _skip(3 days);
        pool.releaseExposure(first);
        vm.snapshotGasLastCall("releaseExposure");
    }

    function test_gas_attestations() external {
        for (uint256 i; i < 3; ++i) {
            vm.prank(node);
            attestations.postReceipts(address(pool), bytes32(i + 1), uint32(10 ** (2 * i)), "data");
            vm.snapshotGasLastCall(string.concat("postReceipts_of_", vm.toString(10 ** (2 * i))));
        }
    }

    function _collectFinal(bytes32 lease, uint128 cumulative) private {
        bytes memory signature = _signVoucher(lease, cumulative);
        vm.prank(operator);
        pool.collectFinal(lease, cumulative, signature);
    }
}
