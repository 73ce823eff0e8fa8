// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {PoolLimits} from "../libraries/PoolLimits.sol";
import {Ownership} from "./Ownership.sol";

/// @title A pause of new business that ends by itself and cannot be chained.
abstract contract Pausing is Ownership {
    uint40 private _pausedUntil;
    uint40 private _pauseNotBefore;

    /// @inheritdoc IController
    function pause() external {
        _requireOwner();
        require(block.timestamp >= _pauseNotBefore, ControllerPausedRecently(_pauseNotBefore, block.timestamp));
        _pausedUntil = uint40(block.timestamp + PoolLimits.PAUSE);
        _pauseNotBefore = uint40(block.timestamp + PoolLimits.PAUSE_INTERVAL);
        emit Paused(_pausedUntil);
    }

    /// @inheritdoc IController
    function unpause() external {
        _requireOwner();
        require(pausedUntil() != 0, ControllerNotPaused());
        _pausedUntil = 0;
        emit Unpaused();
    }

    /// @inheritdoc IController
    function pausedUntil() public view returns (uint256) {
        return block.timestamp < _pausedUntil ? _pausedUntil : 0;
    }

    function _requireRunning() internal view {
        uint256 until = pausedUntil();
        require(until == 0, ControllerPaused(until));
    }
}
