// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {Pausing} from "./Pausing.sol";

/// @title Which devices may join a pool, and the roster by which its leases name them.
abstract contract Entry is Pausing {
    /// @dev By its first 15 bytes a device fits into the one slot of a lease. Who finds two devices with the same can have one of
    /// them here.
    mapping(bytes15 stem => bytes32 device) internal _roster;

    /// @inheritdoc IController
    function onDeviceJoin(bytes32 device, address provider) external {
        require(msg.sender == address(devices), ControllerNotDevices(msg.sender, address(devices)));
        _requireRunning();
        _requireStake(provider);
        bytes32 known = _roster[_stem(device)];
        if (known == device) return;
        require(known == 0, ControllerDeviceClash(device, known));
        _roster[_stem(device)] = device;
    }

    function _stem(bytes32 device) internal pure returns (bytes15) {
        // The roster knows the rest.
        // forge-lint: disable-next-line(unsafe-typecast)
        return bytes15(device);
    }

    function _requireStake(address provider) private view {
        uint256 least = params().minProvision;
        uint256 unreserved = staking.unreserved(address(this), provider);
        require(unreserved >= least, ControllerProvisionBelow(unreserved, least));
    }
}
