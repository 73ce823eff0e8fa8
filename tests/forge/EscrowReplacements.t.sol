// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Request, Signed} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice One request, several leases, one spending cap.
contract EscrowReplacementsTest is MoneyBase {
    uint256 internal constant RENT = uint256(PRICE) * DURATION;
    uint256 internal constant DEPOSIT = uint256(PRICE) * DEPOSIT_SECONDS;
    uint256 internal constant EARMARK = RENT + DEPOSIT;

    Request internal request;
    bytes32 internal requestHash;

    function setUp() public override {
        super.setUp();
        fund(renter, 10 * FUNDS);
        use(2, 2 * EARMARK);
    }

    function use(uint8 replacements, uint256 cap) internal {
        request = newRequest(7);
        request.deadline = uint64(START + 30 days);
        (request.replacements, request.spendCap) = (replacements, uint128(cap));
        requestHash = Signed.hash(request);
    }

    function termsOf(uint256 offer) internal pure returns (IEscrow.LeaseTerms memory terms) {
        terms = newTerms();
        terms.offer = bytes32(offer);
    }

    function openWith(uint256 offer) internal returns (bytes32) {
        return open(request, termsOf(offer));
    }

    function expectRefused(bytes memory reason, uint256 offer) internal {
        expectOpenReverts(reason, request, termsOf(offer));
    }

    /// @dev The lease is lost after 100 paid seconds, and settled.
    function lose(bytes32 lease) internal {
        vm.warp(block.timestamp + 100);
        collect(lease, 100 * PRICE);
        pool.stopLease(lease);
        pool.settleEarly(lease);
    }

    function held() internal view returns (uint256 amount) {
        (,, amount) = escrow.groupOf(requestHash);
    }

    function test_openLease_replacement_followsTheFirst() external {
        bytes32 first = openWith(1);
        vm.assertTrue(escrow.isNonceUsed(renter, 7));
        lose(first);
        vm.assertEq(held(), 100 * PRICE);
        bytes memory signature = signed(request);
        bytes32 second = keccak256(abi.encode(block.chainid, address(pool), bytes32(uint256(2)), requestHash));
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseGrouped(requestHash, second, 2, 100 * PRICE + EARMARK);
        pool.openLease(request, signature, termsOf(2));
        (address of_, uint256 opened,) = escrow.groupOf(requestHash);
        vm.assertEq(of_, renter);
        vm.assertEq(opened, 2);
        vm.assertEq(held(), 100 * PRICE + EARMARK);
        vm.assertEq(leaseOf(second).payer, renter);
    }

    function test_openLease_moreThanReplacements_reverts() external {
        use(2, 100 * EARMARK);
        for (uint256 i = 1; i <= 3; ++i) {
            openWith(i);
        }
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowReplacementsUsed.selector, requestHash, 3, 2), 4);
    }

    function test_openLease_aboveTheCap_revertsUntilMoneyComesBack() external {
        use(2, EARMARK + 100 * PRICE);
        bytes32 first = openWith(1);
        bytes memory reason =
            abi.encodeWithSelector(IEscrow.EscrowSpendAboveCap.selector, 2 * EARMARK, EARMARK + 100 * PRICE);
        expectRefused(reason, 2);
        lose(first);
        openWith(2);
        vm.assertEq(held(), EARMARK + 100 * PRICE);
    }

    function test_openLease_firstAboveTheCap_reverts() external {
        use(1, EARMARK - 1);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowSpendAboveCap.selector, EARMARK, EARMARK - 1), 1);
        vm.assertFalse(escrow.isNonceUsed(renter, 7));
    }

    function test_openLease_sameOfferAgain_reverts() external {
        bytes32 first = openWith(1);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseExists.selector, first), 1);
        lose(first);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowLeaseExists.selector, first), 1);
    }

    function test_openLease_burntDeposit_countsAsSpent() external {
        bytes32 first = openWith(1);
        pool.stopLease(first);
        pool.settleEarly(first);
        vm.assertEq(held(), DEPOSIT);
    }

    function test_C29_openLease_otherRequestOfTheSameNonce_reverts() external {
        openWith(1);
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 7), newRequest(7), newTerms()
        );
        Request memory other = request;
        other.spendCap += 1;
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 7), other, newTerms());
    }

    function test_C29_openLease_replacementAfterDeadline_reverts() external {
        openWith(1);
        vm.warp(request.deadline);
        expectRefused(
            abi.encodeWithSelector(IEscrow.EscrowRequestExpired.selector, request.deadline, request.deadline), 2
        );
    }

    function test_C46_openLease_tooManyReplacements_reverts() external {
        vm.assertEq(escrow.MOST_REPLACEMENTS(), 32);
        use(33, 100 * EARMARK);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowBadTerms.selector, bytes32("replacements"), 33, 32), 1);
    }

    function test_cancelRequest_beforeTheFirst_opensNothing() external {
        vm.prank(renter);
        escrow.cancelRequest(7);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 7), 1);
    }

    function test_endRequest_byRenter_opensNothingMore() external {
        bytes32 first = openWith(1);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNotRenter.selector, STRANGER, renter));
        escrow.endRequest(requestHash);
        vm.expectEmit(address(escrow));
        emit IEscrow.RequestEnded(renter, requestHash);
        vm.prank(renter);
        escrow.endRequest(requestHash);
        expectRefused(abi.encodeWithSelector(IEscrow.EscrowReplacementsUsed.selector, requestHash, 255, 2), 2);
        lose(first);
        vm.assertEq(freeOf(renter), 10 * FUNDS - 100 * PRICE);
    }

    function test_endRequest_unknown_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNotRenter.selector, address(this), address(0)));
        escrow.endRequest(keccak256("unknown"));
    }

    /// @dev Whatever happens to the leases: what they hold and have cost is within the cap, and is what the renter is missing.
    function test_openLease_anyHistory_staysWithinTheCap(uint256 seed, uint128 cap) external {
        use(32, bound(cap, EARMARK, 5 * EARMARK));
        bytes32[] memory leases = new bytes32[](12);
        uint256 count;
        for (uint256 i = 1; i <= 12; ++i) {
            bytes memory signature = signed(request);
            bool fits = held() + EARMARK <= request.spendCap;
            try pool.openLease(request, signature, termsOf(i)) returns (bytes32 lease) {
                vm.assertTrue(fits);
                leases[count++] = lease;
            } catch {
                vm.assertFalse(fits);
            }
            vm.warp(block.timestamp + (seed >> i) % 100 + 1);
            if (seed >> (20 + i) & 1 == 1) finish(leases[(seed >> (40 + i)) % count], seed >> (60 + i));
            vm.assertLe(held(), request.spendCap);
            vm.assertEq(freeOf(renter), 10 * FUNDS - held());
        }
    }

    function finish(bytes32 lease, uint256 seed) internal {
        IEscrow.LeaseAccount memory account = leaseOf(lease);
        if (seed & 1 == 1 && !account.isSettled && account.accrued > account.collected) {
            collect(lease, account.accrued);
        }
        if (account.stoppedAfter == 0) pool.stopLease(lease);
        if (seed & 2 == 2 && !account.isSettled) pool.settleEarly(lease);
    }
}
