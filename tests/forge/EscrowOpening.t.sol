// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {Request, Signed} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Opening of leases: what is earmarked, recorded and refused.
contract EscrowOpeningTest is MoneyBase {
    uint256 internal constant EARMARK = uint256(PRICE) * (DURATION + DEPOSIT_SECONDS);

    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
    }

    /* OPENING */

    function test_openLease_earmarksAndRecords() external {
        bytes32 lease = open(3);

        vm.assertEq(freeOf(renter), FUNDS - EARMARK);
        IEscrow.LeaseAccount memory account = leaseOf(lease);
        vm.assertEq(account.payer, renter);
        vm.assertEq(account.openedAt, START);
        vm.assertEq(account.duration, DURATION);
        vm.assertEq(account.claimWindow, CLAIM_WINDOW);
        vm.assertEq(account.payee, PAYEE);
        vm.assertEq(account.pricePerSecond, PRICE);
        vm.assertEq(account.tokenId, 1);
        vm.assertEq(account.voucherSigner, session);
        vm.assertEq(account.depositSeconds, DEPOSIT_SECONDS);
        vm.assertEq(account.feePpm, FEE_PPM);
        vm.assertEq(account.burnPpm, BURN_PPM);
        vm.assertEq(account.stoppedAfter, 0);
        vm.assertEq(uint256(account.collected) + account.accrued, 0);
        vm.assertFalse(account.isSettled || account.isDepositReturned);
        vm.assertTrue(escrow.isNonceUsed(renter, 3));
        vm.assertFalse(escrow.isNonceUsed(renter, 2));
    }

    function test_openLease_idIsOfOfferAndRequest() external {
        Request memory request = newRequest(0);
        bytes32 lease = open(request, newTerms());
        vm.assertEq(lease, keccak256(abi.encode(block.chainid, address(pool), OFFER, Signed.hash(request))));
    }

    function test_openLease_tellsEverything() external {
        Request memory request = newRequest(9);
        bytes memory signature = signed(request);
        bytes32 lease = keccak256(abi.encode(block.chainid, address(pool), OFFER, Signed.hash(request)));
        vm.expectEmit(address(escrow));
        emit IEscrow.LeaseFunded(address(pool), lease, renter, address(token), EARMARK, newTerms(), session, 9);
        pool.openLease(request, signature, newTerms());
    }

    function test_openLease_fieldsAtTypeMax_areKeptApart() external {
        uint256 rest = type(uint88).max - FUNDS;
        fund(renter, rest);
        usePool(IEscrow.PoolTerms(address(type(uint160).max), 250_000, 100_000, 30 days, type(uint16).max));
        Request memory request = newRequest(type(uint256).max);
        request.maxPricePerSecond = type(uint80).max;
        request.duration = type(uint32).max;
        request.depositSeconds = type(uint16).max;
        request.voucherSigner = address(type(uint160).max);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = address(type(uint160).max);
        terms.pricePerSecond = uint80(type(uint64).max);
        terms.duration = 180 days;

        IEscrow.LeaseAccount memory account = leaseOf(open(request, terms));
        vm.assertEq(account.payer, renter);
        vm.assertEq(account.openedAt, START);
        vm.assertEq(account.duration, 180 days);
        vm.assertEq(account.claimWindow, 30 days);
        vm.assertEq(account.payee, terms.payee);
        vm.assertEq(account.pricePerSecond, type(uint64).max);
        vm.assertEq(account.tokenId, 1);
        vm.assertEq(account.voucherSigner, request.voucherSigner);
        vm.assertEq(account.depositSeconds, type(uint16).max);
        vm.assertEq(account.feePpm, 250_000);
        vm.assertEq(account.burnPpm, 100_000);
        vm.assertEq(account.stoppedAfter, 0);
        vm.assertEq(account.collected, 0);
        vm.assertFalse(account.isSettled);
        vm.assertTrue(escrow.isNonceUsed(renter, type(uint256).max));
    }

    function test_openLease_exactlyAllFree_opens() external {
        fund(STRANGER, 1);
        Request memory request = newRequest(0);
        request.duration = uint32(FUNDS / PRICE) - DEPOSIT_SECONDS;
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.duration = request.duration;
        open(request, terms);
        vm.assertEq(freeOf(renter), 0);
    }

    function test_openLease_insufficientFree_reverts() external {
        Request memory request = newRequest(0);
        request.duration = uint32(FUNDS / PRICE) - DEPOSIT_SECONDS + 1;
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.duration = request.duration;
        bytes memory reason = abi.encodeWithSelector(IEscrow.EscrowInsufficientFree.selector, FUNDS, FUNDS + PRICE);
        expectOpenReverts(reason, request, terms);
    }

    function test_C20_openLease_byAnotherController_reverts() external {
        MockPool hostile = new MockPool(escrow, staking);
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowWrongController.selector, address(hostile), address(pool)));
        hostile.openLease(request, signature, newTerms());
    }

    function test_C29_openLease_atDeadline_reverts() external {
        Request memory request = newRequest(0);
        vm.warp(request.deadline);
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowRequestExpired.selector, request.deadline, request.deadline),
            request,
            newTerms()
        );
        vm.warp(request.deadline - 1);
        open(request, newTerms());
    }

    function test_D09_openLease_anotherOfferThanRequested_reverts() external {
        Request memory request = newRequest(0);
        request.offer = keccak256("wanted");
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowOfferNotRequested.selector, OFFER, request.offer), request, newTerms()
        );
        request.offer = OFFER;
        open(request, newTerms());
    }

    function test_openLease_priceAboveRequest_reverts() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.pricePerSecond = PRICE + 1;
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowPriceAboveRequest.selector, PRICE + 1, PRICE), newRequest(0), terms
        );
    }

    function test_openLease_durationAboveRequest_reverts() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.duration = DURATION + 1;
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowDurationAboveRequest.selector, DURATION + 1, DURATION),
            newRequest(0),
            terms
        );
    }

    function test_openLease_depositAboveRequest_reverts() external {
        Request memory request = newRequest(0);
        request.depositSeconds = DEPOSIT_SECONDS - 1;
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowDepositAboveRequest.selector, DEPOSIT_SECONDS, DEPOSIT_SECONDS - 1),
            request,
            newTerms()
        );
    }

    function test_C30_openLease_zeroVoucherSigner_reverts() external {
        Request memory request = newRequest(0);
        request.voucherSigner = address(0);
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowZeroAddress.selector), request, newTerms());
    }

    function test_openLease_zeroPayee_reverts() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = address(0);
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowZeroAddress.selector), newRequest(0), terms);
    }

    function expectBadTerm(bytes32 term, uint256 value, uint256 bound_, IEscrow.LeaseTerms memory terms) internal {
        Request memory request = newRequest(0);
        request.duration = type(uint32).max;
        request.maxPricePerSecond = type(uint80).max;
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowBadTerms.selector, term, value, bound_), request, terms);
    }

    function test_C46_openLease_termsOutsideBounds_revert() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.duration = 0;
        expectBadTerm("duration", 0, 1, terms);
        terms.duration = 180 days + 1;
        expectBadTerm("duration", 180 days + 1, 180 days, terms);
        terms = newTerms();
        terms.pricePerSecond = 1 << 64;
        expectBadTerm("pricePerSecond", 1 << 64, type(uint64).max, terms);
    }

    /// @dev Such a pair takes 2^80 tries to find against a given payee; the second can be paid to another account.
    function test_openLease_payeeOfTheSameStem_reverts() external {
        open(0);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = address(uint160(PAYEE) ^ 1 << 80);
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowPayeeClash.selector, terms.payee, PAYEE), newRequest(1), terms
        );
        terms.payee = address(uint160(PAYEE) ^ 1 << 79);
        vm.assertEq(leaseOf(open(newRequest(1), terms)).payee, terms.payee);
    }

    /* TERMS OF THE POOL */

    function poolEvent() internal {
        vm.expectEmit(address(escrow));
        emit IEscrow.PoolFixed(address(pool), newPoolTerms());
    }

    function test_openLease_firstOfPool_fixesItsTerms() external {
        vm.assertEq(escrow.termsOf(address(pool)).treasury, address(0));
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        poolEvent();
        pool.openLease(request, signature, newTerms());
        vm.assertEq(abi.encode(escrow.termsOf(address(pool))), abi.encode(newPoolTerms()));
    }

    function test_C36_openLease_poolChangesItsMind_changesNothing() external {
        bytes32 lease = open(0);
        pool.setPoolTerms(IEscrow.PoolTerms(STRANGER, 250_000, 100_000, 30 days, 1));
        bytes32 other = open(1);
        vm.assertEq(abi.encode(escrow.termsOf(address(pool))), abi.encode(newPoolTerms()));
        vm.assertEq(leaseOf(lease).feePpm, FEE_PPM);
        vm.assertEq(leaseOf(other).feePpm, FEE_PPM);
        vm.assertEq(leaseOf(other).depositSeconds, DEPOSIT_SECONDS);
        vm.assertEq(freeOf(renter), FUNDS - 2 * EARMARK);
    }

    function expectBadPool(bytes memory reason, IEscrow.PoolTerms memory terms) internal {
        usePool(terms);
        Request memory request = newRequest(0);
        request.depositSeconds = type(uint16).max;
        expectOpenReverts(reason, request, newTerms());
        vm.assertEq(escrow.termsOf(address(pool)).treasury, address(0));
    }

    function test_C46_openLease_poolTermsOutsideBounds_revert() external {
        IEscrow.PoolTerms memory terms = newPoolTerms();
        terms.treasury = address(0);
        expectBadPool(abi.encodeWithSelector(IEscrow.EscrowZeroAddress.selector), terms);
        terms = newPoolTerms();
        terms.claimWindow = 1 days - 1;
        expectBadPool(badTerm("claimWindow", 1 days - 1, 1 days), terms);
        terms.claimWindow = 30 days + 1;
        expectBadPool(badTerm("claimWindow", 30 days + 1, 30 days), terms);
        terms = newPoolTerms();
        terms.feePpm = 250_001;
        expectBadPool(badTerm("feePpm", 250_001, 250_000), terms);
        terms = newPoolTerms();
        terms.burnPpm = 100_001;
        expectBadPool(badTerm("burnPpm", 100_001, 100_000), terms);
    }

    function badTerm(bytes32 term, uint256 value, uint256 bound_) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IEscrow.EscrowBadTerms.selector, term, value, bound_);
    }

    function test_C29_openLease_sameRequestTwice_reverts() external {
        open(300);
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 300), newRequest(300), newTerms()
        );
        open(301);
    }

    function test_C29_cancelRequest_voidsTheNonceOnce() external {
        vm.expectEmit(address(escrow));
        emit IEscrow.RequestCancelled(renter, 4);
        vm.prank(renter);
        escrow.cancelRequest(4);
        vm.assertTrue(escrow.isNonceUsed(renter, 4));
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 4), newRequest(4), newTerms()
        );
        vm.prank(renter);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, 4));
        escrow.cancelRequest(4);
    }

    function test_C26_cancelRequest_byStranger_leavesRentersNonce() external {
        vm.prank(STRANGER);
        escrow.cancelRequest(4);
        vm.assertFalse(escrow.isNonceUsed(renter, 4));
        open(4);
    }
}
