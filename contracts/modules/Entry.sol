// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {Pausing} from "./Pausing.sol";

/// @title Which devices may join a pool.
abstract contract Entry is Pausing {
    /// @inheritdoc IController
    function onDeviceJoin(bytes32, address provider) external view {
        _requireRunning();
        uint256 least = params().minProvision;
        uint256 unreserved = staking.unreserved(address(this), provider);
        require(unreserved >= least, ControllerProvisionBelow(unreserved, least));
    }
}
