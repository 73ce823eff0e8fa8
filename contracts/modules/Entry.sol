// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {Pausing} from "./Pausing.sol";

/// @title Which devices may join a pool, and the roster by which its leases name them.
abstract contract Entry is Pausing {
    /// @dev By its first half a device fits into the one slot of a lease. Who finds two devices with the same half can have one of
    /// them here.
    mapping(bytes16 half => bytes32 device) internal _roster;

    /// @inheritdoc IController
    function onDeviceJoin(bytes32 device, address provider) external {
        require(msg.sender == address(devices), ControllerNotDevices(msg.sender, address(devices)));
        _requireRunning();
        _requireStake(provider);
        bytes32 known = _roster[_half(device)];
        if (known == device) return;
        require(known == 0, ControllerDeviceClash(device, known));
        _roster[_half(device)] = device;
    }

    function _half(bytes32 device) internal pure returns (bytes16) {
        // The roster knows the other half.
        // forge-lint: disable-next-line(unsafe-typecast)
        return bytes16(device);
    }

    function _requireStake(address provider) private view {
        uint256 least = params().minProvision;
        uint256 unreserved = staking.unreserved(address(this), provider);
        require(unreserved >= least, ControllerProvisionBelow(unreserved, least));
    }
}
