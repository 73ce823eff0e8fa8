// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Escrow} from "../../contracts/Escrow.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {ITokens} from "../../contracts/interfaces/ITokens.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {MockWallet} from "../../contracts/mocks/MockWallet.sol";
import {Request, Signed} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Free balance and opening of leases.
contract EscrowTest is MoneyBase {
    uint256 internal constant EARMARK = uint256(PRICE) * (DURATION + DEPOSIT_SECONDS);

    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
    }

    function expectOpenReverts(bytes memory reason, Request memory request, IEscrow.LeaseTerms memory terms) internal {
        bytes memory signature = signed(request);
        vm.expectRevert(reason);
        pool.openLease(request, signature, terms);
    }

    /* CONSTRUCTION */

    function test_constructor_zeroTokens_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAddress.selector);
        new Escrow(ITokens(address(0)), SINK);
    }

    function test_constructor_zeroSink_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAddress.selector);
        new Escrow(tokens, address(0));
    }

    function test_constructor_keepsTokensAndSink() external view {
        vm.assertEq(address(escrow.TOKENS()), address(tokens));
        vm.assertEq(escrow.BURN_SINK(), SINK);
    }

    /* DEPOSIT */

    function test_deposit_creditsCallerAndTellsIt() external {
        token.mint(STRANGER, 10);
        vm.startPrank(STRANGER);
        token.approve(address(escrow), 10);
        vm.expectEmit(address(escrow));
        emit IEscrow.Deposited(address(token), STRANGER, STRANGER, 10);
        vm.assertEq(escrow.deposit(address(token), 10), 10);
        vm.stopPrank();
        vm.assertEq(freeOf(STRANGER), 10);
        vm.assertEq(token.balanceOf(address(escrow)), FUNDS + 10);
    }

    function test_deposit_unlistedToken_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowTokenNotListed.selector, STRANGER));
        escrow.deposit(STRANGER, 1);
    }

    function test_deposit_delistedToken_revertsWhileExitsStayOpen() external {
        tokens.delist(address(token));
        vm.prank(renter);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowTokenNotListed.selector, address(token)));
        escrow.deposit(address(token), 1);

        vm.startPrank(renter);
        escrow.noticeWithdrawal(address(token), FUNDS);
        vm.warp(START + 15 minutes);
        vm.assertEq(escrow.withdraw(address(token), renter), FUNDS);
        vm.stopPrank();
    }

    function test_deposit_zero_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.deposit(address(token), 0);
    }

    function test_C41_deposit_aboveMostBalance_reverts() external {
        uint256 most = type(uint104).max;
        vm.assertEq(escrow.MOST_BALANCE(), most);
        uint256 amount = most - FUNDS;
        token.mint(renter, amount + 1);
        vm.startPrank(renter);
        token.approve(address(escrow), amount + 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBalanceAbove.selector, most + 1, most));
        escrow.deposit(address(token), amount + 1);
        escrow.deposit(address(token), amount);
        vm.stopPrank();
        vm.assertEq(freeOf(renter), most);
    }

    /* WITHDRAWAL */

    function test_noticeWithdrawal_recordsAndTellsIt() external {
        vm.expectEmit(address(escrow));
        emit IEscrow.WithdrawalNoticed(address(token), renter, 7, START + 15 minutes);
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), 7);
        (uint256 amount, uint256 readyAt) = escrow.noticed(address(token), renter);
        vm.assertEq(amount, 7);
        vm.assertEq(readyAt, START + escrow.NOTICE());
        vm.assertEq(freeOf(renter), FUNDS);
    }

    function test_noticeWithdrawal_zero_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.noticeWithdrawal(address(token), 0);
    }

    function test_C41_noticeWithdrawal_ofMax_coversEverything() external {
        vm.startPrank(renter);
        escrow.noticeWithdrawal(address(token), type(uint256).max);
        vm.warp(START + 15 minutes);
        vm.assertEq(escrow.withdraw(address(token), renter), FUNDS);
        vm.stopPrank();
    }

    function test_withdraw_withoutNotice_reverts() external {
        vm.prank(renter);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNothingNoticed.selector, renter));
        escrow.withdraw(address(token), renter);
    }

    function test_C35_withdraw_oneSecondEarly_reverts() external {
        vm.startPrank(renter);
        escrow.noticeWithdrawal(address(token), 10);
        uint256 readyAt = START + 15 minutes;
        vm.warp(readyAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNoticeRunning.selector, readyAt, readyAt - 1));
        escrow.withdraw(address(token), renter);
        vm.warp(readyAt);
        escrow.withdraw(address(token), renter);
        vm.stopPrank();
    }

    function test_withdraw_paysOnceAndTellsIt() external {
        vm.startPrank(renter);
        escrow.noticeWithdrawal(address(token), 10);
        vm.warp(START + 15 minutes);
        vm.expectEmit(address(escrow));
        emit IEscrow.Withdrawn(address(token), renter, STRANGER, 10);
        vm.assertEq(escrow.withdraw(address(token), STRANGER), 10);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowNothingNoticed.selector, renter));
        escrow.withdraw(address(token), STRANGER);
        vm.stopPrank();
        (uint256 amount, uint256 readyAt) = escrow.noticed(address(token), renter);
        vm.assertEq(amount + readyAt, 0);
        vm.assertEq(freeOf(renter), FUNDS - 10);
        vm.assertEq(token.balanceOf(STRANGER), 10);
    }

    function test_withdraw_toZero_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAddress.selector);
        escrow.withdraw(address(token), address(0));
    }

    function test_withdraw_noticedMoneyEarmarkedMeanwhile_paysWhatIsLeft() external {
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), FUNDS);
        open(0);
        vm.warp(START + 15 minutes);
        vm.prank(renter);
        vm.assertEq(escrow.withdraw(address(token), renter), FUNDS - EARMARK);
    }

    function test_withdraw_nothingLeft_revertsAndKeepsNotice() external {
        vm.startPrank(STRANGER);
        escrow.noticeWithdrawal(address(token), 5);
        vm.warp(START + 15 minutes);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowInsufficientFree.selector, 0, 5));
        escrow.withdraw(address(token), STRANGER);
        vm.stopPrank();
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
        vm.assertEq(escrow.treasuryOf(address(pool)), TREASURY);
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
        token.mint(renter, type(uint104).max - FUNDS);
        uint256 rest = type(uint104).max - FUNDS;
        vm.startPrank(renter);
        token.approve(address(escrow), rest);
        escrow.deposit(address(token), rest);
        vm.stopPrank();
        Request memory request = newRequest(type(uint256).max);
        request.maxPricePerSecond = type(uint80).max / 2;
        request.duration = 366 days / 4;
        request.depositSeconds = type(uint16).max;
        request.voucherSigner = address(type(uint160).max);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = address(type(uint160).max);
        terms.pricePerSecond = 1;
        terms.duration = request.duration;
        terms.depositSeconds = type(uint16).max;
        terms.feePpm = 250_000;
        terms.burnPpm = 100_000;
        terms.claimWindow = 30 days;

        IEscrow.LeaseAccount memory account = leaseOf(open(request, terms));
        vm.assertEq(account.payer, renter);
        vm.assertEq(account.openedAt, START);
        vm.assertEq(account.duration, terms.duration);
        vm.assertEq(account.claimWindow, 30 days);
        vm.assertEq(account.payee, terms.payee);
        vm.assertEq(account.pricePerSecond, 1);
        vm.assertEq(account.tokenId, 1);
        vm.assertEq(account.voucherSigner, request.voucherSigner);
        vm.assertEq(account.depositSeconds, type(uint16).max);
        vm.assertEq(account.feePpm, 250_000);
        vm.assertEq(account.burnPpm, 100_000);
        vm.assertEq(account.stoppedAfter, 0);
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
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.depositSeconds = DEPOSIT_SECONDS + 1;
        expectOpenReverts(
            abi.encodeWithSelector(IEscrow.EscrowDepositAboveRequest.selector, DEPOSIT_SECONDS + 1, DEPOSIT_SECONDS),
            newRequest(0),
            terms
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

    function test_openLease_zeroTreasury_reverts() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.treasury = address(0);
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowZeroAddress.selector), newRequest(0), terms);
    }

    function expectBadTerm(bytes32 term, uint256 value, uint256 bound_, IEscrow.LeaseTerms memory terms) internal {
        Request memory request = newRequest(0);
        request.duration = type(uint32).max;
        expectOpenReverts(abi.encodeWithSelector(IEscrow.EscrowBadTerms.selector, term, value, bound_), request, terms);
    }

    function test_C46_openLease_termsOutsideBounds_revert() external {
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.duration = 0;
        expectBadTerm("duration", 0, 1, terms);
        terms.duration = 366 days + 1;
        expectBadTerm("duration", 366 days + 1, 366 days, terms);
        terms = newTerms();
        terms.claimWindow = 1 days - 1;
        expectBadTerm("claimWindow", 1 days - 1, 1 days, terms);
        terms.claimWindow = 30 days + 1;
        expectBadTerm("claimWindow", 30 days + 1, 30 days, terms);
        terms = newTerms();
        terms.feePpm = 250_001;
        expectBadTerm("feePpm", 250_001, 250_000, terms);
        terms = newTerms();
        terms.burnPpm = 100_001;
        expectBadTerm("burnPpm", 100_001, 100_000, terms);
    }

    function test_C36_openLease_anotherTreasury_reverts() external {
        open(0);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.treasury = STRANGER;
        bytes memory reason = abi.encodeWithSelector(
            IEscrow.EscrowBadTerms.selector, bytes32("treasury"), uint256(uint160(STRANGER)), uint256(uint160(TREASURY))
        );
        expectOpenReverts(reason, newRequest(1), terms);
        open(2);
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

    /* SIGNATURES */

    function test_C04_openLease_signedByAnother_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = sign(SESSION_KEY, escrow.requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
    }

    function test_C30_openLease_zeroRenter_reverts() external {
        Request memory request = newRequest(0);
        request.renter = address(0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, address(0)));
        pool.openLease(request, new bytes(65), newTerms());
    }

    function test_C30_openLease_highS_reverts() external {
        Request memory request = newRequest(0);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(RENTER_KEY, escrow.requestDigest(request));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes memory flipped = abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, flipped, newTerms());
    }

    function test_C30_openLease_walletSignsByErc1271() external {
        MockWallet wallet = new MockWallet(renter);
        fund(address(wallet), FUNDS);
        Request memory request = newRequest(0);
        request.renter = address(wallet);
        bytes32 lease = open(request, newTerms());
        vm.assertEq(leaseOf(lease).payer, address(wallet));

        request.nonce = 1;
        bytes memory signature = sign(SESSION_KEY, escrow.requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, address(wallet)));
        pool.openLease(request, signature, newTerms());
    }

    function test_C27_openLease_signedForAnotherChain_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        vm.chainId(99);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
        open(request, newTerms());
    }

    function test_C27_openLease_signedForAnotherEscrow_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = sign(RENTER_KEY, new Escrow(tokens, SINK).requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
    }

    /// @dev Every field of the signed request is in its hash.
    function test_C28_openLease_anyFieldChanged_reverts(uint256 field, uint256 flip) external {
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        bytes memory words = abi.encode(request);
        field = bound(field, 0, 18);
        uint256 size = fieldBits(field);
        flip = bound(flip, 1, size == 256 ? type(uint256).max : (1 << size) - 1);
        assembly ("memory-safe") {
            let place := add(add(words, 32), mul(field, 32))
            mstore(place, xor(mload(place), flip))
        }
        Request memory changed = abi.decode(words, (Request));
        vm.assertNotEq(escrow.requestDigest(changed), escrow.requestDigest(request));
        vm.expectRevert();
        pool.openLease(changed, signature, newTerms());
    }

    function fieldBits(uint256 field) internal pure returns (uint256) {
        uint16[19] memory bits = [160, 160, 160, 256, 160, 8, 16, 32, 32, 32, 32, 80, 32, 16, 160, 8, 256, 64, 256];
        return bits[field];
    }

    /// @dev The opening hashes the request as one word run; the library does it in pieces.
    function test_C28_requestDigest_isThatOfTheLibrary(Request calldata request) external view {
        bytes32 structHash = keccak256(abi.encode(Signed.REQUEST_TYPEHASH, request));
        vm.assertEq(structHash, Signed.hash(request));
        (, string memory name, string memory version, uint256 chain, address verifier,,) = escrow.eip712Domain();
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                chain,
                verifier
            )
        );
        vm.assertEq(name, "Millpond");
        vm.assertEq(version, "1");
        vm.assertEq(verifier, address(escrow));
        vm.assertEq(escrow.requestDigest(request), keccak256(abi.encodePacked(hex"1901", domain, structHash)));
    }
}
