// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {CallbackToken} from "../../contracts/mocks/CallbackToken.sol";
import {MockToken} from "../../contracts/mocks/MockToken.sol";
import {NoReturnToken} from "../../contracts/mocks/NoReturnToken.sol";
import {ProviderActions} from "./ProviderActions.sol";
import {RenterActions} from "./RenterActions.sol";

/// @notice Renter, provider, node, strangers, a hostile controller, slasher and administrators acting at random on the whole
/// system, beside ledgers and clocks of their own. Each action foretells whether it succeeds and what it pays; a wrong forecast is
/// a `breach`. Nothing here reverts, so that every call counts.
contract MoneyHandler is RenterActions, ProviderActions {
    /* TIME AND STRANGERS */

    function act_wait(uint256 seed) external {
        uint256[6] memory steps = [uint256(1), 60, 15 minutes, 1 hours, 1 days, 8 days];
        _skip(seed % steps[(seed >> 8) % 6] + 1);
    }

    function act_gift(uint256 seed) external {
        address target = seed % 2 == 0 ? address(escrow) : address(staking);
        uint256 amount = seed % 1000;
        token.mint(target, amount);
        if (seed % 2 == 0) escrowGifts += amount;
        else stakingGifts += amount;
        ++effective;
    }

    /// @dev A stranger tries everything that belongs to others; nothing may succeed.
    function act_stranger(uint256 seed) external {
        Ghost memory ghost = _pick(seed);
        IStaking.SlashSplit memory split = IStaking.SlashSplit(stranger, 1e18, stranger, 1e18);
        bytes32 offence = offences.length == 0 ? bytes32(seed) : offences[seed % offences.length].id;
        bytes[11] memory tries = [
            abi.encodeCall(IEscrow.withdraw, (address(token), stranger)),
            abi.encodeCall(IEscrow.withdrawOwedTo, (address(token), stranger)),
            abi.encodeCall(IEscrow.stopLease, (ghost.id)),
            abi.encodeCall(IEscrow.settleEarly, (ghost.id)),
            abi.encodeCall(IEscrow.collect, (ghost.controller, ghost.id, type(uint128).max, new bytes(65))),
            abi.encodeCall(IStaking.withdraw, (address(token), 1, stranger)),
            abi.encodeCall(IStaking.completeThaw, (address(pool))),
            abi.encodeCall(IStaking.freeze, (address(pool), provider, bytes32(seed), uint64(block.timestamp), 1)),
            abi.encodeCall(IStaking.slash, (offence, 1, split)),
            abi.encodeCall(IStaking.unfreeze, (offence)),
            abi.encodeCall(IStaking.release, (provider, 1))
        ];
        uint256 which = seed % tries.length;
        vm.prank(stranger);
        (bool isDone,) = (which < 5 ? address(escrow) : address(staking)).call(tries[which]);
        if (isDone) breach = "a stranger succeeded";
        ++effective;
    }

    /* ADMINISTRATORS */

    function act_admin(uint256 seed) external {
        if (seed % 4 == 0) {
            if (tokens.isListed(address(token))) tokens.delist(address(token));
            else tokens.list(address(token));
        } else {
            vm.prank(poolOwner);
            if (seed % 4 == 1) {
                try pool.pause() {} catch {}
            } else if (seed % 4 == 2) {
                try pool.unpause() {} catch {}
            } else {
                pool.setMetadata(bytes32(seed), "");
            }
        }
        ++effective;
    }

    /* TOKEN ZOO */

    function act_zoo(uint256 seed) external {
        address coin = zoo[seed % zoo.length];
        uint256 amount = bound(seed >> 8, 2, 1e18);
        if (seed >> 128 & 1 == 0) {
            MockToken(coin).mint(address(hook), amount);
            hook.execute(coin, abi.encodeCall(NoReturnToken.approve, (address(escrow), 0)));
            hook.execute(coin, abi.encodeCall(NoReturnToken.approve, (address(escrow), amount)));
            if (coin == zoo[3]) {
                hook.arm(CallbackToken(coin), address(escrow), abi.encodeCall(IEscrow.deposit, (coin, 1)));
            }
            bytes memory answer = hook.execute(address(escrow), abi.encodeCall(IEscrow.deposit, (coin, amount)));
            zooIn[coin] += abi.decode(answer, (uint256));
        } else if (zooIn[coin] != 0) {
            hook.execute(address(escrow), abi.encodeCall(IEscrow.noticeWithdrawal, (coin, amount)));
            _skip(15 minutes);
            bytes memory answer = hook.execute(address(escrow), abi.encodeCall(IEscrow.withdraw, (coin, address(hook))));
            zooIn[coin] -= abi.decode(answer, (uint256));
        }
        ++effective;
    }

    /* EXIT */

    /// @notice Everybody takes out everything, with no help of pool, slasher or administrator.
    function leaveAll() external {
        _skip(40 days);
        for (uint256 i = 0; i < ghosts.length; ++i) {
            if (!ghosts[i].isSettled) escrow.settle(ghosts[i].controller, ghosts[i].id);
        }
        for (uint256 i = 0; i < offences.length; ++i) {
            staking.unfreezeExpired(address(slasher), offences[i].id);
        }
        _leaveEscrow();
        for (uint256 side = 0; side < 2; ++side) {
            _leaveStaking(pools[side]);
        }
        _takeRest();
    }

    function _leaveEscrow() private {
        vm.prank(renter);
        escrow.noticeWithdrawal(address(token), type(uint256).max);
        _skip(15 minutes);
        if (escrow.free(address(token), renter) != 0) {
            vm.prank(renter);
            escrow.withdraw(address(token), renter);
        }
        for (uint256 side = 0; side < 2; ++side) {
            (uint256 fees, uint256 burnt) = escrow.takings(pools[side], address(token));
            if (fees + burnt != 0) escrow.sweep(pools[side], address(token));
        }
        address[3] memory owners = [payout, treasury, accomplice];
        for (uint256 i = 0; i < owners.length; ++i) {
            if (escrow.owed(address(token), owners[i]) != 0) escrow.withdrawOwed(address(token), owners[i]);
        }
        if (escrow.burnPending(address(token)) != 0) escrow.flushBurn(address(token));
    }

    function _leaveStaking(address pool_) private {
        IStaking.Provision memory made = staking.provisionOf(pool_, provider);
        if (made.slasher == address(0)) return;
        vm.startPrank(provider);
        if (made.retiredAt == 0) staking.retire(pool_);
        _skip(THAW);
        if (made.thawing != 0) staking.completeThaw(pool_);
        if (made.active != 0) {
            staking.thaw(pool_, made.active);
            _skip(THAW);
            staking.completeThaw(pool_);
        }
        vm.stopPrank();
    }

    function _takeRest() private {
        uint256 idle = staking.idle(address(token), provider);
        if (idle != 0) {
            vm.prank(provider);
            staking.withdraw(address(token), idle, provider);
        }
        address[2] memory payees = [renter, stranger];
        for (uint256 i = 0; i < 2 * offences.length; ++i) {
            bytes32 id = offences[i / 2].id;
            (uint256 amount,) = staking.payoutOf(address(slasher), id, payees[i % 2]);
            if (amount == 0) continue;
            vm.prank(payees[i % 2]);
            staking.withdrawPayout(address(slasher), id, payees[i % 2]);
        }
        if (staking.burnPending(address(token)) != 0) staking.flushBurn(address(token));
    }
}
