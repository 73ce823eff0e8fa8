// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "../interfaces/IEscrow.sol";
import {Signatures} from "../libraries/Signatures.sol";
import {Resize, Signed} from "../types/Signed.sol";
import {LeaseBook} from "./LeaseBook.sol";

/// @title How a running lease gets another price: what has accrued is folded, what is to come is earmarked anew.
abstract contract Resizing is LeaseBook, EIP712 {
    using SafeCast for uint256;
    using Signed for Resize;

    /// @inheritdoc IEscrow
    function resizeLease(Resize memory resize, bytes calldata signature)
        public
        nonReentrant
        returns (uint256 duration, uint256 previousPrice)
    {
        LeaseRecord storage record = _record(msg.sender, resize.lease);
        _checkRunning(record, resize.lease);
        address payer = _holders[record.payer].owner;
        _checkResize(record, resize, payer, signature);

        (duration, previousPrice) = (record.duration, record.pricePerSecond);
        uint256 elapsed = _elapsed(record);
        uint256 accrued = _accrued(record);
        uint256 previousRest = (duration - elapsed) * previousPrice;
        uint256 rest = (duration - elapsed) * resize.pricePerSecond;
        _fold(record, elapsed, accrued, resize.pricePerSecond);
        if (rest > previousRest) _hold(record, resize.lease, payer, rest - previousRest);
        else if (rest < previousRest) _giveBack(record, previousRest - rest);

        emit LeaseRepriced(msg.sender, resize.lease, resize.pricePerSecond, accrued, accrued + rest);
    }

    /// @inheritdoc IEscrow
    function resizeDigest(Resize memory resize) public view returns (bytes32) {
        return _hashTypedDataV4(resize.hash());
    }

    function _checkRunning(LeaseRecord storage record, bytes32 lease) private view {
        require(!_isMarked(record, SETTLED), EscrowLeaseSettled(lease));
        bool isRunning = record.stoppedAfter == 0 && block.timestamp < _endOf(record);
        require(isRunning, EscrowLeaseStopped(lease));
    }

    function _checkResize(LeaseRecord storage record, Resize memory resize, address payer, bytes calldata signature)
        private
        view
    {
        require(block.timestamp < resize.deadline, EscrowRequestExpired(resize.deadline, block.timestamp));
        require(resize.sequence == record.resizes, EscrowResizeOutdated(resize.sequence, record.resizes));
        _checkTerm("pricePerSecond", resize.pricePerSecond, 0, type(uint64).max);
        require(Signatures.isValid(payer, resizeDigest(resize), signature), EscrowBadRequestSignature(payer));
    }

    /// @dev From now on `price` accrues. The opening deposit stays what it is.
    function _fold(LeaseRecord storage record, uint256 elapsed, uint256 accrued, uint256 price) private {
        uint8 marks = record.marks;
        if (marks & RESIZED == 0) {
            record.openingPrice = record.pricePerSecond;
            record.marks = marks | RESIZED;
        }
        record.foldedAccrued = accrued.toUint88();
        record.foldedAfter = elapsed.toUint24();
        ++record.resizes;
        record.pricePerSecond = price.toUint64();
    }

    /// @dev A request with replacements has a cap that is not kept here: its leases never cost more.
    function _hold(LeaseRecord storage record, bytes32 lease, address payer, uint256 amount) private {
        require(!_isMarked(record, GROUPED), EscrowLeaseIsGrouped(lease));
        Account storage account = _accounts[_holders[record.payer].tokenId][payer];
        uint256 available = account.free;
        require(available >= amount, EscrowInsufficientFree(available, amount));
        account.free = (available - amount).toUint88();
    }
}
