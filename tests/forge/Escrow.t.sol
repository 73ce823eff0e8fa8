// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Escrow} from "../../contracts/Escrow.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {ITokens} from "../../contracts/interfaces/ITokens.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Free balances: deposit, notice, withdrawal.
contract EscrowTest is MoneyBase {
    uint256 internal constant EARMARK = uint256(PRICE) * (DURATION + DEPOSIT_SECONDS);

    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
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
        uint256 most = type(uint88).max;
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

    function test_depositFor_creditsTheAccountAndTellsTheFunder() external {
        token.mint(STRANGER, 10);
        vm.startPrank(STRANGER);
        token.approve(address(escrow), 10);
        vm.expectEmit(address(escrow));
        emit IEscrow.Deposited(address(token), renter, STRANGER, 10);
        vm.assertEq(escrow.depositFor(address(token), renter, 10), 10);
        vm.stopPrank();
        vm.assertEq(freeOf(renter), FUNDS + 10);
        vm.assertEq(freeOf(STRANGER), 0);
    }

    function test_depositFor_zeroAccount_reverts() external {
        vm.expectRevert(IEscrow.EscrowZeroAddress.selector);
        escrow.depositFor(address(token), address(0), 1);
    }

    /* PERMIT */

    bytes32 internal constant PERMIT =
        keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");

    function permitOf(uint256 amount, uint256 deadline) internal view returns (uint8 v, bytes32 r, bytes32 s) {
        bytes32 body = keccak256(abi.encode(PERMIT, renter, address(escrow), amount, token.nonces(renter), deadline));
        return vm.sign(RENTER_KEY, keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), body)));
    }

    function test_depositWithPermit_needsNoApproval() external {
        token.mint(renter, 10);
        (uint8 v, bytes32 r, bytes32 s) = permitOf(10, START);
        vm.prank(renter);
        vm.assertEq(escrow.depositWithPermit(address(token), 10, START, v, r, s), 10);
        vm.assertEq(freeOf(renter), FUNDS + 10);
        vm.assertEq(token.allowance(renter, address(escrow)), 0);
    }

    function test_depositWithPermit_sentByAnotherBefore_deposits() external {
        token.mint(renter, 10);
        (uint8 v, bytes32 r, bytes32 s) = permitOf(10, START);
        vm.prank(STRANGER);
        token.permit(renter, address(escrow), 10, START, v, r, s);
        vm.prank(renter);
        vm.assertEq(escrow.depositWithPermit(address(token), 10, START, v, r, s), 10);
    }

    function test_depositWithPermit_ofAnother_movesNothing() external {
        token.mint(renter, 10);
        (uint8 v, bytes32 r, bytes32 s) = permitOf(10, START);
        vm.prank(STRANGER);
        vm.expectRevert();
        escrow.depositWithPermit(address(token), 10, START, v, r, s);
        vm.assertEq(freeOf(STRANGER), 0);
    }

    function test_depositWithPermit_unlistedToken_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowTokenNotListed.selector, STRANGER));
        escrow.depositWithPermit(STRANGER, 1, START, 27, 0, 0);
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
}
