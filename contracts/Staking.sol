// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

import {IProvisionTerms} from "./interfaces/IProvisionTerms.sol";
import {IStaking} from "./interfaces/IStaking.sol";
import {ITokens} from "./interfaces/ITokens.sol";
import {Limits} from "./libraries/Limits.sol";
import {Ppm} from "./libraries/Ppm.sol";
import {ThawQueue} from "./libraries/ThawQueue.sol";
import {Transfers} from "./libraries/Transfers.sol";

/// @notice Holds providers' stake; the manual is `IStaking`.
contract Staking is IStaking, ReentrancyGuardTransient {
    using Checkpoints for Checkpoints.Trace208;
    using SafeCast for uint256;
    using ThawQueue for ThawQueue.Queue;

    /// @dev Slot 0: terms, fixed at creation. Slot 1: what `reserve` and `thaw` read. `added` is the sum of everything provisioned
    /// after the creation, over time: with `createdAt` it tells what was staked after an offence.
    struct ProvisionRecord {
        address slasher;
        uint16 tokenId;
        uint24 thawPeriod;
        uint24 slashCapPpm;
        uint32 createdAt;
        uint96 active;
        uint96 exposure;
        uint40 retiredAt;
        uint96 frozen;
        ThawQueue.Queue queue;
        Checkpoints.Trace208 added;
    }

    /// @dev Two slots. Known once `frozenAt` is set, resolved once `frozen` is zero.
    struct OffenceRecord {
        address pool;
        uint96 frozen;
        address provider;
        uint40 frozenAt;
    }

    struct Payout {
        uint16 tokenId;
        uint96 amount;
        uint40 maturesAt;
    }

    /// @notice No deposit may lift the balance of a token above this, so that no sum of amounts overflows.
    uint256 public constant MOST_BALANCE = type(uint96).max;

    /// @notice A challenger's highest share of a slash.
    uint256 public constant CHALLENGER_PPM = 250_000;

    ITokens public immutable TOKENS;
    address public immutable BURN_SINK;

    /// @dev Ids of the tokens deposited here at least once.
    mapping(address token => uint16 id) private _tokenIds;
    mapping(uint16 tokenId => mapping(address provider => uint256 amount)) private _idle;
    mapping(uint16 tokenId => uint256 amount) private _burnPending;
    mapping(address pool => mapping(address provider => ProvisionRecord)) private _provisions;
    mapping(address slasher => mapping(bytes32 offence => OffenceRecord)) private _offences;
    mapping(address slasher => mapping(bytes32 offence => mapping(address beneficiary => Payout))) private _payouts;

    constructor(ITokens tokens, address burnSink) {
        require(address(tokens) != address(0) && burnSink != address(0), StakingZeroAddress());
        TOKENS = tokens;
        BURN_SINK = burnSink;
    }

    /* STAKE */

    /// @inheritdoc IStaking
    function deposit(address token, uint256 amount) external nonReentrant returns (uint256 received) {
        require(TOKENS.isListed(token), StakingTokenNotListed(token));
        uint16 id = _learnTokenId(token);

        uint256 balance;
        (received, balance) = Transfers.pull(token, msg.sender, amount);
        require(received > 0, StakingZeroAmount());
        require(balance <= MOST_BALANCE, StakingBalanceAbove(balance, MOST_BALANCE));

        _idle[id][msg.sender] += received;

        emit StakeDeposited(token, msg.sender, received);
    }

    /// @inheritdoc IStaking
    function withdraw(address token, uint256 amount, address to) external nonReentrant {
        require(to != address(0), StakingZeroAddress());
        require(amount > 0, StakingZeroAmount());

        _takeIdle(_tokenIds[token], amount);

        emit StakeWithdrawn(token, msg.sender, to, amount);
        Transfers.push(token, to, amount);
    }

    /* PROVISIONS */

    /// @inheritdoc IStaking
    function provision(address pool, uint256 amount, address expectedSlasher, uint32 expectedThawPeriod)
        external
        nonReentrant
    {
        require(amount > 0, StakingZeroAmount());
        ProvisionRecord storage record = _provisions[pool][msg.sender];
        bool isNew = record.slasher == address(0);
        if (isNew) _create(record, pool);
        require(
            record.slasher == expectedSlasher && record.thawPeriod == expectedThawPeriod,
            StakingTermsChanged(record.slasher, record.thawPeriod)
        );

        _takeIdle(record.tokenId, amount);
        record.active += amount.toUint96();
        record.retiredAt = 0;
        if (!isNew) record.added.push(block.timestamp.toUint48(), (record.added.latest() + amount).toUint208());

        emit StakeProvisioned(pool, msg.sender, amount);
    }

    /// @inheritdoc IStaking
    function thaw(address pool, uint256 amount) external nonReentrant {
        require(amount > 0, StakingZeroAmount());
        ProvisionRecord storage record = _record(pool, msg.sender);
        uint256 available = _thawable(record);
        require(amount <= available, StakingInsufficientUnreserved(available, amount));
        require(record.queue.count < ThawQueue.MOST, StakingTooManyThaws(record.queue.count, ThawQueue.MOST));
        uint256 maturesAt = block.timestamp + record.thawPeriod;

        record.active -= amount.toUint96();
        record.queue.push(amount, maturesAt);

        emit ThawStarted(pool, msg.sender, amount, maturesAt);
    }

    /// @inheritdoc IStaking
    function retire(address pool) external nonReentrant {
        ProvisionRecord storage record = _record(pool, msg.sender);
        require(record.retiredAt == 0, StakingRetired(record.retiredAt));

        record.retiredAt = block.timestamp.toUint40();

        emit ProvisionRetired(pool, msg.sender, block.timestamp + record.thawPeriod);
    }

    /// @inheritdoc IStaking
    function completeThaw(address pool) external nonReentrant returns (uint256 amount) {
        ProvisionRecord storage record = _record(pool, msg.sender);
        amount = record.queue.popMatured(block.timestamp);
        require(amount > 0, StakingNothingMature(pool, msg.sender));

        _idle[record.tokenId][msg.sender] += amount;

        emit ThawCompleted(pool, msg.sender, amount);
    }

    /* EXPOSURE */

    /// @inheritdoc IStaking
    function reserve(address provider, uint128 amount) external nonReentrant {
        ProvisionRecord storage record = _provisions[msg.sender][provider];
        require(record.retiredAt == 0, StakingRetired(record.retiredAt));
        uint256 available = _unreserved(record);
        require(amount <= available, StakingInsufficientUnreserved(available, amount));

        record.exposure += uint256(amount).toUint96();

        emit ExposureReserved(msg.sender, provider, amount);
    }

    /// @inheritdoc IStaking
    function release(address provider, uint128 amount) external nonReentrant {
        ProvisionRecord storage record = _provisions[msg.sender][provider];
        require(amount <= record.exposure, StakingExposureBelow(record.exposure, amount));

        record.exposure -= uint256(amount).toUint96();

        emit ExposureReleased(msg.sender, provider, amount);
    }

    /* OFFENCES */

    /// @inheritdoc IStaking
    function freeze(address pool, address provider, bytes32 offence, uint64 offendedAt, uint128 amount)
        external
        nonReentrant
        returns (uint256 frozen)
    {
        ProvisionRecord storage record = _record(pool, provider);
        require(msg.sender == record.slasher, StakingNotSlasher(msg.sender, record.slasher));
        require(_offences[msg.sender][offence].frozenAt == 0, StakingOffenceKnown(offence));

        frozen = Math.min(amount, _slashable(record, offendedAt));
        uint256 fromThawing = record.queue.take(frozen);
        record.active -= (frozen - fromThawing).toUint96();
        record.frozen += frozen.toUint96();
        _offences[msg.sender][offence] = OffenceRecord(pool, frozen.toUint96(), provider, block.timestamp.toUint40());

        emit StakeFrozen(pool, provider, offence, frozen, fromThawing);
    }

    /// @inheritdoc IStaking
    function unfreeze(bytes32 offence) external nonReentrant returns (uint256 amount) {
        amount = _unfreeze(offence, _offence(msg.sender, offence));
    }

    /// @inheritdoc IStaking
    function slash(bytes32 offence, uint128 amount, SlashSplit calldata split)
        external
        nonReentrant
        returns (uint256 taken)
    {
        OffenceRecord storage entry = _offence(msg.sender, offence);
        taken = Math.min(amount, entry.frozen);
        if (taken > 0) {
            ProvisionRecord storage record = _provisions[entry.pool][entry.provider];
            entry.frozen -= taken.toUint96();
            record.frozen -= taken.toUint96();
            _share(offence, entry, record, taken, split);
        }
        _unfreeze(offence, entry);
    }

    /* ANYONE */

    /// @inheritdoc IStaking
    function unfreezeExpired(address slasher, bytes32 offence) external nonReentrant returns (uint256 amount) {
        OffenceRecord storage entry = _offence(slasher, offence);
        uint256 endsAt = entry.frozenAt + uint256(_provisions[entry.pool][entry.provider].thawPeriod);
        require(block.timestamp >= endsAt, StakingFreezeRunning(endsAt, block.timestamp));

        amount = _unfreeze(offence, entry);
    }

    /// @inheritdoc IStaking
    function withdrawPayout(address slasher, bytes32 offence, address to)
        external
        nonReentrant
        returns (uint256 amount)
    {
        require(to != address(0), StakingZeroAddress());
        Payout storage payout = _payouts[slasher][offence][msg.sender];
        (uint256 maturesAt, uint16 tokenId) = (payout.maturesAt, payout.tokenId);
        amount = payout.amount;
        require(amount > 0, StakingNothingToPay(offence, msg.sender));
        require(block.timestamp >= maturesAt, StakingPayoutImmature(maturesAt, block.timestamp));

        delete _payouts[slasher][offence][msg.sender];

        emit PayoutWithdrawn(slasher, offence, msg.sender, to, amount);
        Transfers.push(TOKENS.tokenOf(tokenId), to, amount);
    }

    /// @inheritdoc IStaking
    function flushBurn(address token) external nonReentrant returns (uint256 amount) {
        uint16 id = _tokenIds[token];
        amount = _burnPending[id];
        require(amount > 0, StakingZeroAmount());

        _burnPending[id] = 0;

        emit BurnFlushed(token, amount);
        Transfers.push(token, BURN_SINK, amount);
    }

    /* VIEWS */

    /// @inheritdoc IStaking
    function idle(address token, address provider) external view returns (uint256) {
        return _idle[_tokenIds[token]][provider];
    }

    /// @inheritdoc IStaking
    function provisionOf(address pool, address provider) external view returns (Provision memory) {
        ProvisionRecord storage record = _provisions[pool][provider];
        return Provision({
            slasher: record.slasher,
            tokenId: record.tokenId,
            thawPeriod: record.thawPeriod,
            slashCapPpm: record.slashCapPpm,
            active: record.active,
            thawing: record.queue.total,
            frozen: record.frozen,
            exposure: record.exposure,
            retiredAt: record.retiredAt
        });
    }

    /// @inheritdoc IStaking
    function thawEntries(address pool, address provider) external view returns (ThawEntry[] memory) {
        return _provisions[pool][provider].queue.list();
    }

    /// @inheritdoc IStaking
    function unreserved(address pool, address provider) external view returns (uint256) {
        ProvisionRecord storage record = _provisions[pool][provider];
        return record.retiredAt == 0 ? _unreserved(record) : 0;
    }

    /// @inheritdoc IStaking
    function thawable(address pool, address provider) external view returns (uint256) {
        return _thawable(_provisions[pool][provider]);
    }

    /// @inheritdoc IStaking
    function slashable(address pool, address provider, uint64 offendedAt) external view returns (uint256) {
        return _slashable(_provisions[pool][provider], offendedAt);
    }

    /// @inheritdoc IStaking
    function offenceOf(address slasher, bytes32 offence) external view returns (Offence memory) {
        OffenceRecord storage entry = _offences[slasher][offence];
        return Offence(entry.pool, entry.provider, entry.frozen, entry.frozenAt);
    }

    /// @inheritdoc IStaking
    function payoutOf(address slasher, bytes32 offence, address beneficiary)
        external
        view
        returns (uint256 amount, uint256 maturesAt)
    {
        Payout storage payout = _payouts[slasher][offence][beneficiary];
        return (payout.amount, payout.maturesAt);
    }

    /// @inheritdoc IStaking
    function burnPending(address token) external view returns (uint256) {
        return _burnPending[_tokenIds[token]];
    }

    /* INTERNALS */

    function _learnTokenId(address token) private returns (uint16 id) {
        id = _tokenIds[token];
        if (id == 0) {
            id = TOKENS.idOf(token);
            _tokenIds[token] = id;
        }
    }

    function _takeIdle(uint16 tokenId, uint256 amount) private {
        uint256 available = _idle[tokenId][msg.sender];
        require(amount <= available, StakingInsufficientIdle(available, amount));
        _idle[tokenId][msg.sender] = available - amount;
    }

    function _create(ProvisionRecord storage record, address pool) private {
        (address token, address slasher, uint32 thawPeriod, uint24 slashCapPpm) = IProvisionTerms(pool).provisionTerms();
        require(slasher != address(0), StakingZeroAddress());
        _checkTerm("thawPeriod", thawPeriod, Limits.MIN_THAW_PERIOD, Limits.MAX_THAW_PERIOD);
        _checkTerm("slashCapPpm", slashCapPpm, 1, Ppm.ONE);

        record.slasher = slasher;
        record.tokenId = _tokenIds[token];
        record.thawPeriod = uint256(thawPeriod).toUint24();
        record.slashCapPpm = slashCapPpm;
        record.createdAt = block.timestamp.toUint32();

        emit ProvisionCreated(pool, msg.sender, slasher, token, thawPeriod, slashCapPpm);
    }

    function _checkTerm(bytes32 term, uint256 value, uint256 least, uint256 most) private pure {
        require(value >= least, StakingBadTerms(term, value, least));
        require(value <= most, StakingBadTerms(term, value, most));
    }

    function _unfreeze(bytes32 offence, OffenceRecord storage entry) private returns (uint256 amount) {
        amount = entry.frozen;
        if (amount == 0) return 0;
        ProvisionRecord storage record = _provisions[entry.pool][entry.provider];

        entry.frozen = 0;
        record.frozen -= amount.toUint96();
        record.active += amount.toUint96();

        emit StakeUnfrozen(entry.pool, entry.provider, offence, amount);
    }

    function _share(
        bytes32 offence,
        OffenceRecord storage entry,
        ProvisionRecord storage record,
        uint256 taken,
        SlashSplit calldata split
    ) private {
        uint256 toChallenger = _isPayee(split.challenger)
            ? Math.min(split.challengerAmount, Ppm.mulDown(taken, CHALLENGER_PPM))
            : 0;
        uint256 toRenter = _isPayee(split.renter) ? Math.min(split.renterAmount, taken / 2 - toChallenger) : 0;
        uint256 burnt = taken - toChallenger - toRenter;

        _credit(offence, record, split.challenger, toChallenger);
        _credit(offence, record, split.renter, toRenter);
        _burnPending[record.tokenId] += burnt;

        emit StakeSlashed(entry.pool, entry.provider, offence, taken, burnt, toRenter, toChallenger);
    }

    /// @dev The judge gets nothing.
    function _isPayee(address account) private view returns (bool) {
        return account != address(0) && account != msg.sender;
    }

    function _credit(bytes32 offence, ProvisionRecord storage record, address beneficiary, uint256 amount) private {
        if (amount == 0) return;
        Payout storage payout = _payouts[msg.sender][offence][beneficiary];
        payout.tokenId = record.tokenId;
        payout.amount += amount.toUint96();
        payout.maturesAt = (block.timestamp + record.thawPeriod).toUint40();
    }

    function _record(address pool, address provider) private view returns (ProvisionRecord storage record) {
        record = _provisions[pool][provider];
        require(record.slasher != address(0), StakingProvisionUnknown(pool, provider));
    }

    function _offence(address slasher, bytes32 offence) private view returns (OffenceRecord storage entry) {
        entry = _offences[slasher][offence];
        require(entry.frozenAt != 0, StakingOffenceUnknown(offence));
    }

    function _unreserved(ProvisionRecord storage record) private view returns (uint256) {
        return Math.saturatingSub(record.active, record.exposure);
    }

    /// @dev A retired provision's exposure is void after a thaw period: by then every lease and its windows are over.
    function _thawable(ProvisionRecord storage record) private view returns (uint256) {
        uint256 retiredAt = record.retiredAt;
        bool isVoid = retiredAt != 0 && block.timestamp >= retiredAt + uint256(record.thawPeriod);
        return isVoid ? record.active : _unreserved(record);
    }

    /// @dev Stake held now less what was provisioned since the offence; rounding of the cap is against the offender.
    function _slashable(ProvisionRecord storage record, uint256 offendedAt) private view returns (uint256) {
        if (offendedAt < record.createdAt) return 0;
        uint256 held = uint256(record.active) + record.queue.total;
        uint48 time = Math.min(offendedAt, block.timestamp).toUint48();
        uint256 addedSince = record.added.latest() - record.added.upperLookupRecent(time);
        uint256 cap = Ppm.mulUp(held + record.frozen, record.slashCapPpm);
        return Math.min(cap, Math.saturatingSub(held, addedSince));
    }
}
