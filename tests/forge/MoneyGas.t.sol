// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Request} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Gas of whole transactions: run with `--isolate`.
contract MoneyGasTest is MoneyBase {
    function test_gas_escrow() external {
        fund(renter, 10 * FUNDS);
        open(0);
        vm.snapshotGasLastCall("openLease_first");
        vm.warp(START + 10);
        bytes32 lease = open(1);
        vm.snapshotGasLastCall("openLease");
        bytes32 third = open(2);
        IEscrow.LeaseTerms memory terms = newTerms();
        terms.payee = PROVIDER;
        bytes32 fourth = open(newRequest(3), terms);
        vm.warp(START + 1000);
        bytes memory signature = voucher(lease, 1000);
        escrow.collect(address(pool), lease, 1000, signature);
        vm.snapshotGasLastCall("collect_first_of_pool");
        signature = voucher(lease, 2000);
        escrow.collect(address(pool), lease, 2000, signature);
        vm.snapshotGasLastCall("collect");
        signature = voucher(third, 2000);
        escrow.collect(address(pool), third, 2000, signature);
        vm.snapshotGasLastCall("collect_first_of_lease");
        signature = voucher(fourth, 2000);
        escrow.collect(address(pool), fourth, 2000, signature);
        vm.snapshotGasLastCall("collect_first_of_payee");
        pool.stopLease(lease);
        vm.snapshotGasLastCall("stopLease");
        escrow.withdrawOwed(address(token), PAYEE);
        vm.snapshotGasLastCall("withdrawOwed_first");
        signature = voucher(third, 3000);
        escrow.collect(address(pool), third, 3000, signature);
        escrow.withdrawOwed(address(token), PAYEE);
        vm.snapshotGasLastCall("withdrawOwed");
        token.mint(renter, 1);
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), 100);
        vm.snapshotGasLastCall("notice");
        vm.warp(START + 1000 + 15 minutes);
        vm.prank(renter);
        escrow.withdraw(address(token), renter);
        vm.snapshotGasLastCall("withdraw");
        pool.settleEarly(lease);
        vm.snapshotGasLastCall("settleEarly");
    }

    function test_gas_collectMany() external {
        fund(renter, 100 * FUNDS);
        IEscrow.VoucherClaim[] memory claims = new IEscrow.VoucherClaim[](32);
        for (uint256 i; i < 32; ++i) {
            claims[i].lease = open(i);
            claims[i].controller = address(pool);
        }
        vm.warp(START + 1000);
        for (uint256 i; i < 32; ++i) {
            collect(claims[i].lease, 1000);
        }
        for (uint256 i; i < 32; ++i) {
            claims[i].cumulative = 2000;
            claims[i].signature = voucher(claims[i].lease, 2000);
        }
        escrow.collectMany(claims);
        vm.snapshotGasLastCall("collectMany_32");
    }

    function test_gas_staking() external {
        stake(STRANGER, 10);
        vm.snapshotGasLastCall("stake_first");
        token.mint(PROVIDER, 2 * FUNDS);
        vm.prank(PROVIDER);
        token.approve(address(staking), 2 * FUNDS);
        vm.prank(PROVIDER);
        staking.deposit(address(token), FUNDS);
        vm.snapshotGasLastCall("stake_fresh");
        vm.prank(PROVIDER);
        staking.deposit(address(token), FUNDS - 1);
        vm.snapshotGasLastCall("stake");
        provision(1000);
        vm.snapshotGasLastCall("provision_first");
        vm.warp(START + 10);
        provision(1000);
        vm.snapshotGasLastCall("provision");
        thaw(10);
        vm.snapshotGasLastCall("thaw_first");
        thaw(10);
        vm.snapshotGasLastCall("thaw");
        pool.reserve(PROVIDER, 10);
        vm.snapshotGasLastCall("reserve_first");
        pool.reserve(PROVIDER, 10);
        vm.snapshotGasLastCall("reserve");
        freeze("a", 100);
        vm.snapshotGasLastCall("freeze_first");
        freeze("b", 100);
        vm.snapshotGasLastCall("freeze");
        freeze("c", 100);
        vm.prank(address(slasher));
        staking.slash("a", 60, splitOf(100, 100));
        vm.snapshotGasLastCall("slash_fresh_first_burn");
        vm.prank(address(slasher));
        staking.slash("b", 60, splitOf(100, 100));
        vm.snapshotGasLastCall("slash_fresh");
        vm.prank(address(slasher));
        staking.slash("c", 60, splitOf(0, 0));
        vm.snapshotGasLastCall("slash_burn_only");
        vm.warp(START + 11 days);
        vm.prank(PROVIDER);
        staking.thaw(address(pool), 10);
        vm.prank(PROVIDER);
        staking.withdraw(address(token), 10, PROVIDER);
        vm.snapshotGasLastCall("stake_withdraw");
    }
}
