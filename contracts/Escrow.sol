// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "./interfaces/IEscrow.sol";
import {ITokens} from "./interfaces/ITokens.sol";
import {Fees} from "./libraries/Fees.sol";
import {LeaseIds} from "./libraries/LeaseIds.sol";
import {Limits} from "./libraries/Limits.sol";
import {Transfers} from "./libraries/Transfers.sol";
import {Request, Signed, Voucher} from "./types/Signed.sol";

/// @notice Holds renters' money; the manual is `IEscrow`.
contract Escrow is IEscrow, EIP712, ReentrancyGuardTransient {
    using SafeCast for uint256;

    /// @dev One slot.
    struct Account {
        uint104 free;
        uint104 noticed;
        uint40 readyAt;
    }

    /// @dev Three full slots, written as one at the opening; only `stoppedAfter` changes later.
    struct Terms {
        address payer;
        uint40 openedAt;
        uint32 duration;
        uint24 claimWindow;
        address payee;
        uint80 pricePerSecond;
        uint16 tokenId;
        address voucherSigner;
        uint16 depositSeconds;
        uint24 feePpm;
        uint24 burnPpm;
        uint32 stoppedAfter;
    }

    /// @dev The slot after the terms is written by the first collection or the settlement.
    struct LeaseRecord {
        Terms terms;
        uint104 collected;
        bool isSettled;
    }

    uint256 public constant NOTICE = 15 minutes;
    uint256 public constant MOST_CLAIMS = 64;

    /// @notice No deposit may lift the balance of a token above this, so that no sum of amounts overflows.
    uint256 public constant MOST_BALANCE = type(uint104).max;

    ITokens public immutable TOKENS;
    address public immutable BURN_SINK;

    /// @dev Ids of the tokens deposited here at least once.
    mapping(address token => uint16 id) private _tokenIds;
    mapping(uint16 tokenId => mapping(address owner => Account)) private _accounts;
    mapping(uint16 tokenId => mapping(address owner => uint256 amount)) private _owed;
    mapping(uint16 tokenId => uint256 amount) private _burnPending;
    mapping(address renter => mapping(uint256 word => uint256 bits)) private _usedNonces;
    mapping(address controller => address treasury) private _treasuries;
    mapping(address controller => mapping(bytes32 lease => LeaseRecord)) private _leases;

    constructor(ITokens tokens, address burnSink) EIP712("Millpond", "1") {
        require(address(tokens) != address(0) && burnSink != address(0), EscrowZeroAddress());
        TOKENS = tokens;
        BURN_SINK = burnSink;
    }

    /* FREE BALANCE */

    /// @inheritdoc IEscrow
    function deposit(address token, uint256 amount) external nonReentrant returns (uint256 received) {
        require(TOKENS.isListed(token), EscrowTokenNotListed(token));
        uint16 id = _learnTokenId(token);

        uint256 balance;
        (received, balance) = Transfers.pull(token, msg.sender, amount);
        require(received > 0, EscrowZeroAmount());
        require(balance <= MOST_BALANCE, EscrowBalanceAbove(balance, MOST_BALANCE));

        _accounts[id][msg.sender].free += received.toUint104();

        emit Deposited(token, msg.sender, msg.sender, received);
    }

    /// @inheritdoc IEscrow
    function noticeWithdrawal(address token, uint256 amount) external nonReentrant {
        require(amount > 0, EscrowZeroAmount());
        uint256 most = Math.min(amount, MOST_BALANCE);
        uint256 readyAt = block.timestamp + NOTICE;

        Account storage account = _accounts[_tokenIds[token]][msg.sender];
        account.noticed = most.toUint104();
        account.readyAt = readyAt.toUint40();

        emit WithdrawalNoticed(token, msg.sender, most, readyAt);
    }

    /// @inheritdoc IEscrow
    function withdraw(address token, address to) external nonReentrant returns (uint256 amount) {
        require(to != address(0), EscrowZeroAddress());
        Account storage account = _accounts[_tokenIds[token]][msg.sender];
        (uint256 available, uint256 most, uint256 readyAt) = (account.free, account.noticed, account.readyAt);
        require(most > 0, EscrowNothingNoticed(msg.sender));
        require(block.timestamp >= readyAt, EscrowNoticeRunning(readyAt, block.timestamp));
        amount = Math.min(most, available);
        require(amount > 0, EscrowInsufficientFree(available, most));

        account.free = (available - amount).toUint104();
        account.noticed = 0;
        account.readyAt = 0;

        emit Withdrawn(token, msg.sender, to, amount);
        Transfers.push(token, to, amount);
    }

    /// @inheritdoc IEscrow
    function cancelRequest(uint256 nonce) external {
        _useNonce(msg.sender, nonce);

        emit RequestCancelled(msg.sender, nonce);
    }

    /* LEASES */

    /// @inheritdoc IEscrow
    function openLease(Request calldata request, bytes calldata signature, LeaseTerms calldata terms)
        external
        nonReentrant
        returns (bytes32 lease)
    {
        _checkRequest(request, terms);
        _checkTerms(terms);
        bytes32 requestHash = keccak256(abi.encode(Signed.REQUEST_TYPEHASH, request));
        bool isSigned =
            SignatureChecker.isValidSignatureNowCalldata(request.renter, _hashTypedDataV4(requestHash), signature);
        require(isSigned, EscrowBadRequestSignature(request.renter));

        _useNonce(request.renter, request.nonce);
        _fixTreasury(terms.treasury);
        lease = LeaseIds.compute(msg.sender, terms.offer, requestHash);
        _fund(_leases[msg.sender][lease], request, terms, lease);
    }

    /// @inheritdoc IEscrow
    function stopLease(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _record(msg.sender, lease);
        require(record.terms.stoppedAfter == 0, EscrowLeaseStopped(lease));

        uint256 elapsed = _elapsed(record);
        record.terms.stoppedAfter = (elapsed + 1).toUint32();

        emit LeaseStopped(msg.sender, lease, record.terms.openedAt + elapsed);
    }

    /// @inheritdoc IEscrow
    function settleEarly(bytes32 lease) external nonReentrant {
        LeaseRecord storage record = _record(msg.sender, lease);
        require(block.timestamp >= _endOf(record), EscrowLeaseRunning(lease));

        _settle(msg.sender, lease, record);
    }

    /* VOUCHERS */

    /// @inheritdoc IEscrow
    function collect(address controller, bytes32 lease, uint128 cumulative, bytes calldata signature)
        external
        nonReentrant
        returns (uint256 paid)
    {
        LeaseRecord storage record = _record(controller, lease);
        require(!record.isSettled, EscrowLeaseSettled(lease));

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
        uint256 endsAt = _endOf(record) + record.terms.claimWindow;
        require(block.timestamp >= endsAt, EscrowClaimWindowOpen(endsAt, block.timestamp));

        _settle(controller, lease, record);
    }

    /* OWED */

    /// @inheritdoc IEscrow
    function withdrawOwed(address token, address account) external nonReentrant returns (uint256 amount) {
        amount = _payOwed(token, account, account);
    }

    /// @inheritdoc IEscrow
    function withdrawOwedTo(address token, address to) external nonReentrant returns (uint256 amount) {
        require(to != address(0), EscrowZeroAddress());
        amount = _payOwed(token, msg.sender, to);
    }

    /// @inheritdoc IEscrow
    function flushBurn(address token) external nonReentrant returns (uint256 amount) {
        uint16 id = _tokenIds[token];
        amount = _burnPending[id];
        require(amount > 0, EscrowZeroAmount());

        _burnPending[id] = 0;

        emit BurnFlushed(token, amount);
        Transfers.push(token, BURN_SINK, amount);
    }

    /* VIEWS */

    /// @inheritdoc IEscrow
    function free(address token, address account) external view returns (uint256) {
        return _accounts[_tokenIds[token]][account].free;
    }

    /// @inheritdoc IEscrow
    function noticed(address token, address account) external view returns (uint256 amount, uint256 readyAt) {
        Account storage entry = _accounts[_tokenIds[token]][account];
        return (entry.noticed, entry.readyAt);
    }

    /// @inheritdoc IEscrow
    function owed(address token, address account) external view returns (uint256) {
        return _owed[_tokenIds[token]][account];
    }

    /// @inheritdoc IEscrow
    function burnPending(address token) external view returns (uint256) {
        return _burnPending[_tokenIds[token]];
    }

    /// @inheritdoc IEscrow
    function leaseAccount(address controller, bytes32 lease) external view returns (LeaseAccount memory account) {
        LeaseRecord storage record = _record(controller, lease);
        account.payer = record.terms.payer;
        account.openedAt = record.terms.openedAt;
        account.duration = record.terms.duration;
        account.claimWindow = record.terms.claimWindow;
        account.payee = record.terms.payee;
        account.pricePerSecond = record.terms.pricePerSecond;
        account.tokenId = record.terms.tokenId;
        account.voucherSigner = record.terms.voucherSigner;
        account.depositSeconds = record.terms.depositSeconds;
        account.feePpm = record.terms.feePpm;
        account.burnPpm = record.terms.burnPpm;
        account.stoppedAfter = record.terms.stoppedAfter;
        account.collected = record.collected;
        account.accrued = _accrued(record).toUint128();
        account.isSettled = record.isSettled;
        account.isDepositReturned = record.collected > 0;
    }

    /// @inheritdoc IEscrow
    function treasuryOf(address controller) external view returns (address) {
        return _treasuries[controller];
    }

    /// @inheritdoc IEscrow
    function accruedOf(address controller, bytes32 lease) external view returns (uint256) {
        return _accrued(_record(controller, lease));
    }

    /// @inheritdoc IEscrow
    function collectable(address controller, bytes32 lease, uint128 cumulative) external view returns (uint256) {
        return _collectable(_record(controller, lease), cumulative);
    }

    /// @inheritdoc IEscrow
    function isNonceUsed(address renter, uint256 nonce) external view returns (bool) {
        return _usedNonces[renter][nonce >> 8] & (1 << (nonce & 0xff)) != 0;
    }

    /// @inheritdoc IEscrow
    function requestDigest(Request calldata request) external view returns (bytes32) {
        return _hashTypedDataV4(Signed.hash(request));
    }

    /// @inheritdoc IEscrow
    function voucherDigest(bytes32 lease, uint128 cumulative) public view returns (bytes32) {
        return _hashTypedDataV4(Signed.hash(Voucher(lease, cumulative)));
    }

    /* OPENING */

    function _checkRequest(Request calldata request, LeaseTerms calldata terms) private view {
        require(request.controller == msg.sender, EscrowWrongController(msg.sender, request.controller));
        require(block.timestamp < request.deadline, EscrowRequestExpired(request.deadline, block.timestamp));
        require(
            request.offer == terms.offer || request.offer == bytes32(0),
            EscrowOfferNotRequested(terms.offer, request.offer)
        );
        require(
            terms.pricePerSecond <= request.maxPricePerSecond,
            EscrowPriceAboveRequest(terms.pricePerSecond, request.maxPricePerSecond)
        );
        require(terms.duration <= request.duration, EscrowDurationAboveRequest(terms.duration, request.duration));
        require(
            terms.depositSeconds <= request.depositSeconds,
            EscrowDepositAboveRequest(terms.depositSeconds, request.depositSeconds)
        );
        require(request.voucherSigner != address(0), EscrowZeroAddress());
    }

    function _checkTerms(LeaseTerms calldata terms) private pure {
        require(terms.payee != address(0) && terms.treasury != address(0), EscrowZeroAddress());
        _checkTerm("duration", terms.duration, 1, Limits.MAX_LEASE_DURATION);
        _checkTerm("claimWindow", terms.claimWindow, Limits.MIN_CLAIM_WINDOW, Limits.MAX_CLAIM_WINDOW);
        _checkTerm("feePpm", terms.feePpm, 0, Limits.MAX_FEE_PPM);
        _checkTerm("burnPpm", terms.burnPpm, 0, Limits.MAX_BURN_PPM);
    }

    function _checkTerm(bytes32 term, uint256 value, uint256 least, uint256 most) private pure {
        require(value >= least, EscrowBadTerms(term, value, least));
        require(value <= most, EscrowBadTerms(term, value, most));
    }

    function _useNonce(address renter, uint256 nonce) private {
        uint256 bit = 1 << (nonce & 0xff);
        uint256 bits = _usedNonces[renter][nonce >> 8];
        require(bits & bit == 0, EscrowNonceUsed(renter, nonce));
        _usedNonces[renter][nonce >> 8] = bits | bit;
    }

    function _fixTreasury(address treasury) private {
        address fixed_ = _treasuries[msg.sender];
        if (fixed_ == treasury) return;
        require(fixed_ == address(0), EscrowBadTerms("treasury", uint256(uint160(treasury)), uint256(uint160(fixed_))));
        _treasuries[msg.sender] = treasury;
    }

    function _fund(LeaseRecord storage record, Request calldata request, LeaseTerms calldata terms, bytes32 lease)
        private
    {
        uint16 tokenId = _tokenIds[request.token];
        uint256 earmark = uint256(terms.pricePerSecond) * (uint256(terms.duration) + terms.depositSeconds);
        Account storage account = _accounts[tokenId][request.renter];
        uint256 available = account.free;
        require(available >= earmark, EscrowInsufficientFree(available, earmark));

        account.free = (available - earmark).toUint104();
        _write(record, request.renter, request.voucherSigner, tokenId, terms);

        emit LeaseFunded(
            msg.sender, lease, request.renter, request.token, earmark, terms, request.voucherSigner, request.nonce
        );
    }

    /// @dev Twin: `record.terms = Terms({payer: payer, openedAt: now, ..., stoppedAfter: 0})`, which reads and masks each slot four
    /// times. Every value is of its field's own type, or was checked; `openedAt` fits until the year 36,812.
    function _write(
        LeaseRecord storage record,
        address payer,
        address signer,
        uint16 tokenId,
        LeaseTerms calldata terms
    ) private {
        uint256 first = uint256(uint160(payer)) | block.timestamp << 160 | uint256(terms.duration) << 200
            | uint256(terms.claimWindow) << 232;
        uint256 second = uint256(uint160(terms.payee)) | uint256(terms.pricePerSecond) << 160 | uint256(tokenId) << 240;
        uint256 third = uint256(uint160(signer)) | uint256(terms.depositSeconds) << 160 | uint256(terms.feePpm) << 176
            | uint256(terms.burnPpm) << 200;
        assembly ("memory-safe") {
            sstore(record.slot, first)
            sstore(add(record.slot, 1), second)
            sstore(add(record.slot, 2), third)
        }
    }

    /* PAYING */

    /// @dev Pays nothing, and says so, where nothing is to be paid.
    function _collect(address controller, bytes32 lease, uint128 cumulative, bytes calldata signature)
        private
        returns (uint256 paid)
    {
        LeaseRecord storage record = _record(controller, lease);
        _checkVoucher(record.terms.voucherSigner, voucherDigest(lease, cumulative), signature);
        paid = _collectable(record, cumulative);
        if (paid == 0) return 0;

        uint256 previous = record.collected;
        record.collected = (previous + paid).toUint104();
        (uint256 fee, uint256 burnt) = _divide(controller, record, previous, previous + paid);

        emit VoucherCollected(controller, lease, previous + paid, paid, fee, burnt);
        if (previous == 0) _returnOpeningDeposit(controller, lease, record);
    }

    /// @dev Credits payee, treasury and burn with the piece from `previous` to `next`.
    function _divide(address controller, LeaseRecord storage record, uint256 previous, uint256 next)
        private
        returns (uint256 fee, uint256 burnt)
    {
        uint16 tokenId = record.terms.tokenId;
        (fee, burnt) = Fees.split(previous, next, record.terms.feePpm, record.terms.burnPpm);
        _owed[tokenId][record.terms.payee] += next - previous - fee - burnt;
        if (fee > 0) _owed[tokenId][_treasuries[controller]] += fee;
        if (burnt > 0) _burnPending[tokenId] += burnt;
    }

    function _checkVoucher(address signer, bytes32 digest, bytes calldata signature) private pure {
        (address recovered,,) = ECDSA.tryRecoverCalldata(digest, signature);
        require(recovered == signer, EscrowBadVoucher(recovered, signer));
    }

    function _returnOpeningDeposit(address controller, bytes32 lease, LeaseRecord storage record) private {
        uint256 amount = uint256(record.terms.pricePerSecond) * record.terms.depositSeconds;
        if (amount == 0) return;
        _accounts[record.terms.tokenId][record.terms.payer].free += amount.toUint104();

        emit OpeningDepositReturned(controller, lease, amount);
    }

    function _settle(address controller, bytes32 lease, LeaseRecord storage record) private {
        require(!record.isSettled, EscrowLeaseSettled(lease));
        uint256 price = record.terms.pricePerSecond;
        uint256 collected = record.collected;
        uint16 tokenId = record.terms.tokenId;
        uint256 refund = price * record.terms.duration - collected;
        uint256 burnt = collected == 0 ? price * record.terms.depositSeconds : 0;

        record.isSettled = true;
        if (refund > 0) _accounts[tokenId][record.terms.payer].free += refund.toUint104();
        if (burnt > 0) _burnPending[tokenId] += burnt;

        emit LeaseSettled(controller, lease, refund, burnt);
    }

    function _payOwed(address token, address account, address to) private returns (uint256 amount) {
        uint16 id = _tokenIds[token];
        amount = _owed[id][account];
        require(amount > 0, EscrowNothingOwed(account));

        _owed[id][account] = 0;

        emit OwedWithdrawn(token, account, to, amount);
        Transfers.push(token, to, amount);
    }

    /* INTERNALS */

    function _learnTokenId(address token) private returns (uint16 id) {
        id = _tokenIds[token];
        if (id == 0) {
            id = TOKENS.idOf(token);
            _tokenIds[token] = id;
        }
    }

    function _record(address controller, bytes32 lease) private view returns (LeaseRecord storage record) {
        record = _leases[controller][lease];
        require(record.terms.payer != address(0), EscrowLeaseUnknown(lease));
    }

    /// @dev Seconds the meter has run.
    function _elapsed(LeaseRecord storage record) private view returns (uint256) {
        uint256 stoppedAfter = record.terms.stoppedAfter;
        if (stoppedAfter != 0) return stoppedAfter - 1;
        return Math.min(block.timestamp - record.terms.openedAt, record.terms.duration);
    }

    /// @dev When the meter stopped, or will at the latest.
    function _endOf(LeaseRecord storage record) private view returns (uint256) {
        uint256 stoppedAfter = record.terms.stoppedAfter;
        return record.terms.openedAt + (stoppedAfter != 0 ? stoppedAfter - 1 : record.terms.duration);
    }

    function _accrued(LeaseRecord storage record) private view returns (uint256) {
        return record.terms.pricePerSecond * _elapsed(record);
    }

    function _collectable(LeaseRecord storage record, uint256 cumulative) private view returns (uint256) {
        if (record.isSettled) return 0;
        return Math.saturatingSub(Math.min(cumulative, _accrued(record)), record.collected);
    }
}
