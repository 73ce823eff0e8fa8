// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {BlacklistToken} from "../../contracts/mocks/BlacklistToken.sol";
import {CallbackToken} from "../../contracts/mocks/CallbackToken.sol";
import {FalseToken} from "../../contracts/mocks/FalseToken.sol";
import {FeeToken} from "../../contracts/mocks/FeeToken.sol";
import {HostileHook, ReentrantHook} from "../../contracts/mocks/Hooks.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {NoReturnToken} from "../../contracts/mocks/NoReturnToken.sol";
import {Request} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @notice The token zoo against Escrow.
contract EscrowTokensTest is MoneyBase {
    uint256 internal constant AMOUNT = 1_000_000;

    /// @dev Mints, lists, deposits for the renter; every mock has the same `mint` and `approve`.
    function depositOf(address coin) internal returns (uint256 received) {
        tokens.list(coin);
        MockToken(coin).mint(renter, AMOUNT);
        vm.startPrank(renter);
        NoReturnToken(coin).approve(address(escrow), AMOUNT);
        received = escrow.deposit(coin, AMOUNT);
        vm.stopPrank();
    }

    function openWith(address coin, address payee) internal returns (bytes32 lease) {
        Request memory request = newRequest(0);
        request.token = coin;
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = payee;
        lease = open(request, terms);
        vm.warp(START + DURATION);
    }

    function leave(address coin, address to) internal returns (uint256) {
        vm.startPrank(renter);
        escrow.noticeWithdrawal(coin, type(uint256).max);
        vm.warp(block.timestamp + 15 minutes);
        uint256 amount = escrow.withdraw(coin, to);
        vm.stopPrank();
        return amount;
    }

    function test_C23_noReturnToken_wholeLife() external {
        NoReturnToken coin = new NoReturnToken();
        vm.assertEq(depositOf(address(coin)), AMOUNT);
        bytes32 lease = openWith(address(coin), PAYEE);
        collect(lease, 10_000);
        escrow.withdrawOwed(address(coin), PAYEE);
        escrow.sweep(address(pool), address(coin));
        escrow.flushBurn(address(coin));
        vm.assertEq(coin.balanceOf(PAYEE), 9702);
        vm.assertEq(coin.balanceOf(SINK), 98);
        leave(address(coin), renter);
        vm.assertEq(coin.balanceOf(renter), AMOUNT - uint256(PRICE) * DURATION);
    }

    function test_C23_feeToken_creditsWhatArrived() external {
        FeeToken coin = new FeeToken();
        vm.assertEq(depositOf(address(coin)), AMOUNT - AMOUNT / 100);
        vm.assertEq(escrow.free(address(coin), renter), AMOUNT - AMOUNT / 100);
        vm.assertEq(coin.balanceOf(address(escrow)), AMOUNT - AMOUNT / 100);
    }

    function test_C23_feeToken_keepingAll_reverts() external {
        FeeToken coin = new FeeToken();
        coin.setFee(1_000_000);
        tokens.list(address(coin));
        coin.mint(renter, 1);
        vm.startPrank(renter);
        coin.approve(address(escrow), 1);
        vm.expectRevert(IEscrow.EscrowZeroAmount.selector);
        escrow.deposit(address(coin), 1);
        vm.stopPrank();
    }

    function test_C23_falseToken_failureReverts() external {
        FalseToken coin = new FalseToken();
        depositOf(address(coin));
        coin.setFailing(true);
        vm.startPrank(renter);
        escrow.noticeWithdrawal(address(coin), 1);
        vm.warp(START + 15 minutes);
        vm.expectRevert(abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(coin)));
        escrow.withdraw(address(coin), renter);
        vm.expectRevert(abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(coin)));
        escrow.deposit(address(coin), 1);
        coin.setFailing(false);
        escrow.withdraw(address(coin), renter);
        vm.stopPrank();
        vm.assertEq(escrow.free(address(coin), renter), AMOUNT - 1);
    }

    function test_C23_blacklistedRenter_leavesToAnotherAddress() external {
        BlacklistToken coin = new BlacklistToken();
        depositOf(address(coin));
        coin.bar(renter, true);
        vm.assertEq(leave(address(coin), STRANGER), AMOUNT);
        vm.assertEq(coin.balanceOf(STRANGER), AMOUNT);
    }

    function test_C24_blacklistedPayee_blocksNobody() external {
        BlacklistToken coin = new BlacklistToken();
        depositOf(address(coin));
        coin.bar(PAYEE, true);
        bytes32 lease = openWith(address(coin), PAYEE);
        collect(lease, 10_000);
        escrow.sweep(address(pool), address(coin));
        escrow.withdrawOwed(address(coin), TREASURY);
        vm.expectRevert(abi.encodeWithSelector(BlacklistToken.BlacklistTokenBarred.selector, PAYEE));
        escrow.withdrawOwed(address(coin), PAYEE);
        vm.prank(PAYEE);
        vm.assertEq(escrow.withdrawOwedTo(address(coin), STRANGER), 9702);
        leave(address(coin), renter);
    }

    function test_C24_hostileReceiver_blocksOnlyItself() external {
        CallbackToken coin = new CallbackToken();
        HostileHook hostile = new HostileHook();
        depositOf(address(coin));
        vm.prank(PAYEE);
        coin.setHook(hostile);
        bytes32 lease = openWith(address(coin), PAYEE);
        collect(lease, 10_000);
        for (uint256 i = 0; i < 2; ++i) {
            hostile.setLong(i == 1);
            (bool isPaid,) =
                address(escrow).call{gas: 5_000_000}(abi.encodeCall(IEscrow.withdrawOwed, (address(coin), PAYEE)));
            vm.assertFalse(isPaid);
        }
        vm.assertEq(escrow.owed(address(coin), PAYEE), 9702);
        escrow.sweep(address(pool), address(coin));
        escrow.withdrawOwed(address(coin), TREASURY);
        leave(address(coin), renter);
    }

    /* RE-ENTRY */

    /// @dev Every entry point that moves money, called from inside a payout of the same contract.
    function test_C01_reentryFromPayout_isRefused() external {
        CallbackToken coin = new CallbackToken();
        ReentrantHook hook = new ReentrantHook();
        depositOf(address(coin));
        bytes32 lease = openWith(address(coin), address(hook));
        bytes memory signature = voucher(lease, type(uint128).max);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](0);
        bytes[10] memory entries = [
            abi.encodeCall(IEscrow.deposit, (address(coin), 1)),
            abi.encodeCall(IEscrow.noticeWithdrawal, (address(coin), 1)),
            abi.encodeCall(IEscrow.withdraw, (address(coin), address(hook))),
            abi.encodeCall(IEscrow.withdrawOwed, (address(coin), address(hook))),
            abi.encodeCall(IEscrow.withdrawOwedTo, (address(coin), address(hook))),
            abi.encodeCall(IEscrow.flushBurn, (address(coin))),
            abi.encodeCall(IEscrow.collect, (address(pool), lease, type(uint128).max, signature)),
            abi.encodeCall(IEscrow.collectMany, (claims)),
            abi.encodeCall(IEscrow.settle, (address(pool), lease)),
            abi.encodeCall(IEscrow.sweep, (address(pool), address(coin)))
        ];
        for (uint256 i = 0; i < entries.length; ++i) {
            collect(lease, uint128(10_000 * (i + 1)));
            hook.arm(coin, address(escrow), entries[i]);
            hook.execute(address(coin), abi.encodeCall(CallbackToken.setHook, (hook)));
            escrow.withdrawOwed(address(coin), address(hook));
            vm.assertEq(hook.calls(), 1);
            vm.assertFalse(hook.succeeded());
            vm.assertEq(
                hook.returned(), abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)
            );
        }
    }

    function test_C01_reentryFromDeposit_creditsOnce() external {
        CallbackToken coin = new CallbackToken();
        ReentrantHook hook = new ReentrantHook();
        tokens.list(address(coin));
        coin.mint(address(hook), 2 * AMOUNT);
        hook.execute(address(coin), abi.encodeCall(coin.approve, (address(escrow), 2 * AMOUNT)));
        hook.execute(address(coin), abi.encodeCall(CallbackToken.setHook, (hook)));
        bytes memory again = abi.encodeCall(IEscrow.deposit, (address(coin), AMOUNT));
        hook.arm(coin, address(escrow), again);
        hook.execute(address(escrow), again);
        vm.assertEq(hook.calls(), 1);
        vm.assertFalse(hook.succeeded());
        vm.assertEq(escrow.free(address(coin), address(hook)), AMOUNT);
        vm.assertEq(coin.balanceOf(address(escrow)), AMOUNT);
    }

    function test_C01_viewDuringPayout_isConsistent() external {
        CallbackToken coin = new CallbackToken();
        ReentrantHook hook = new ReentrantHook();
        depositOf(address(coin));
        bytes32 lease = openWith(address(coin), address(hook));
        collect(lease, 10_000);
        hook.arm(coin, address(escrow), abi.encodeCall(IEscrow.owed, (address(coin), address(hook))));
        hook.execute(address(coin), abi.encodeCall(CallbackToken.setHook, (hook)));
        escrow.withdrawOwed(address(coin), address(hook));
        vm.assertTrue(hook.succeeded());
        vm.assertEq(hook.returned(), abi.encode(0));
    }

    function test_C22_donation_changesNobodysBalance() external {
        fund(renter, 100);
        token.mint(address(escrow), 1_000_000);
        vm.assertEq(freeOf(renter), 100);
        fund(STRANGER, 7);
        vm.assertEq(freeOf(STRANGER), 7);
    }
}
