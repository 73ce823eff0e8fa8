// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Staking} from "../../contracts/Staking.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {ITokens} from "../../contracts/interfaces/ITokens.sol";
import {MockPool} from "../../contracts/mocks/MockPool.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Stake, provisions, thawing and exposure.
contract StakingTest is MoneyBase {
    function setUp() public override {
        super.setUp();
        stake(PROVIDER, FUNDS);
    }

    function expectProvisionReverts(bytes memory reason) internal {
        vm.prank(PROVIDER);
        vm.expectRevert(reason);
        staking.provision(address(pool), 100, address(slasher), THAW);
    }

    /* CONSTRUCTION */

    function test_constructor_zeroTokens_reverts() external {
        vm.expectRevert(IStaking.StakingZeroAddress.selector);
        new Staking(ITokens(address(0)), SINK);
    }

    function test_constructor_zeroSink_reverts() external {
        vm.expectRevert(IStaking.StakingZeroAddress.selector);
        new Staking(tokens, address(0));
    }

    function test_constructor_keepsTokensAndSink() external view {
        vm.assertEq(address(staking.TOKENS()), address(tokens));
        vm.assertEq(staking.BURN_SINK(), SINK);
    }

    /* STAKE */

    function test_deposit_creditsCallerAndTellsIt() external {
        token.mint(STRANGER, 10);
        vm.startPrank(STRANGER);
        token.approve(address(staking), 10);
        vm.expectEmit(address(staking));
        emit IStaking.StakeDeposited(address(token), STRANGER, 10);
        vm.assertEq(staking.deposit(address(token), 10), 10);
        vm.stopPrank();
        vm.assertEq(idleOf(STRANGER), 10);
        vm.assertEq(token.balanceOf(address(staking)), FUNDS + 10);
    }

    function test_deposit_unlistedToken_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingTokenNotListed.selector, STRANGER));
        staking.deposit(STRANGER, 1);
    }

    function test_deposit_delistedToken_revertsWhileExitsStayOpen() external {
        tokens.delist(address(token));
        vm.startPrank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingTokenNotListed.selector, address(token)));
        staking.deposit(address(token), 1);
        staking.withdraw(address(token), FUNDS, PROVIDER);
        vm.stopPrank();
        vm.assertEq(token.balanceOf(PROVIDER), FUNDS);
    }

    function test_deposit_zero_reverts() external {
        vm.expectRevert(IStaking.StakingZeroAmount.selector);
        staking.deposit(address(token), 0);
    }

    function test_C41_deposit_aboveMostBalance_reverts() external {
        uint256 most = type(uint96).max;
        vm.assertEq(staking.MOST_BALANCE(), most);
        token.mint(PROVIDER, most);
        vm.startPrank(PROVIDER);
        token.approve(address(staking), most);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingBalanceAbove.selector, most + 1, most));
        staking.deposit(address(token), most - FUNDS + 1);
        staking.deposit(address(token), most - FUNDS);
        vm.stopPrank();
        vm.assertEq(idleOf(PROVIDER), most);
    }

    function test_withdraw_paysAndTellsIt() external {
        vm.expectEmit(address(staking));
        emit IStaking.StakeWithdrawn(address(token), PROVIDER, STRANGER, 7);
        vm.prank(PROVIDER);
        staking.withdraw(address(token), 7, STRANGER);
        vm.assertEq(idleOf(PROVIDER), FUNDS - 7);
        vm.assertEq(token.balanceOf(STRANGER), 7);
    }

    function test_withdraw_aboveIdle_reverts() external {
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientIdle.selector, FUNDS, FUNDS + 1));
        staking.withdraw(address(token), FUNDS + 1, PROVIDER);
    }

    function test_C17_withdraw_ofAnothersStake_reverts() external {
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientIdle.selector, 0, 1));
        staking.withdraw(address(token), 1, STRANGER);
    }

    function test_withdraw_zeroOrToZero_reverts() external {
        vm.startPrank(PROVIDER);
        vm.expectRevert(IStaking.StakingZeroAmount.selector);
        staking.withdraw(address(token), 0, PROVIDER);
        vm.expectRevert(IStaking.StakingZeroAddress.selector);
        staking.withdraw(address(token), 1, address(0));
        vm.stopPrank();
    }

    /* PROVISIONS */

    function test_provision_first_fixesTermsAndTellsIt() external {
        vm.expectEmit(address(staking));
        emit IStaking.ProvisionCreated(address(pool), PROVIDER, address(slasher), address(token), THAW, CAP_PPM);
        vm.expectEmit(address(staking));
        emit IStaking.StakeProvisioned(address(pool), PROVIDER, 100);
        provision(100);

        IStaking.Provision memory made = provisionOf();
        vm.assertEq(made.slasher, address(slasher));
        vm.assertEq(made.tokenId, 1);
        vm.assertEq(made.thawPeriod, THAW);
        vm.assertEq(made.slashCapPpm, CAP_PPM);
        vm.assertEq(made.active, 100);
        vm.assertEq(uint256(made.thawing) + made.frozen + made.exposure + made.retiredAt, 0);
        vm.assertEq(idleOf(PROVIDER), FUNDS - 100);
    }

    function test_C36_provision_again_keepsFirstTerms() external {
        provision(100);
        pool.setTerms(address(token), STRANGER, THAW + 1, CAP_PPM + 1);
        provision(50);
        IStaking.Provision memory made = provisionOf();
        vm.assertEq(made.slasher, address(slasher));
        vm.assertEq(made.thawPeriod, THAW);
        vm.assertEq(made.slashCapPpm, CAP_PPM);
        vm.assertEq(made.active, 150);
    }

    function test_C34_provision_otherTermsThanExpected_reverts() external {
        pool.setTerms(address(token), STRANGER, THAW, CAP_PPM);
        expectProvisionReverts(abi.encodeWithSelector(IStaking.StakingTermsChanged.selector, STRANGER, THAW));
        pool.setTerms(address(token), address(slasher), THAW + 1, CAP_PPM);
        expectProvisionReverts(
            abi.encodeWithSelector(IStaking.StakingTermsChanged.selector, address(slasher), THAW + 1)
        );
    }

    function test_provision_zero_reverts() external {
        vm.expectRevert(IStaking.StakingZeroAmount.selector);
        staking.provision(address(pool), 0, address(slasher), THAW);
    }

    function test_provision_aboveIdle_reverts() external {
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientIdle.selector, FUNDS, FUNDS + 1));
        staking.provision(address(pool), FUNDS + 1, address(slasher), THAW);
    }

    function test_provision_tokenNeverStaked_reverts() external {
        pool.setTerms(STRANGER, address(slasher), THAW, CAP_PPM);
        expectProvisionReverts(abi.encodeWithSelector(IStaking.StakingInsufficientIdle.selector, 0, 100));
    }

    function test_provision_zeroSlasher_reverts() external {
        pool.setTerms(address(token), address(0), THAW, CAP_PPM);
        expectProvisionReverts(abi.encodeWithSelector(IStaking.StakingZeroAddress.selector));
    }

    function expectBadTerms(bytes32 term, uint256 value, uint256 bound_) internal {
        expectProvisionReverts(abi.encodeWithSelector(IStaking.StakingBadTerms.selector, term, value, bound_));
    }

    function test_C03_provision_thawPeriodOutsideBounds_reverts() external {
        pool.setTerms(address(token), address(slasher), 1 days - 1, CAP_PPM);
        expectBadTerms("thawPeriod", 1 days - 1, 1 days);
        pool.setTerms(address(token), address(slasher), 120 days + 1, CAP_PPM);
        expectBadTerms("thawPeriod", 120 days + 1, 120 days);
        pool.setTerms(address(token), address(slasher), type(uint32).max, CAP_PPM);
        expectBadTerms("thawPeriod", type(uint32).max, 120 days);
    }

    function test_C04_provision_slashCapOutsideBounds_reverts() external {
        pool.setTerms(address(token), address(slasher), THAW, 0);
        expectBadTerms("slashCapPpm", 0, 1);
        pool.setTerms(address(token), address(slasher), THAW, 1_000_001);
        expectBadTerms("slashCapPpm", 1_000_001, 1_000_000);
    }

    /* THAWING */

    function test_thaw_movesActiveToItsOwnClock() external {
        provision(1000);
        vm.expectEmit(address(staking));
        emit IStaking.ThawStarted(address(pool), PROVIDER, 300, START + THAW);
        thaw(300);
        vm.assertEq(provisionOf().active, 700);
        vm.assertEq(provisionOf().thawing, 300);
        IStaking.ThawEntry[] memory entries = staking.thawEntries(address(pool), PROVIDER);
        vm.assertEq(entries.length, 1);
        vm.assertEq(entries[0].amount, 300);
        vm.assertEq(entries[0].maturesAt, START + THAW);
    }

    function test_thaw_aboveActive_reverts() external {
        provision(1000);
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 1000, 1001));
        staking.thaw(address(pool), 1001);
    }

    function test_thaw_zero_reverts() external {
        provision(1000);
        vm.prank(PROVIDER);
        vm.expectRevert(IStaking.StakingZeroAmount.selector);
        staking.thaw(address(pool), 0);
    }

    function test_C17_thaw_withoutProvision_reverts() external {
        bytes memory reason = abi.encodeWithSelector(IStaking.StakingProvisionUnknown.selector, address(pool), STRANGER);
        vm.startPrank(STRANGER);
        vm.expectRevert(reason);
        staking.thaw(address(pool), 1);
        vm.expectRevert(reason);
        staking.completeThaw(address(pool));
        vm.expectRevert(reason);
        staking.retire(address(pool));
        vm.stopPrank();
    }

    function test_C25_thaw_ninthEntry_reverts() external {
        provision(1000);
        for (uint256 i = 0; i < 8; ++i) {
            thaw(1);
        }
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingTooManyThaws.selector, 8, 8));
        staking.thaw(address(pool), 1);
    }

    function test_C09_thaw_again_movesNoEarlierClock() external {
        provision(1000);
        thaw(100);
        vm.warp(START + 1 days);
        thaw(50);
        IStaking.ThawEntry[] memory entries = staking.thawEntries(address(pool), PROVIDER);
        vm.assertEq(entries[0].maturesAt, START + THAW);
        vm.assertEq(entries[1].maturesAt, START + 1 days + THAW);
    }

    function test_C35_completeThaw_oneSecondEarly_reverts() external {
        provision(1000);
        thaw(100);
        vm.warp(START + THAW - 1);
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNothingMature.selector, address(pool), PROVIDER));
        staking.completeThaw(address(pool));
        vm.warp(START + THAW);
        vm.expectEmit(address(staking));
        emit IStaking.ThawCompleted(address(pool), PROVIDER, 100);
        vm.prank(PROVIDER);
        vm.assertEq(staking.completeThaw(address(pool)), 100);
        vm.assertEq(idleOf(PROVIDER), FUNDS - 900);
        vm.assertEq(provisionOf().thawing, 0);
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNothingMature.selector, address(pool), PROVIDER));
        staking.completeThaw(address(pool));
    }

    function test_completeThaw_takesOnlyWhatMatured() external {
        provision(1000);
        thaw(100);
        thaw(20);
        vm.warp(START + 1);
        thaw(3);
        vm.warp(START + THAW);
        vm.prank(PROVIDER);
        vm.assertEq(staking.completeThaw(address(pool)), 120);
        vm.assertEq(provisionOf().thawing, 3);
        vm.assertEq(staking.thawEntries(address(pool), PROVIDER).length, 1);
    }

    /// @dev The ring wraps: entries keep their order and none is lost.
    function test_C08_thawQueue_wrapsAround() external {
        provision(1000);
        for (uint256 i = 0; i < 8; ++i) {
            vm.warp(START + i * 1 hours);
            thaw(i + 1);
        }
        for (uint256 i = 0; i < 8; ++i) {
            vm.warp(START + THAW + i * 1 hours);
            vm.prank(PROVIDER);
            vm.assertEq(staking.completeThaw(address(pool)), i + 1);
            thaw(77 + i);
            IStaking.ThawEntry[] memory entries = staking.thawEntries(address(pool), PROVIDER);
            vm.assertEq(entries.length, 8);
            vm.assertEq(entries[0].amount, i == 7 ? 77 : i + 2);
            vm.assertEq(entries[7].amount, 77 + i);
        }
    }

    /* EXPOSURE */

    function test_reserve_countsAgainstUnreserved() external {
        provision(1000);
        vm.expectEmit(address(staking));
        emit IStaking.ExposureReserved(address(pool), PROVIDER, 400);
        pool.reserve(PROVIDER, 400);
        vm.assertEq(provisionOf().exposure, 400);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 600);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 600, 601));
        pool.reserve(PROVIDER, 601);
        pool.reserve(PROVIDER, 600);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 0);
    }

    function test_C41_reserve_ofMax_reverts() external {
        provision(1000);
        vm.expectRevert(
            abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 1000, type(uint128).max)
        );
        pool.reserve(PROVIDER, type(uint128).max);
    }

    function test_C17_reserve_byAnotherPool_touchesOnlyItsOwn() external {
        provision(1000);
        MockPool other = new MockPool(escrow, staking);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 0, 1));
        other.reserve(PROVIDER, 1);
        pool.reserve(PROVIDER, 1);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingExposureBelow.selector, 0, 1));
        other.release(PROVIDER, 1);
    }

    function test_release_freesExactlyWhatIsGiven() external {
        provision(1000);
        pool.reserve(PROVIDER, 400);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingExposureBelow.selector, 400, 401));
        pool.release(PROVIDER, 401);
        vm.expectEmit(address(staking));
        emit IStaking.ExposureReleased(address(pool), PROVIDER, 150);
        pool.release(PROVIDER, 150);
        vm.assertEq(provisionOf().exposure, 250);
    }

    function test_thaw_ofReservedStake_reverts() external {
        provision(1000);
        pool.reserve(PROVIDER, 400);
        vm.assertEq(staking.thawable(address(pool), PROVIDER), 600);
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 600, 601));
        staking.thaw(address(pool), 601);
        thaw(600);
    }

    function test_reserve_thawingStake_reverts() external {
        provision(1000);
        thaw(700);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 300, 301));
        pool.reserve(PROVIDER, 301);
    }

    /* RETIRING */

    function test_retire_stopsNewExposure() external {
        provision(1000);
        vm.expectEmit(address(staking));
        emit IStaking.ProvisionRetired(address(pool), PROVIDER, START + THAW);
        vm.prank(PROVIDER);
        staking.retire(address(pool));
        vm.assertEq(provisionOf().retiredAt, START);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 0);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingRetired.selector, START));
        pool.reserve(PROVIDER, 0);
    }

    function test_retire_twice_reverts() external {
        provision(1000);
        vm.startPrank(PROVIDER);
        staking.retire(address(pool));
        vm.warp(START + 1);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingRetired.selector, START));
        staking.retire(address(pool));
        vm.stopPrank();
    }

    /// @dev A pool that never releases holds stake at most two thaw periods.
    function test_C43_retire_freesStakeOfPoolThatNeverReleases() external {
        provision(1000);
        pool.reserve(PROVIDER, 1000);
        vm.startPrank(PROVIDER);
        staking.retire(address(pool));
        vm.warp(START + THAW - 1);
        vm.assertEq(staking.thawable(address(pool), PROVIDER), 0);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, 0, 1));
        staking.thaw(address(pool), 1);
        vm.warp(START + THAW);
        vm.assertEq(staking.thawable(address(pool), PROVIDER), 1000);
        staking.thaw(address(pool), 1000);
        vm.warp(START + 2 * THAW);
        staking.completeThaw(address(pool));
        staking.withdraw(address(token), FUNDS, PROVIDER);
        vm.stopPrank();
        vm.assertEq(token.balanceOf(PROVIDER), FUNDS);
        pool.release(PROVIDER, 1000);
    }

    function test_provision_afterRetirement_takesItBack() external {
        provision(1000);
        pool.reserve(PROVIDER, 100);
        vm.prank(PROVIDER);
        staking.retire(address(pool));
        vm.warp(START + THAW);
        provision(1);
        vm.assertEq(provisionOf().retiredAt, 0);
        vm.assertEq(staking.thawable(address(pool), PROVIDER), 901);
        pool.reserve(PROVIDER, 1);
    }
}
