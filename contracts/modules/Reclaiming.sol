// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {PoolArgs} from "../libraries/PoolArgs.sol";
import {Transfers} from "../libraries/Transfers.sol";
import {Closing} from "./Closing.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

/// @title How a provider takes its device back before its notice is over: by paying for the notice that is missing.
abstract contract Reclaiming is Closing {
    using SafeERC20 for IERC20;

    /// @inheritdoc IController
    function reclaimLease(bytes32 lease, uint256 mostCompensation) external nonReentrant {
        LeaseRecord storage record = _openLease(lease);
        _requireProvider(record);
        IEscrow.LeaseAccount memory account = _account(lease);
        uint256 compensation = _missingNotice(record, account) * account.pricePerSecond;
        require(compensation <= mostCompensation, ControllerCompensationAbove(compensation, mostCompensation));

        emit LeaseReclaimed(lease, compensation);

        _close(lease, record, account, CloseReason.Provider);
        if (compensation != 0) _compensate(account.payer, compensation);
    }

    /// @dev Seconds of the promised notice that are not over yet.
    function _missingNotice(LeaseRecord storage record, IEscrow.LeaseAccount memory account)
        private
        view
        returns (uint256)
    {
        uint256 endsAt = record.noticeEndsAt;
        if (endsAt == 0) endsAt = Math.min(block.timestamp + record.notice, _endOf(account));
        return Math.saturatingSub(endsAt, block.timestamp);
    }

    /// @dev The money stays here for no longer than this call.
    function _compensate(address renter, uint256 amount) private {
        (address token,,) = PoolArgs.openingRules();
        (uint256 received,) = Transfers.pull(token, msg.sender, amount);
        IERC20(token).forceApprove(address(escrow), received);
        uint256 credited = escrow.depositFor(token, renter, received);
        require(credited >= amount, ControllerCompensationShort(credited, amount));
    }
}
