// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {Leases} from "./Leases.sol";

/// @title What follows a lease's close: the provider's last collection, and its stake set free.
abstract contract Settling is Leases {
    /// @inheritdoc IController
    function collectFinal(bytes32 lease, uint128 cumulative, bytes calldata signature) external nonReentrant {
        _requireProvider(_closedLease(lease));
        // Anyone may have collected the voucher before: then nothing is left, and settling must still be possible.
        if (escrow.collectable(address(this), lease, cumulative) != 0) {
            escrow.collect(address(this), lease, cumulative, signature);
        }
        escrow.settleEarly(lease);
    }

    /// @inheritdoc IController
    function releaseExposure(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _closedLease(lease);
        IEscrow.LeaseAccount memory account = _account(lease);
        PoolParams memory rules = params();
        uint256 endsAt = _stopOf(account) + rules.claimWindow + rules.disputeWindow;
        require(block.timestamp >= endsAt, ControllerWindowOpen(endsAt, block.timestamp));

        uint128 exposure = _exposureOf(account.pricePerSecond, account.duration, rules.exposurePpm);
        record.status = LeaseStatus.Released;

        emit ExposureReleased(lease, exposure);

        if (exposure != 0) staking.release(devices.standingOf(_roster[record.device]).provider, exposure);
    }
}
