// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {BlacklistToken} from "../../contracts/mocks/BlacklistToken.sol";
import {CallbackToken} from "../../contracts/mocks/CallbackToken.sol";
import {ReentrantHook} from "../../contracts/mocks/Hooks.sol";
import {TestSlasher} from "../../contracts/mocks/TestSlasher.sol";
import {MoneyBase} from "./MoneyBase.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @notice Freezing, slashing, payouts.
contract StakingOffencesTest is MoneyBase {
    function setUp() public override {
        super.setUp();
        stakeAndProvision(1000);
    }

    /* FREEZING */

    function test_freeze_movesActiveToItsOwnBucket() external {
        vm.expectEmit(address(staking));
        emit IStaking.StakeFrozen(address(pool), PROVIDER, OFFENCE, 300, 0);
        vm.assertEq(freeze(OFFENCE, 300), 300);
        vm.assertEq(provisionOf().active, 700);
        vm.assertEq(provisionOf().frozen, 300);
        IStaking.Offence memory offence = staking.offenceOf(address(slasher), OFFENCE);
        vm.assertEq(offence.pool, address(pool));
        vm.assertEq(offence.provider, PROVIDER);
        vm.assertEq(offence.frozen, 300);
        vm.assertEq(offence.frozenAt, START);
    }

    function test_C05_freeze_aboveCap_clamps() external {
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START)), 500);
        vm.assertEq(freeze(OFFENCE, type(uint128).max), 500);
        vm.assertEq(freeze("next", type(uint128).max), 500);
        vm.assertEq(freeze("third", type(uint128).max), 0);
        vm.assertEq(provisionOf().frozen, 1000);
    }

    function test_C07_freeze_ofOneUnitStake_stillBites() external {
        address small = address(0x5A11);
        stake(small, 1);
        vm.prank(small);
        staking.provision(address(pool), 1, address(slasher), THAW);
        vm.assertEq(slasher.freeze(address(pool), small, OFFENCE, uint64(START), 1), 1);
    }

    function test_freeze_ofZero_isKnownAndResolved() external {
        vm.assertEq(freeze(OFFENCE, 0), 0);
        vm.assertEq(slasher.slash(OFFENCE, 10, splitOf(0, 0)), 0);
        vm.assertEq(slasher.unfreeze(OFFENCE), 0);
    }

    function test_C04_freeze_byAnother_reverts() external {
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNotSlasher.selector, STRANGER, address(slasher)));
        staking.freeze(address(pool), PROVIDER, OFFENCE, uint64(START), 1);
    }

    function test_C17_freeze_unknownProvision_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingProvisionUnknown.selector, address(pool), STRANGER));
        slasher.freeze(address(pool), STRANGER, OFFENCE, uint64(START), 1);
    }

    function test_C12_freeze_sameOffenceTwice_reverts() external {
        freeze(OFFENCE, 10);
        slasher.slash(OFFENCE, 10, splitOf(0, 0));
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingOffenceKnown.selector, OFFENCE));
        freeze(OFFENCE, 10);
    }

    /// @dev A slasher of the offender's own cannot use up the id.
    function test_C13_freeze_sameIdByAnotherSlasher_isApart() external {
        TestSlasher own = new TestSlasher(staking);
        pool.setTerms(address(token), address(own), THAW, CAP_PPM);
        stake(STRANGER, 100);
        vm.prank(STRANGER);
        staking.provision(address(pool), 100, address(own), THAW);
        own.freeze(address(pool), STRANGER, OFFENCE, uint64(START), 1);
        vm.assertEq(freeze(OFFENCE, 10), 10);
    }

    function test_C02_freeze_takesThawingStakeFirst_theOldestFirst() external {
        thaw(100);
        vm.warp(START + 1);
        thaw(50);
        vm.expectEmit(address(staking));
        emit IStaking.StakeFrozen(address(pool), PROVIDER, OFFENCE, 120, 120);
        vm.assertEq(freeze(OFFENCE, 120), 120);
        IStaking.ThawEntry[] memory entries = staking.thawEntries(address(pool), PROVIDER);
        vm.assertEq(entries.length, 1);
        vm.assertEq(entries[0].amount, 30);
        vm.assertEq(entries[0].maturesAt, START + 1 + THAW);
        vm.assertEq(provisionOf().thawing, 30);
        vm.assertEq(provisionOf().active, 850);

        vm.expectEmit(address(staking));
        emit IStaking.StakeFrozen(address(pool), PROVIDER, "next", 40, 30);
        vm.assertEq(freeze("next", 40), 40);
        vm.assertEq(provisionOf().active, 840);
        vm.assertEq(staking.thawEntries(address(pool), PROVIDER).length, 0);
    }

    function test_C02_freeze_maturedButUncompletedStake_isTaken() external {
        thaw(400);
        vm.warp(START + THAW + 1 days);
        vm.assertEq(freeze(OFFENCE, 400), 400);
        vm.prank(PROVIDER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNothingMature.selector, address(pool), PROVIDER));
        staking.completeThaw(address(pool));
    }

    function test_C10_freeze_newerStake_isOutOfReach() external {
        vm.warp(START + 10);
        stakeAndProvision(5000);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START)), 1000);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START + 9)), 1000);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START + 10)), 3000);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, type(uint64).max), 3000);
        vm.assertEq(slasher.freeze(address(pool), PROVIDER, OFFENCE, uint64(START), 5000), 1000);
        vm.assertEq(slasher.freeze(address(pool), PROVIDER, "next", uint64(START), 5000), 0);
    }

    function test_C10_freeze_offenceBeforeProvision_takesNothing() external {
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START - 1)), 0);
        vm.assertEq(slasher.freeze(address(pool), PROVIDER, OFFENCE, uint64(START - 1), 10), 0);
    }

    function test_C10_freeze_severalTopUps_countsEachFromItsSecond() external {
        for (uint256 i = 1; i <= 5; ++i) {
            vm.warp(START + i * 100);
            stakeAndProvision(10);
        }
        pool.setTerms(address(token), address(slasher), THAW, 1_000_000);
        for (uint256 i = 0; i <= 5; ++i) {
            uint256 expected = 1000 + 10 * i;
            uint256 cap = 525;
            uint256 got = staking.slashable(address(pool), PROVIDER, uint64(START + i * 100));
            vm.assertEq(got, expected < cap ? expected : cap);
        }
        freeze("a", 500);
        freeze("b", 500);
        for (uint256 i = 0; i <= 5; ++i) {
            vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START + i * 100)), 10 * i);
            vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START + i * 100 + 99)), 10 * i);
        }
    }

    function test_C02_freeze_reservedStake_isTakenAndUnreservedStaysZero() external {
        pool.reserve(PROVIDER, 900);
        freeze(OFFENCE, 500);
        vm.assertEq(provisionOf().exposure, 900);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 0);
        vm.assertEq(staking.thawable(address(pool), PROVIDER), 0);
        pool.release(PROVIDER, 900);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 500);
    }

    function test_C11_freeze_anyOrder_takesTheSame(uint256 seed) external {
        uint128[3] memory amounts = [uint128(100), 250, 400];
        uint256 first = seed % 3;
        uint256 second = (first + 1 + (seed / 3) % 2) % 3;
        uint256 third = 3 - first - second;
        freeze("a", amounts[first]);
        freeze("b", amounts[second]);
        freeze("c", amounts[third]);
        vm.assertEq(provisionOf().frozen, 750);
        slasher.slash("c", amounts[third], splitOf(0, 0));
        slasher.slash("a", amounts[first], splitOf(0, 0));
        slasher.slash("b", amounts[second], splitOf(0, 0));
        vm.assertEq(provisionOf().frozen, 0);
        vm.assertEq(provisionOf().active, 250);
        vm.assertEq(staking.burnPending(address(token)), 750);
    }

    /* UNFREEZING */

    function test_unfreeze_givesBackOnce() external {
        freeze(OFFENCE, 300);
        vm.expectEmit(address(staking));
        emit IStaking.StakeUnfrozen(address(pool), PROVIDER, OFFENCE, 300);
        vm.assertEq(slasher.unfreeze(OFFENCE), 300);
        vm.assertEq(provisionOf().active, 1000);
        vm.assertEq(provisionOf().frozen, 0);
        vm.assertEq(slasher.unfreeze(OFFENCE), 0);
        vm.assertEq(slasher.slash(OFFENCE, 300, splitOf(0, 0)), 0);
        vm.assertEq(provisionOf().active, 1000);
    }

    function test_C17_offenceOfAnotherSlasher_isUnknown() external {
        freeze(OFFENCE, 300);
        bytes memory reason = abi.encodeWithSelector(IStaking.StakingOffenceUnknown.selector, OFFENCE);
        vm.startPrank(STRANGER);
        vm.expectRevert(reason);
        staking.unfreeze(OFFENCE);
        vm.expectRevert(reason);
        staking.slash(OFFENCE, 300, splitOf(0, 0));
        vm.expectRevert(reason);
        staking.unfreezeExpired(STRANGER, OFFENCE);
        vm.stopPrank();
    }

    function test_C43_unfreezeExpired_afterThawPeriod_byAnyone() external {
        freeze(OFFENCE, 300);
        uint256 endsAt = START + THAW;
        vm.warp(endsAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingFreezeRunning.selector, endsAt, endsAt - 1));
        staking.unfreezeExpired(address(slasher), OFFENCE);
        vm.warp(endsAt);
        vm.prank(STRANGER);
        vm.assertEq(staking.unfreezeExpired(address(slasher), OFFENCE), 300);
        vm.assertEq(provisionOf().active, 1000);
    }

    /* SLASHING */

    function test_slash_dividesBurnsHalfAndTellsIt() external {
        freeze(OFFENCE, 400);
        vm.expectEmit(address(staking));
        emit IStaking.StakeSlashed(address(pool), PROVIDER, OFFENCE, 201, 101, 50, 50);
        vm.expectEmit(address(staking));
        emit IStaking.StakeUnfrozen(address(pool), PROVIDER, OFFENCE, 199);
        vm.assertEq(slasher.slash(OFFENCE, 201, splitOf(1000, 1000)), 201);
        vm.assertEq(provisionOf().active, 799);
        vm.assertEq(provisionOf().frozen, 0);
        vm.assertEq(staking.offenceOf(address(slasher), OFFENCE).frozen, 0);
        vm.assertEq(staking.burnPending(address(token)), 101);
        (uint256 amount, uint256 maturesAt) = staking.payoutOf(address(slasher), OFFENCE, renter);
        vm.assertEq(amount, 50);
        vm.assertEq(maturesAt, START + THAW);
        (amount, maturesAt) = staking.payoutOf(address(slasher), OFFENCE, CHALLENGER);
        vm.assertEq(amount, 50);
        vm.assertEq(maturesAt, START + THAW);
    }

    function test_slash_renterGetsAtMostItsLoss() external {
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, splitOf(30, 20));
        (uint256 toRenter,) = staking.payoutOf(address(slasher), OFFENCE, renter);
        (uint256 toChallenger,) = staking.payoutOf(address(slasher), OFFENCE, CHALLENGER);
        vm.assertEq(toRenter, 30);
        vm.assertEq(toChallenger, 20);
        vm.assertEq(staking.burnPending(address(token)), 350);
    }

    function test_C05_slash_aboveFrozen_clamps() external {
        freeze(OFFENCE, 400);
        vm.assertEq(slasher.slash(OFFENCE, type(uint128).max, splitOf(0, 0)), 400);
        vm.assertEq(provisionOf().active, 600);
    }

    function test_C18_slash_twice_takesNothingMore() external {
        freeze(OFFENCE, 400);
        freeze("other", 300);
        slasher.slash(OFFENCE, 100, splitOf(0, 0));
        vm.assertEq(slasher.slash(OFFENCE, 100, splitOf(0, 0)), 0);
        vm.assertEq(provisionOf().frozen, 300);
        vm.assertEq(provisionOf().active, 600);
    }

    function test_slash_ofZero_unfreezesAll() external {
        freeze(OFFENCE, 400);
        vm.assertEq(slasher.slash(OFFENCE, 0, splitOf(1, 1)), 0);
        vm.assertEq(provisionOf().active, 1000);
    }

    function test_slash_judgeAsPayee_isBurnt() external {
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, IStaking.SlashSplit(address(slasher), 100, address(slasher), 100));
        vm.assertEq(staking.burnPending(address(token)), 400);
        (uint256 amount,) = staking.payoutOf(address(slasher), OFFENCE, address(slasher));
        vm.assertEq(amount, 0);
    }

    function test_slash_nobodyAsPayee_isBurnt() external {
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, IStaking.SlashSplit(address(0), 100, address(0), 100));
        vm.assertEq(staking.burnPending(address(token)), 400);
    }

    function test_D04_slash_ofOneself_losesHalfAndGainsNoTime(uint128 amount, uint128 renterAmount, uint128 reward)
        external
    {
        uint256 frozen = freeze(OFFENCE, amount);
        uint256 taken = slasher.slash(OFFENCE, amount, IStaking.SlashSplit(PROVIDER, renterAmount, PROVIDER, reward));
        vm.assertEq(taken, frozen);
        (uint256 back, uint256 maturesAt) = staking.payoutOf(address(slasher), OFFENCE, PROVIDER);
        vm.assertLe(back, taken / 2);
        vm.assertGe(staking.burnPending(address(token)), taken - taken / 2);
        vm.assertTrue(back == 0 || maturesAt >= START + THAW);
        vm.assertEq(staking.burnPending(address(token)) + back, taken);
    }

    function test_slash_challengerGetsAtMostAQuarter(uint128 amount, uint128 reward) external {
        freeze(OFFENCE, 500);
        uint256 taken = slasher.slash(OFFENCE, amount, IStaking.SlashSplit(address(0), 0, CHALLENGER, reward));
        (uint256 got,) = staking.payoutOf(address(slasher), OFFENCE, CHALLENGER);
        vm.assertEq(got, reward < taken / 4 ? reward : taken / 4);
    }

    function test_C07_slashedWhole_canStartAgain() external {
        freeze("a", 500);
        freeze("b", 500);
        slasher.slash("a", 500, splitOf(0, 0));
        slasher.slash("b", 500, splitOf(0, 0));
        vm.assertEq(provisionOf().active, 0);
        vm.warp(START + 1);
        stakeAndProvision(77);
        vm.assertEq(staking.unreserved(address(pool), PROVIDER), 77);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START)), 0);
        vm.assertEq(staking.slashable(address(pool), PROVIDER, uint64(START + 1)), 39);
    }

    function test_C06_slash_duringThaw_locksNothing() external {
        thaw(600);
        freeze(OFFENCE, 500);
        slasher.slash(OFFENCE, 250, splitOf(0, 0));
        thaw(650);
        vm.warp(START + THAW);
        vm.startPrank(PROVIDER);
        vm.assertEq(staking.completeThaw(address(pool)), 750);
        staking.withdraw(address(token), 750, PROVIDER);
        vm.stopPrank();
        vm.assertEq(token.balanceOf(PROVIDER), 750);
    }

    /* PAYOUTS */

    function test_withdrawPayout_maturesAfterAThaw() external {
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, splitOf(60, 40));
        uint256 maturesAt = START + THAW;
        vm.startPrank(renter);
        vm.warp(maturesAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingPayoutImmature.selector, maturesAt, maturesAt - 1));
        staking.withdrawPayout(address(slasher), OFFENCE, renter);
        vm.warp(maturesAt);
        vm.expectEmit(address(staking));
        emit IStaking.PayoutWithdrawn(address(slasher), OFFENCE, renter, STRANGER, 60);
        vm.assertEq(staking.withdrawPayout(address(slasher), OFFENCE, STRANGER), 60);
        vm.assertEq(token.balanceOf(STRANGER), 60);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNothingToPay.selector, OFFENCE, renter));
        staking.withdrawPayout(address(slasher), OFFENCE, STRANGER);
        vm.stopPrank();
    }

    function test_withdrawPayout_toZero_reverts() external {
        vm.expectRevert(IStaking.StakingZeroAddress.selector);
        staking.withdrawPayout(address(slasher), OFFENCE, address(0));
    }

    function test_C17_withdrawPayout_ofAnother_reverts() external {
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, splitOf(60, 40));
        vm.warp(START + THAW);
        vm.prank(STRANGER);
        vm.expectRevert(abi.encodeWithSelector(IStaking.StakingNothingToPay.selector, OFFENCE, STRANGER));
        staking.withdrawPayout(address(slasher), OFFENCE, STRANGER);
    }

    function test_flushBurn_sendsToTheSink() external {
        vm.expectRevert(IStaking.StakingZeroAmount.selector);
        staking.flushBurn(address(token));
        freeze(OFFENCE, 400);
        slasher.slash(OFFENCE, 400, splitOf(0, 0));
        vm.expectEmit(address(staking));
        emit IStaking.BurnFlushed(address(token), 400);
        vm.assertEq(staking.flushBurn(address(token)), 400);
        vm.assertEq(token.balanceOf(SINK), 400);
        vm.assertEq(staking.burnPending(address(token)), 0);
    }

    /* TOKENS */

    function test_C01_reentryFromWithdraw_isRefused() external {
        CallbackToken coin = new CallbackToken();
        ReentrantHook hook = new ReentrantHook();
        tokens.list(address(coin));
        coin.mint(address(hook), 100);
        hook.execute(address(coin), abi.encodeCall(coin.approve, (address(staking), 100)));
        hook.execute(address(staking), abi.encodeCall(IStaking.deposit, (address(coin), 100)));
        hook.execute(address(coin), abi.encodeCall(CallbackToken.setHook, (hook)));
        IStaking.SlashSplit memory none;
        bytes[14] memory entries = [
            abi.encodeCall(IStaking.deposit, (address(coin), 1)),
            abi.encodeCall(IStaking.withdraw, (address(coin), 1, address(hook))),
            abi.encodeCall(IStaking.provision, (address(pool), 1, address(slasher), THAW)),
            abi.encodeCall(IStaking.thaw, (address(pool), 1)),
            abi.encodeCall(IStaking.retire, (address(pool))),
            abi.encodeCall(IStaking.completeThaw, (address(pool))),
            abi.encodeCall(IStaking.reserve, (PROVIDER, 1)),
            abi.encodeCall(IStaking.release, (PROVIDER, 1)),
            abi.encodeCall(IStaking.freeze, (address(pool), PROVIDER, OFFENCE, 0, 1)),
            abi.encodeCall(IStaking.unfreeze, (OFFENCE)),
            abi.encodeCall(IStaking.slash, (OFFENCE, 1, none)),
            abi.encodeCall(IStaking.unfreezeExpired, (address(slasher), OFFENCE)),
            abi.encodeCall(IStaking.withdrawPayout, (address(slasher), OFFENCE, address(hook))),
            abi.encodeCall(IStaking.flushBurn, (address(coin)))
        ];
        for (uint256 i = 0; i < entries.length; ++i) {
            hook.arm(coin, address(staking), entries[i]);
            hook.execute(address(staking), abi.encodeCall(IStaking.withdraw, (address(coin), 1, address(hook))));
            vm.assertFalse(hook.succeeded());
            vm.assertEq(
                hook.returned(), abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector)
            );
        }
        vm.assertEq(staking.idle(address(coin), address(hook)), 86);
    }

    function test_C23_blacklistedProvider_leavesToAnotherAddress() external {
        BlacklistToken coin = new BlacklistToken();
        tokens.list(address(coin));
        coin.mint(PROVIDER, 100);
        vm.startPrank(PROVIDER);
        coin.approve(address(staking), 100);
        staking.deposit(address(coin), 100);
        coin.bar(PROVIDER, true);
        staking.withdraw(address(coin), 100, STRANGER);
        vm.stopPrank();
        vm.assertEq(coin.balanceOf(STRANGER), 100);
    }

    function test_C22_donation_changesNobodysStake() external {
        token.mint(address(staking), 1_000_000);
        vm.assertEq(provisionOf().active, 1000);
        stake(STRANGER, 7);
        vm.assertEq(idleOf(STRANGER), 7);
    }
}
