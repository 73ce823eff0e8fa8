// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IDevices} from "../interfaces/IDevices.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {LeaseIds} from "../libraries/LeaseIds.sol";
import {PoolRules} from "./PoolRules.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @title The records of a pool's leases, and who their parties are.
abstract contract Leases is PoolRules, ReentrancyGuardTransient {
    mapping(bytes32 lease => Lease) internal _leases;

    /// @inheritdoc IController
    mapping(address renter => mapping(bytes32 device => uint256 count)) public override liveLeases;

    /// @inheritdoc IController
    function leaseOf(bytes32 lease) external view returns (Lease memory) {
        return _leases[lease];
    }

    /// @inheritdoc IController
    function leaseId(bytes32 offerHash, bytes32 requestHash) public view returns (bytes32) {
        return LeaseIds.compute(address(this), offerHash, requestHash);
    }

    function _openLease(bytes32 lease) internal view returns (Lease storage record) {
        record = _leases[lease];
        LeaseStatus status = record.status;
        require(status != LeaseStatus.None, ControllerLeaseUnknown(lease));
        require(status == LeaseStatus.Open, ControllerLeaseNotOpen(lease, status));
    }

    function _closedLease(bytes32 lease) internal view returns (Lease storage record) {
        record = _leases[lease];
        LeaseStatus status = record.status;
        require(status != LeaseStatus.None, ControllerLeaseUnknown(lease));
        require(status == LeaseStatus.Closed, ControllerLeaseNotClosed(lease, status));
    }

    function _account(bytes32 lease) internal view returns (IEscrow.LeaseAccount memory) {
        return escrow.leaseAccount(address(this), lease);
    }

    function _endOf(IEscrow.LeaseAccount memory account) internal pure returns (uint256) {
        return uint256(account.openedAt) + account.duration;
    }

    function _isProvider(bytes32 device, address caller) internal view returns (bool) {
        IDevices.Standing memory standing = devices.standingOf(device);
        return caller == standing.provider || caller == standing.operator;
    }

    function _requireProvider(bytes32 device) internal view {
        require(_isProvider(device, msg.sender), ControllerNotParty(msg.sender));
    }
}
