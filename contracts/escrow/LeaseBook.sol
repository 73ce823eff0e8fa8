// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "../interfaces/IEscrow.sol";
import {IPoolTerms} from "../interfaces/IPoolTerms.sol";
import {Limits} from "../libraries/Limits.sol";
import {Accounts} from "./Accounts.sol";

/// @title The records of leases and of the pools they belong to, and what follows from them.
abstract contract LeaseBook is Accounts {
    using SafeCast for uint256;

    /// @dev One slot, fixed by a controller's first lease.
    struct PoolRecord {
        address treasury;
        uint24 feePpm;
        uint24 burnPpm;
        uint24 claimWindow;
        uint16 depositSeconds;
    }

    /// @dev What a pool's leases brought since its last sweep. One slot, so that a collection writes one and not two.
    struct Takings {
        uint128 fees;
        uint128 burnt;
    }

    /// @dev Two full slots; `group` is written for leases of a request with replacements only, what follows it for resized ones:
    /// what had accrued at the last resize, how many seconds after the opening that was, and the price that the deposit is of. `payee` is a stem, `payer` an account's
    /// id: both addresses in full would be a slot more. `openedAt` holds until 2106.
    struct LeaseRecord {
        address voucherSigner;
        uint88 collected;
        uint8 marks;
        bytes10 payee;
        uint32 payer;
        uint64 pricePerSecond;
        uint32 openedAt;
        uint24 duration;
        uint24 stoppedAfter;
        bytes32 group;
        uint88 foldedAccrued;
        uint24 foldedAfter;
        uint64 openingPrice;
        uint32 resizes;
    }

    /// @dev One slot: the leases of one request with replacements. `held` is what they hold and have cost. `opened` is `ENDED` when
    /// the renter wants no more.
    struct GroupRecord {
        address renter;
        uint8 opened;
        uint88 held;
    }

    /// @dev Marks of a lease.
    uint8 internal constant SETTLED = 1;
    uint8 internal constant GROUPED = 2;
    uint8 internal constant RESIZED = 4;

    uint8 internal constant ENDED = type(uint8).max;

    /// @dev The payees of all leases by their last 10 bytes. Who finds two accounts with the same can have one of them paid here.
    mapping(bytes10 stem => address payee) internal _payees;
    mapping(address controller => PoolRecord) internal _pools;
    mapping(address controller => mapping(uint16 tokenId => Takings)) internal _takings;
    mapping(address controller => mapping(bytes32 lease => LeaseRecord)) internal _leases;
    mapping(bytes32 requestHash => GroupRecord) internal _groups;

    /// @inheritdoc IEscrow
    function sweep(address controller, address token) external nonReentrant returns (uint256 fees, uint256 burnt) {
        uint16 tokenId = _tokenIds[token];
        Takings storage swept = _takings[controller][tokenId];
        (fees, burnt) = (swept.fees, swept.burnt);
        require(fees + burnt > 0, EscrowZeroAmount());

        (swept.fees, swept.burnt) = (0, 0);
        if (fees > 0) _owed[tokenId][_pools[controller].treasury] += fees;
        if (burnt > 0) _burnPending[tokenId] += burnt;

        emit PoolSwept(controller, token, fees, burnt);
    }

    /* VIEWS */

    /// @inheritdoc IEscrow
    function leaseAccount(address controller, bytes32 lease) external view returns (LeaseAccount memory account) {
        LeaseRecord storage record = _record(controller, lease);
        PoolRecord storage pool = _pools[controller];
        Holder storage payer = _holders[record.payer];
        account.payer = payer.owner;
        account.openedAt = record.openedAt;
        account.duration = record.duration;
        account.claimWindow = pool.claimWindow;
        account.payee = _payees[record.payee];
        account.pricePerSecond = record.pricePerSecond;
        account.tokenId = payer.tokenId;
        account.voucherSigner = record.voucherSigner;
        account.depositSeconds = pool.depositSeconds;
        account.feePpm = pool.feePpm;
        account.burnPpm = pool.burnPpm;
        account.stoppedAfter = record.stoppedAfter;
        account.collected = record.collected;
        account.accrued = _accrued(record).toUint128();
        account.isSettled = _isMarked(record, SETTLED);
        account.isDepositReturned = record.collected > 0;
    }

    /// @inheritdoc IEscrow
    function termsOf(address controller) external view returns (PoolTerms memory) {
        PoolRecord storage pool = _pools[controller];
        return PoolTerms(pool.treasury, pool.feePpm, pool.burnPpm, pool.claimWindow, pool.depositSeconds);
    }

    /// @inheritdoc IEscrow
    function groupOf(bytes32 requestHash) external view returns (address renter, uint256 opened, uint256 held) {
        GroupRecord storage group = _groups[requestHash];
        return (group.renter, group.opened, group.held);
    }

    /// @inheritdoc IEscrow
    function resizesOf(address controller, bytes32 lease) external view returns (uint256) {
        return _record(controller, lease).resizes;
    }

    /// @inheritdoc IEscrow
    function takings(address controller, address token) external view returns (uint256 fees, uint256 burnt) {
        Takings storage kept = _takings[controller][_tokenIds[token]];
        return (kept.fees, kept.burnt);
    }

    /// @inheritdoc IEscrow
    function accruedOf(address controller, bytes32 lease) external view returns (uint256) {
        return _accrued(_record(controller, lease));
    }

    /// @inheritdoc IEscrow
    function collectable(address controller, bytes32 lease, uint128 cumulative) external view returns (uint256) {
        return _collectable(_record(controller, lease), cumulative);
    }

    /* INTERNALS */

    /// @dev Asks the calling controller for its terms at its first lease, and never again.
    function _fixTerms() internal returns (PoolRecord storage pool) {
        pool = _pools[msg.sender];
        if (pool.treasury != address(0)) return pool;
        PoolTerms memory terms;
        (terms.treasury, terms.feePpm, terms.burnPpm, terms.claimWindow, terms.depositSeconds) =
            IPoolTerms(msg.sender).poolTerms();
        require(terms.treasury != address(0), EscrowZeroAddress());
        _checkTerm("claimWindow", terms.claimWindow, Limits.MIN_CLAIM_WINDOW, Limits.MAX_CLAIM_WINDOW);
        _checkTerm("feePpm", terms.feePpm, 0, Limits.MAX_FEE_PPM);
        _checkTerm("burnPpm", terms.burnPpm, 0, Limits.MAX_BURN_PPM);

        _pools[msg.sender] =
            PoolRecord(terms.treasury, terms.feePpm, terms.burnPpm, terms.claimWindow, terms.depositSeconds);

        emit PoolFixed(msg.sender, terms);
    }

    function _checkTerm(bytes32 term, uint256 value, uint256 least, uint256 most) internal pure {
        require(value >= least, EscrowBadTerms(term, value, least));
        require(value <= most, EscrowBadTerms(term, value, most));
    }

    function _record(address controller, bytes32 lease) internal view returns (LeaseRecord storage record) {
        record = _leases[controller][lease];
        require(record.payer != 0, EscrowLeaseUnknown(lease));
    }

    function _isMarked(LeaseRecord storage record, uint8 mark) internal view returns (bool) {
        return record.marks & mark != 0;
    }

    /// @dev Gives the payer back what a lease held for it.
    function _giveBack(LeaseRecord storage record, uint256 amount) internal {
        _refund(record.payer, amount);
        if (_isMarked(record, GROUPED)) _groups[record.group].held -= amount.toUint88();
    }

    /// @dev Seconds the meter has run.
    function _elapsed(LeaseRecord storage record) internal view returns (uint256) {
        uint256 stoppedAfter = record.stoppedAfter;
        if (stoppedAfter != 0) return stoppedAfter - 1;
        return Math.min(block.timestamp - record.openedAt, record.duration);
    }

    /// @dev When the meter stopped, or will at the latest.
    function _endOf(LeaseRecord storage record) internal view returns (uint256) {
        uint256 stoppedAfter = record.stoppedAfter;
        return uint256(record.openedAt) + (stoppedAfter != 0 ? stoppedAfter - 1 : record.duration);
    }

    function _accrued(LeaseRecord storage record) internal view returns (uint256) {
        return _accruedAfter(record, _elapsed(record));
    }

    /// @dev What a lease costs that is never stopped.
    function _rentOf(LeaseRecord storage record) internal view returns (uint256) {
        return _accruedAfter(record, record.duration);
    }

    function _depositOf(address controller, LeaseRecord storage record) internal view returns (uint256) {
        uint256 price = _isMarked(record, RESIZED) ? record.openingPrice : record.pricePerSecond;
        return price * _pools[controller].depositSeconds;
    }

    /// @dev `elapsed` is not before the last resize.
    function _accruedAfter(LeaseRecord storage record, uint256 elapsed) private view returns (uint256) {
        if (!_isMarked(record, RESIZED)) return record.pricePerSecond * elapsed;
        return record.foldedAccrued + record.pricePerSecond * (elapsed - record.foldedAfter);
    }

    function _collectable(LeaseRecord storage record, uint256 cumulative) internal view returns (uint256) {
        if (_isMarked(record, SETTLED)) return 0;
        return Math.saturatingSub(Math.min(cumulative, _accrued(record)), record.collected);
    }
}
