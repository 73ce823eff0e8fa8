// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {HandlerState} from "./HandlerState.sol";

/// @notice What a provider and a slasher do to stake.
abstract contract ProviderActions is HandlerState {
    /* PROVIDER */

    function act_provision(uint256 seed) external {
        if (!tokens.isListed(address(token))) return;
        uint256 amount = bound(seed, 1, 1e17);
        uint256 side = seed % 2;
        _provision(pools[side], amount);
        staked += amount;
        added[side].push(Piece(block.timestamp, amount));
        ++effective;
    }

    function _provision(address pool_, uint256 amount) private {
        token.mint(provider, amount);
        vm.startPrank(provider);
        token.approve(address(staking), amount);
        staking.deposit(address(token), amount);
        staking.provision(pool_, amount, address(slasher), uint32(THAW));
        vm.stopPrank();
    }

    function act_thaw(uint256 seed) external {
        uint256 side = seed % 2;
        uint256 most = staking.thawable(pools[side], provider);
        uint256 amount = bound(seed >> 8, 1, most + 1);
        bool isFine = amount <= most && staking.thawEntries(pools[side], provider).length < 8;
        vm.prank(provider);
        try staking.thaw(pools[side], amount) {
            if (!isFine) breach = "thawed what was reserved";
            thaws[side].push(Piece(block.timestamp + THAW, amount));
            ++effective;
        } catch {
            if (isFine) breach = "thaw refused";
        }
    }

    function act_completeThaw(uint256 seed) external {
        uint256 side = seed % 2;
        uint256 matured;
        for (uint256 i = 0; i < thaws[side].length; ++i) {
            if (thaws[side][i].time <= block.timestamp) matured += thaws[side][i].amount;
        }
        vm.prank(provider);
        try staking.completeThaw(pools[side]) returns (uint256 amount) {
            completed[side] += amount;
            if (completed[side] > matured) breach = "stake left before its clock";
            ++effective;
        } catch {}
    }

    function act_retire(uint256 seed) external {
        if (seed % 8 > 1) return;
        vm.prank(provider);
        try staking.retire(pools[seed % 2]) {
            ++effective;
        } catch {}
    }

    function act_withdrawStake(uint256 seed) external {
        uint256 idle = staking.idle(address(token), provider);
        uint256 amount = bound(seed, 1, idle + 1);
        vm.prank(provider);
        try staking.withdraw(address(token), amount, provider) {
            if (amount > idle) breach = "withdrew more than was idle";
            staked -= amount;
            ++effective;
        } catch {
            if (amount <= idle) breach = "idle stake was refused";
        }
    }

    function act_hostileExposure(uint256 seed) external {
        uint256 most = staking.unreserved(address(hostile), provider);
        if (seed % 4 != 0) {
            uint256 amount = bound(seed >> 8, 0, most);
            try hostile.reserve(provider, uint128(amount)) {
                exposures[1] += amount;
                ++effective;
            } catch {}
        } else {
            uint256 amount = bound(seed >> 8, 0, exposures[1]);
            hostile.release(provider, uint128(amount));
            exposures[1] -= amount;
            ++effective;
        }
    }

    /* SLASHER */

    function act_freeze(uint256 seed) external {
        uint256 side = seed % 2;
        IStaking.Provision memory made = staking.provisionOf(pools[side], provider);
        if (made.slasher == address(0)) return;
        uint256 amount = bound(seed >> 8, 0, STAKE);
        uint256 offendedAt = block.timestamp - bound(seed >> 64, 0, 2 days);
        uint256 newer;
        for (uint256 i = added[side].length; i > 0 && added[side][i - 1].time > offendedAt; --i) {
            newer += added[side][i - 1].amount;
        }
        uint256 held = uint256(made.active) + made.thawing;
        uint256 expected = held > newer ? held - newer : 0;
        uint256 cap = ((held + made.frozen) * CAP_PPM + 999_999) / 1e6;
        if (cap < expected) expected = cap;
        if (amount < expected) expected = amount;
        bytes32 id = keccak256(abi.encode(seed, offences.length));
        uint256 frozen = slasher.freeze(pools[side], provider, id, uint64(offendedAt), uint128(amount));
        if (frozen != expected) breach = "froze wrongly";
        offences.push(GhostOffence(id, side, frozen, block.timestamp));
        frozenOf[side] += frozen;
        ++effective;
    }

    function act_slash(uint256 seed) external {
        if (offences.length == 0) return;
        GhostOffence storage offence = offences[seed % offences.length];
        uint256 amount = bound(seed >> 8, 0, offence.frozen * 2);
        uint256 expected = amount < offence.frozen ? amount : offence.frozen;
        IStaking.SlashSplit memory split =
            IStaking.SlashSplit(renter, uint128(bound(seed >> 64, 0, STAKE)), stranger, uint128(STAKE));
        uint256 taken = slasher.slash(offence.id, uint128(amount), split);
        if (taken != expected) breach = "a proved offence cost less";
        (uint256 toRenter,) = staking.payoutOf(address(slasher), offence.id, renter);
        (uint256 toChallenger,) = staking.payoutOf(address(slasher), offence.id, stranger);
        if (taken != 0) {
            if (toChallenger > taken / 4 || toRenter + toChallenger > taken / 2) breach = "slashing paid too well";
            payouts += toRenter + toChallenger;
            stakingBurn += taken - toRenter - toChallenger;
            staked -= taken;
        }
        frozenOf[offence.side] -= offence.frozen;
        offence.frozen = 0;
        ++effective;
    }

    function act_unfreeze(uint256 seed) external {
        if (offences.length == 0) return;
        GhostOffence storage offence = offences[seed % offences.length];
        if (seed % 4 == 0) {
            slasher.unfreeze(offence.id);
        } else {
            bool isDue = block.timestamp >= offence.frozenAt + THAW;
            vm.prank(stranger);
            try staking.unfreezeExpired(address(slasher), offence.id) {
                if (!isDue) breach = "unfrozen too early";
            } catch {
                if (isDue) breach = "a silent slasher holds stake";
                return;
            }
        }
        frozenOf[offence.side] -= offence.frozen;
        offence.frozen = 0;
        ++effective;
    }
}
