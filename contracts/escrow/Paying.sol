// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "../interfaces/IEscrow.sol";
import {Fees} from "../libraries/Fees.sol";
import {Signed, Voucher} from "../types/Signed.sol";
import {LeaseBook} from "./LeaseBook.sol";

/// @title How a lease's earmark is paid out: by vouchers, and back to the payer at the end.
abstract contract Paying is LeaseBook, EIP712 {
    using SafeCast for uint256;

    uint256 public constant MOST_CLAIMS = 64;

    /* BY THE CONTROLLER */

    /// @inheritdoc IEscrow
    function stopLease(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _record(msg.sender, lease);
        require(record.stoppedAfter == 0, EscrowLeaseStopped(lease));

        uint256 elapsed = _elapsed(record);
        record.stoppedAfter = (elapsed + 1).toUint24();

        emit LeaseStopped(msg.sender, lease, record.openedAt + elapsed);
    }

    /// @inheritdoc IEscrow
    function settleEarly(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _record(msg.sender, lease);
        require(block.timestamp >= _endOf(record), EscrowLeaseRunning(lease));

        _settle(msg.sender, lease, record);
    }

    /* BY ANYONE */

    /// @inheritdoc IEscrow
    function collect(address controller, bytes32 lease, uint128 cumulative, bytes calldata signature)
        external
        nonReentrant
        returns (uint256 paid)
    {
        LeaseRecord storage record = _record(controller, lease);
        require(!_isMarked(record, SETTLED), EscrowLeaseSettled(lease));

        paid = _collect(controller, lease, cumulative, signature);
        require(paid > 0, EscrowNothingToCollect(record.collected, Math.min(cumulative, _accrued(record))));
    }

    /// @inheritdoc IEscrow
    function collectMany(VoucherClaim[] calldata claims) external nonReentrant returns (uint256 paid) {
        require(claims.length <= MOST_CLAIMS, EscrowBatchTooLong(claims.length, MOST_CLAIMS));
        for (uint256 i = 0; i < claims.length; ++i) {
            VoucherClaim calldata claim = claims[i];
            paid += _collect(claim.controller, claim.lease, claim.cumulative, claim.signature);
        }
    }

    /// @inheritdoc IEscrow
    function settle(address controller, bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _record(controller, lease);
        uint256 endsAt = _endOf(record) + _pools[controller].claimWindow;
        require(block.timestamp >= endsAt, EscrowClaimWindowOpen(endsAt, block.timestamp));

        _settle(controller, lease, record);
    }

    /// @inheritdoc IEscrow
    function voucherDigest(bytes32 lease, uint128 cumulative) public view returns (bytes32) {
        return _hashTypedDataV4(Signed.hash(Voucher(lease, cumulative)));
    }

    /* INTERNALS */

    /// @dev Pays nothing, and says so, where nothing is to be paid.
    function _collect(address controller, bytes32 lease, uint128 cumulative, bytes calldata signature)
        private
        returns (uint256 paid)
    {
        LeaseRecord storage record = _record(controller, lease);
        _checkVoucher(record.voucherSigner, voucherDigest(lease, cumulative), signature);
        paid = _collectable(record, cumulative);
        if (paid == 0) return 0;

        uint256 previous = record.collected;
        record.collected = (previous + paid).toUint88();
        (uint256 fee, uint256 burnt) = _divide(controller, record, previous, previous + paid);

        emit VoucherCollected(controller, lease, previous + paid, paid, fee, burnt);
        if (previous == 0) _returnOpeningDeposit(controller, lease, record);
    }

    /// @dev Credits payee and pool with the piece from `previous` to `next`.
    function _divide(address controller, LeaseRecord storage record, uint256 previous, uint256 next)
        private
        returns (uint256 fee, uint256 burnt)
    {
        PoolRecord storage pool = _pools[controller];
        (fee, burnt) = Fees.split(previous, next, pool.feePpm, pool.burnPpm);
        uint16 tokenId = _holders[record.payer].tokenId;
        _owed[tokenId][_payees[record.payee]] += next - previous - fee - burnt;
        _take(controller, tokenId, fee, burnt);
    }

    function _take(address controller, uint16 tokenId, uint256 fee, uint256 burnt) private {
        if (fee + burnt == 0) return;
        Takings storage kept = _takings[controller][tokenId];
        (uint256 fees, uint256 burns) = (kept.fees + fee, kept.burnt + burnt);
        (kept.fees, kept.burnt) = (fees.toUint128(), burns.toUint128());
    }

    function _checkVoucher(address signer, bytes32 digest, bytes calldata signature) private pure {
        (address recovered,,) = ECDSA.tryRecoverCalldata(digest, signature);
        require(recovered == signer, EscrowBadVoucher(recovered, signer));
    }

    function _returnOpeningDeposit(address controller, bytes32 lease, LeaseRecord storage record) private {
        uint256 amount = _depositOf(controller, record);
        if (amount == 0) return;
        _giveBack(record, amount);

        emit OpeningDepositReturned(controller, lease, amount);
    }

    function _settle(address controller, bytes32 lease, LeaseRecord storage record) private {
        require(!_isMarked(record, SETTLED), EscrowLeaseSettled(lease));
        uint256 collected = record.collected;
        uint256 refund = _rentOf(record) - collected;
        uint256 burnt = collected == 0 ? _depositOf(controller, record) : 0;

        record.marks |= SETTLED;
        if (refund > 0) _giveBack(record, refund);
        if (burnt > 0) _take(controller, _holders[record.payer].tokenId, 0, burnt);

        emit LeaseSettled(controller, lease, refund, burnt);
    }
}
