// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "./interfaces/IController.sol";
import {IPoolFactory} from "./interfaces/IPoolFactory.sol";
import {ITokens} from "./interfaces/ITokens.sol";
import {Limits} from "./libraries/Limits.sol";
import {PoolArgs} from "./libraries/PoolArgs.sol";
import {PoolLimits} from "./libraries/PoolLimits.sol";
import {Ppm} from "./libraries/Ppm.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

/// @title Makes pools, one clone each, and knows its own.
contract PoolFactory is IPoolFactory {
    /// @dev A clone's own code before its immutable arguments, in bytes.
    uint256 private constant CLONE_LENGTH = 45;

    address public immutable override implementation;
    ITokens public immutable tokens;

    address[] private _pools;

    constructor(address implementation_, ITokens tokens_) {
        implementation = implementation_;
        tokens = tokens_;
    }

    /// @inheritdoc IPoolFactory
    function createPool(bytes32 label, address node, IController.PoolParams memory params)
        public
        returns (address pool)
    {
        _checkParties(params);
        _checkMoney(params);
        _checkTimes(params);
        bytes memory args = PoolArgs.pack(msg.sender, label, params);
        pool = _addressOf(args);
        require(pool.code.length == 0, PoolFactoryExists(pool));

        _pools.push(pool);

        emit PoolCreated(pool, msg.sender, label, node, params);

        Clones.cloneDeterministicWithImmutableArgs(implementation, args, keccak256(args));
        IController(pool).initialize(node);
    }

    /// @inheritdoc IPoolFactory
    function predict(address owner, bytes32 label, IController.PoolParams calldata params)
        external
        view
        returns (address)
    {
        return _addressOf(PoolArgs.pack(owner, label, params));
    }

    /// @inheritdoc IPoolFactory
    /// @dev No list is kept for this: only this factory can put code at an address derived from itself.
    function isPool(address pool) external view returns (bool) {
        if (pool.code.length != CLONE_LENGTH + PoolArgs.LENGTH) return false;
        return _addressOf(Clones.fetchCloneArgs(pool)) == pool;
    }

    /// @inheritdoc IPoolFactory
    function poolCount() external view returns (uint256) {
        return _pools.length;
    }

    /// @inheritdoc IPoolFactory
    function pools(uint256 from, uint256 most) external view returns (address[] memory page) {
        uint256 size = Math.min(Math.saturatingSub(_pools.length, from), most);
        page = new address[](size);
        for (uint256 i; i < size; ++i) {
            page[i] = _pools[from + i];
        }
    }

    function _addressOf(bytes memory args) private view returns (address) {
        return Clones.predictDeterministicAddressWithImmutableArgs(implementation, args, keccak256(args));
    }

    function _checkParties(IController.PoolParams memory params) private view {
        require(tokens.isListed(params.token), PoolFactoryTokenNotListed(params.token));
        require(params.slasher != address(0) && params.treasury != address(0), PoolFactoryZeroAddress());
    }

    function _checkMoney(IController.PoolParams memory params) private pure {
        _atMost("feePpm", params.feePpm, Limits.MAX_FEE_PPM);
        _atMost("burnPpm", params.burnPpm, Limits.MAX_BURN_PPM);
        _atMost("exposurePpm", params.exposurePpm, PoolLimits.MAX_EXPOSURE_PPM);
        _within("slashCapPpm", params.slashCapPpm, 1, Ppm.ONE);
        _atLeast("depositSeconds", params.depositSeconds, PoolLimits.SHORTEST);
    }

    function _checkTimes(IController.PoolParams memory params) private pure {
        _within("claimWindow", params.claimWindow, Limits.MIN_CLAIM_WINDOW, Limits.MAX_CLAIM_WINDOW);
        _within("disputeWindow", params.disputeWindow, PoolLimits.MIN_DISPUTE_WINDOW, PoolLimits.MAX_DISPUTE_WINDOW);
        _within("maxDuration", params.maxDuration, PoolLimits.SHORTEST, PoolLimits.LONGEST_LEASE);
        _within("grace", params.grace, PoolLimits.SHORTEST, PoolLimits.MAX_GRACE);
        uint256 leastThaw = uint256(params.maxDuration) + params.claimWindow + params.disputeWindow + PoolLimits.APPEAL
            + PoolLimits.THAW_MARGIN;
        _within("thawPeriod", params.thawPeriod, leastThaw, Limits.MAX_THAW_PERIOD);
    }

    function _within(bytes32 param, uint256 value, uint256 least, uint256 most) private pure {
        _atLeast(param, value, least);
        _atMost(param, value, most);
    }

    function _atLeast(bytes32 param, uint256 value, uint256 least) private pure {
        require(value >= least, PoolFactoryParamOutside(param, value, least));
    }

    function _atMost(bytes32 param, uint256 value, uint256 most) private pure {
        require(value <= most, PoolFactoryParamOutside(param, value, most));
    }
}
