// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Fees} from "../../contracts/libraries/Fees.sol";
import {LeaseIds} from "../../contracts/libraries/LeaseIds.sol";
import {Ppm} from "../../contracts/libraries/Ppm.sol";
import {ForgeTest} from "./Vm.sol";

contract LibrariesTest is ForgeTest {
    function test_mulDown_roundsDown() external pure {
        vm.assertEq(Ppm.mulDown(999_999, 1), 0);
        vm.assertEq(Ppm.mulDown(1_000_000, 1), 1);
        vm.assertEq(Ppm.mulDown(1_999_999, 1), 1);
    }

    function test_mulUp_roundsUp() external pure {
        vm.assertEq(Ppm.mulUp(0, 1), 0);
        vm.assertEq(Ppm.mulUp(1, 1), 1);
        vm.assertEq(Ppm.mulUp(1_000_000, 1), 1);
        vm.assertEq(Ppm.mulUp(1_000_001, 1), 2);
    }

    function test_C42_mulUpAndDown_differByAtMostOne(uint128 amount, uint24 ppm) external pure {
        uint256 up = Ppm.mulUp(amount, ppm);
        uint256 down = Ppm.mulDown(amount, ppm);
        vm.assertLe(up - down, 1);
        vm.assertLe(down * 1_000_000, uint256(amount) * ppm);
        vm.assertGe(up * 1_000_000, uint256(amount) * ppm);
    }

    function test_C42_split_neverExceedsThePayment(uint104 first, uint104 second, uint256 feePpm, uint256 burnPpm)
        external
        pure
    {
        (uint256 previous, uint256 next) = first < second ? (first, second) : (second, first);
        feePpm = feePpm % 250_001;
        burnPpm = burnPpm % 100_001;
        (uint256 fee, uint256 burnt) = Fees.split(previous, next, feePpm, burnPpm);
        vm.assertLe(fee + burnt, next - previous);
    }

    function test_C42_split_ofOneUnit_neverExceedsIt(uint104 previous, uint256 feePpm, uint256 burnPpm) external pure {
        (uint256 fee, uint256 burnt) = Fees.split(previous, uint256(previous) + 1, feePpm % 250_001, burnPpm % 100_001);
        vm.assertLe(fee + burnt, 1);
    }

    function test_split_wholePayment_isFeeThenBurnOfTheRest(uint104 amount, uint256 feePpm, uint256 burnPpm)
        external
        pure
    {
        feePpm = feePpm % 250_001;
        burnPpm = burnPpm % 100_001;
        (uint256 fee, uint256 burnt) = Fees.split(0, amount, feePpm, burnPpm);
        vm.assertEq(fee, uint256(amount) * feePpm / 1_000_000);
        vm.assertEq(burnt, (amount - fee) * burnPpm / 1_000_000);
    }

    function test_C34_leaseId_dependsOnEverything(address controller, bytes32 offer, bytes32 request) external {
        bytes32 id = LeaseIds.compute(controller, offer, request);
        vm.assertEq(id, keccak256(abi.encode(block.chainid, controller, offer, request)));
        vm.assertNotEq(id, LeaseIds.compute(address(uint160(controller) ^ 1), offer, request));
        vm.assertNotEq(id, LeaseIds.compute(controller, bytes32(uint256(offer) ^ 1), request));
        vm.assertNotEq(id, LeaseIds.compute(controller, offer, bytes32(uint256(request) ^ 1)));
        vm.chainId(block.chainid + 1);
        vm.assertNotEq(id, LeaseIds.compute(controller, offer, request));
    }
}
