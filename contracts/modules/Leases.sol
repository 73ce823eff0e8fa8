// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IDevices} from "../interfaces/IDevices.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {LeaseIds} from "../libraries/LeaseIds.sol";
import {Ppm} from "../libraries/Ppm.sol";
import {Entry} from "./Entry.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title The records of a pool's leases, and who their parties are.
abstract contract Leases is Entry, ReentrancyGuardTransient {
    using SafeCast for uint256;

    /// @dev One slot written at opening; the second only by a demand. Price, time and parties are in Escrow. `noticeEndsAt` holds
    /// until 2106. `isCounted` when the offer had a cap per renter.
    struct LeaseRecord {
        bytes15 device;
        bool isCounted;
        uint16 share;
        uint32 memoryMiB;
        uint24 notice;
        LeaseStatus status;
        uint32 noticeEndsAt;
        uint16 stint;
        uint40 demandedAt;
        uint128 collectedAtDemand;
    }

    mapping(bytes32 lease => LeaseRecord) internal _leases;

    /// @inheritdoc IController
    mapping(address renter => mapping(bytes32 device => uint256 count)) public override liveLeases;

    /// @inheritdoc IController
    function leaseOf(bytes32 lease) external view returns (Lease memory found) {
        LeaseRecord storage record = _leases[lease];
        if (record.status == LeaseStatus.None) return found;
        IEscrow.LeaseAccount memory account = _account(lease);
        return Lease({
            device: _roster[record.device],
            share: record.share,
            memoryMiB: record.memoryMiB,
            notice: record.notice,
            status: record.status,
            noticeEndsAt: record.noticeEndsAt,
            closedAt: record.status == LeaseStatus.Open ? 0 : uint40(_stopOf(account)),
            exposure: _exposureOf(account.pricePerSecond, account.duration, params().exposurePpm),
            stint: record.stint,
            demandedAt: record.demandedAt,
            collectedAtDemand: record.collectedAtDemand
        });
    }

    /// @inheritdoc IController
    function leaseId(bytes32 offerHash, bytes32 requestHash) public view returns (bytes32) {
        return LeaseIds.compute(address(this), offerHash, requestHash);
    }

    function _openLease(bytes32 lease) internal view returns (LeaseRecord storage record) {
        record = _leases[lease];
        LeaseStatus status = record.status;
        require(status != LeaseStatus.None, ControllerLeaseUnknown(lease));
        require(status == LeaseStatus.Open, ControllerLeaseNotOpen(lease, status));
    }

    function _closedLease(bytes32 lease) internal view returns (LeaseRecord storage record) {
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

    /// @dev When a closed lease's meter stopped. Escrow keeps one more than the seconds from the opening, and none at the end.
    function _stopOf(IEscrow.LeaseAccount memory account) internal pure returns (uint256) {
        if (account.stoppedAfter == 0) return _endOf(account);
        return uint256(account.openedAt) + account.stoppedAfter - 1;
    }

    /// @dev Stake that a lease reserves, rounded up.
    function _exposureOf(uint256 pricePerSecond, uint256 duration, uint256 ppm) internal pure returns (uint128) {
        return Ppm.mulUp(pricePerSecond * duration, ppm).toUint128();
    }

    function _requireProvider(LeaseRecord storage record) internal view {
        _requireProvider(devices.standingOf(_roster[record.device]));
    }

    function _requireProvider(IDevices.Standing memory standing) internal view {
        bool isProvider = msg.sender == standing.provider || msg.sender == standing.operator;
        require(isProvider, ControllerNotParty(msg.sender));
    }
}
