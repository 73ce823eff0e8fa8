// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IStaking} from "../interfaces/IStaking.sol";

/// @title Plays the slasher of a provision: anyone may tell it what to do.
contract TestSlasher {
    IStaking public immutable STAKING;

    constructor(IStaking staking) {
        STAKING = staking;
    }

    function freeze(address pool, address provider, bytes32 offence, uint64 offendedAt, uint128 amount)
        external
        returns (uint256)
    {
        return STAKING.freeze(pool, provider, offence, offendedAt, amount);
    }

    function unfreeze(bytes32 offence) external returns (uint256) {
        return STAKING.unfreeze(offence);
    }

    function slash(bytes32 offence, uint128 amount, IStaking.SlashSplit calldata split) external returns (uint256) {
        return STAKING.slash(offence, amount, split);
    }
}
