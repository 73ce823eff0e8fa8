// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IDevices} from "../interfaces/IDevices.sol";
import {PoolArgs} from "../libraries/PoolArgs.sol";
import {Resize} from "../types/Signed.sol";
import {Leases} from "./Leases.sol";

/// @title How a running lease gets another slice and price: the provider calls, the payer has signed.
abstract contract Regrading is Leases {
    /// @inheritdoc IController
    function resizeLease(Resize calldata resize, bytes calldata signature) external nonReentrant {
        _requireRunning();
        LeaseRecord storage record = _openLease(resize.lease);
        bytes32 device = _roster[record.device];
        IDevices.Standing memory standing = devices.standingOf(device);
        _requireProvider(standing);
        (uint16 share, uint32 memoryMiB) = (record.share, record.memoryMiB);
        (record.share, record.memoryMiB, record.demandedAt) = (resize.share, resize.memoryMiB, 0);

        emit LeaseResized(resize.lease, resize.share, resize.memoryMiB, resize.pricePerSecond);

        devices.reslice(device, record.stint, share, memoryMiB, resize.share, resize.memoryMiB);
        (uint256 duration, uint256 price) = escrow.resizeLease(resize, signature);
        _moveExposure(standing.provider, duration, price, resize.pricePerSecond);
    }

    function _moveExposure(address provider, uint256 duration, uint256 previousPrice, uint256 price) private {
        (, uint256 ppm,) = PoolArgs.openingRules();
        uint128 previous = _exposureOf(previousPrice, duration, ppm);
        uint128 next = _exposureOf(price, duration, ppm);
        if (next > previous) staking.reserve(provider, next - previous);
        else if (next < previous) staking.release(provider, previous - next);
    }
}
