// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {PoolLimits} from "../libraries/PoolLimits.sol";
import {Leases} from "./Leases.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title How a lease ends: by the renter, by the provider after its notice, at its end, or unpaid.
abstract contract Closing is Leases {
    using SafeCast for uint256;

    /// @inheritdoc IController
    function giveNotice(bytes32 lease) external {
        LeaseRecord storage record = _openLease(lease);
        _requireProvider(record);
        require(record.noticeEndsAt == 0, ControllerNoticeRunning(record.noticeEndsAt, block.timestamp));

        uint256 endsAt = Math.min(block.timestamp + record.notice, _endOf(_account(lease)));
        record.noticeEndsAt = endsAt.toUint32();

        emit LeaseNoticed(lease, endsAt);
    }

    /// @inheritdoc IController
    function closeLease(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _openLease(lease);
        IEscrow.LeaseAccount memory account = _account(lease);
        _close(lease, record, account, _reasonOf(lease, record, account));
    }

    /// @inheritdoc IController
    function demandPayment(bytes32 lease) external {
        LeaseRecord storage record = _openLease(lease);
        _requireProvider(record);

        uint128 collected = _account(lease).collected;
        record.demandedAt = uint40(block.timestamp);
        record.collectedAtDemand = collected;

        emit PaymentDemanded(lease, collected, block.timestamp + PoolLimits.ANSWER_TIME);
    }

    /// @inheritdoc IController
    function closeUnpaid(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _openLease(lease);
        _requireProvider(record);
        IEscrow.LeaseAccount memory account = _account(lease);
        _requireUnanswered(lease, record, account);
        _close(lease, record, account, CloseReason.Unpaid);
    }

    function _reasonOf(bytes32 lease, LeaseRecord storage record, IEscrow.LeaseAccount memory account)
        private
        view
        returns (CloseReason)
    {
        if (block.timestamp >= _endOf(account)) return CloseReason.End;
        if (msg.sender == account.payer || msg.sender == account.voucherSigner) return CloseReason.Renter;

        _requireProvider(record);
        uint256 noticeEndsAt = record.noticeEndsAt;
        require(noticeEndsAt != 0, ControllerNoticeMissing(lease));
        require(block.timestamp >= noticeEndsAt, ControllerNoticeRunning(noticeEndsAt, block.timestamp));
        return CloseReason.Provider;
    }

    function _requireUnanswered(bytes32 lease, LeaseRecord storage record, IEscrow.LeaseAccount memory account)
        private
        view
    {
        uint256 demandedAt = record.demandedAt;
        require(demandedAt != 0, ControllerNotDemanded(lease));
        uint256 answerBy = demandedAt + PoolLimits.ANSWER_TIME;
        require(block.timestamp >= answerBy, ControllerDemandRunning(answerBy, block.timestamp));

        uint256 paidUntil = Math.min(answerBy, _endOf(account));
        uint256 dueSeconds = Math.saturatingSub(paidUntil, demandedAt + params().grace);
        uint256 needed = record.collectedAtDemand + dueSeconds * account.pricePerSecond;
        require(account.collected < needed, ControllerDemandAnswered(account.collected, needed));
    }

    function _close(bytes32 lease, LeaseRecord storage record, IEscrow.LeaseAccount memory account, CloseReason reason)
        internal
    {
        uint256 endsAt = _endOf(account);
        bytes32 device = _roster[record.device];
        record.status = LeaseStatus.Closed;
        if (record.isCounted) --liveLeases[account.payer][device];

        emit LeaseClosed(lease, msg.sender, reason, Math.min(block.timestamp, endsAt));

        devices.release(device, record.share, record.memoryMiB, record.stint);
        if (block.timestamp < endsAt) escrow.stopLease(lease);
    }
}
