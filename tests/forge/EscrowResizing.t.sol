// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Request, Resize} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Another price for a running lease.
contract EscrowResizingTest is MoneyBase {
    uint256 internal constant RENT = uint256(PRICE) * DURATION;
    uint256 internal constant DEPOSIT = uint256(PRICE) * DEPOSIT_SECONDS;
    uint256 internal constant END = START + DURATION;

    bytes32 internal lease;

    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
        lease = open(0);
        vm.warp(START + 600);
    }

    function to(uint80 price) internal view returns (Resize memory) {
        uint32 sequence = uint32(escrow.resizesOf(address(pool), lease));
        return Resize(lease, 1, 1, price, sequence, uint64(block.timestamp + 60));
    }

    function resize(Resize memory wanted) internal {
        pool.resizeLease(wanted, sign(RENTER_KEY, escrow.resizeDigest(wanted)));
    }

    function expectRefused(bytes memory reason, Resize memory wanted) internal {
        bytes memory signature = sign(RENTER_KEY, escrow.resizeDigest(wanted));
        vm.expectRevert(reason);
        pool.resizeLease(wanted, signature);
    }

    function test_resizeLease_dearer_foldsAndEarmarksTheRest() external {
        Resize memory wanted = to(3 * PRICE);
        bytes memory signature = sign(RENTER_KEY, escrow.resizeDigest(wanted));
        uint256 rent = 600 * PRICE + 3000 * 3 * uint256(PRICE);
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseRepriced(address(pool), lease, 3 * PRICE, 600 * PRICE, rent);
        pool.resizeLease(wanted, signature);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT - rent);
        vm.assertEq(leaseOf(lease).pricePerSecond, 3 * PRICE);
        vm.assertEq(leaseOf(lease).duration, DURATION);
        vm.assertEq(escrow.resizesOf(address(pool), lease), 1);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 600 * PRICE);
        vm.warp(START + 700);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 900 * PRICE);
        vm.warp(END + 5);
        vm.assertEq(collect(lease, type(uint128).max), rent);
        vm.warp(END + CLAIM_WINDOW);
        escrow.settle(address(pool), lease);
        vm.assertEq(freeOf(renter), FUNDS - rent);
    }

    function test_resizeLease_cheaper_givesTheDifferenceBack() external {
        resize(to(PRICE / 2));
        uint256 rent = 600 * PRICE + 3000 * uint256(PRICE / 2);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT - rent);
        pool.stopLease(lease);
        pool.settleEarly(lease);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT);
    }

    function test_resizeLease_twice_foldsTwice() external {
        resize(to(2 * PRICE));
        vm.warp(START + 700);
        resize(to(3 * PRICE));
        vm.warp(START + 710);
        vm.assertEq(escrow.accruedOf(address(pool), lease), (600 + 200 + 30) * PRICE);
        vm.assertEq(collect(lease, type(uint128).max), 830 * PRICE);
        pool.stopLease(lease);
        vm.warp(START + 5000);
        vm.assertEq(escrow.accruedOf(address(pool), lease), 830 * PRICE);
        pool.settleEarly(lease);
        vm.assertEq(freeOf(renter), FUNDS - 830 * PRICE);
    }

    function test_resizeLease_openingDeposit_staysWhatItWas() external {
        resize(to(2 * PRICE));
        uint256 previous = freeOf(renter);
        collect(lease, 1);
        vm.assertEq(freeOf(renter), previous + DEPOSIT);
    }

    function test_resizeLease_unpaidLease_burnsTheOpeningDeposit() external {
        resize(to(2 * PRICE));
        pool.stopLease(lease);
        pool.settleEarly(lease);
        (, uint256 burnt) = taken();
        vm.assertEq(burnt, DEPOSIT);
        vm.assertEq(freeOf(renter), FUNDS - DEPOSIT);
    }

    function test_resizeLease_insufficientFree_reverts() external {
        uint256 left = FUNDS - RENT - DEPOSIT;
        uint80 price = uint80(left / 3000 + PRICE + 1);
        uint256 needed = 3000 * uint256(price - PRICE);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowInsufficientFree.selector, left, needed), to(price));
    }

    function test_resizeLease_notSignedByPayer_reverts() external {
        Resize memory wanted = to(PRICE);
        bytes memory signature = sign(SESSION_KEY, escrow.resizeDigest(wanted));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.resizeLease(wanted, signature);
    }

    function test_C29_resizeLease_sameAgain_reverts() external {
        Resize memory wanted = to(2 * PRICE);
        resize(wanted);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowResizeOutdated.selector, 0, 1), wanted);
    }

    function test_resizeLease_atDeadline_reverts() external {
        Resize memory wanted = to(2 * PRICE);
        vm.warp(wanted.deadline);
        expectRefused(
            abi.encodeWithSelector(IEscrow.EscrowRequestExpired.selector, wanted.deadline, wanted.deadline), wanted
        );
    }

    function test_resizeLease_stoppedEndedOrSettled_reverts() external {
        bytes32 other = open(1);
        pool.stopLease(lease);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseStopped.selector, lease), to(PRICE));
        pool.settleEarly(lease);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseSettled.selector, lease), to(PRICE));
        lease = other;
        vm.warp(START + 600 + DURATION);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseStopped.selector, lease), to(PRICE));
    }

    function test_C17_resizeLease_byAnotherController_reverts() external {
        Resize memory wanted = to(PRICE);
        bytes memory signature = sign(RENTER_KEY, escrow.resizeDigest(wanted));
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowLeaseUnknown.selector, lease));
        escrow.resizeLease(wanted, signature);
    }

    function test_C46_resizeLease_priceAboveBound_reverts() external {
        expectRefused(
            abi.encodeWithSelector(
                IEscrow.EscrowBadTerms.selector, bytes32("pricePerSecond"), 1 << 64, type(uint64).max
            ),
            to(1 << 64)
        );
    }

    function test_resizeLease_grouped_onlyGetsCheaper() external {
        Request memory request = newRequest(5);
        (request.replacements, request.spendCap) = (1, uint128(RENT + DEPOSIT));
        lease = open(request, newTerms());
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseIsGrouped.selector, lease), to(PRICE + 1));
        resize(to(PRICE / 2));
        (,, uint256 held) = escrow.groupOf(escrowHash(request));
        vm.assertEq(held, RENT / 2 + DEPOSIT);
    }

    function escrowHash(Request memory request) internal pure returns (bytes32) {
        return keccak256(abi.encode(keccak256(bytes(REQUEST)), request));
    }

    string internal constant REQUEST =
        "Request(address renter,address controller,address token,bytes32 offer,address submitter,uint8 isolation,uint16 share,uint32 memoryMiB,uint32 cpuMilli,uint32 ramMiB,uint32 diskMiB,uint80 maxPricePerSecond,uint32 duration,uint16 depositSeconds,address voucherSigner,uint8 verification,bytes32 data,uint64 deadline,uint256 nonce,uint8 replacements,uint128 spendCap)";

    /// @dev Any prices at any times: the renter pays exactly the sum of price times time, the rest comes back.
    function test_resizeLease_anyHistory_costsPriceTimesTime(uint256 seed) external {
        fund(renter, 1e12);
        uint256 start = freeOf(renter) + RENT + DEPOSIT;
        uint256 due = 600 * PRICE;
        uint256 price = PRICE;
        for (uint256 i = 0; i < 6; ++i) {
            price = seed >> (16 * i) & 0xffff;
            resize(to(uint80(price)));
            uint256 step = seed >> (100 + 9 * i) & 0x1ff;
            vm.warp(block.timestamp + step);
            due += price * step;
            vm.assertEq(escrow.accruedOf(address(pool), lease), due);
            if (block.timestamp >= END - 512) break;
        }
        pool.stopLease(lease);
        if (due != 0) collect(lease, type(uint128).max);
        pool.settleEarly(lease);
        vm.assertEq(freeOf(renter), start - due);
    }
}
