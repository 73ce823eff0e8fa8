// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "../interfaces/IEscrow.sol";
import {ITokens} from "../interfaces/ITokens.sol";
import {Transfers} from "../libraries/Transfers.sol";

/// @title What Escrow holds for each account: free balance, what is owed, used nonces; and what waits to be burnt.
abstract contract Accounts is IEscrow, ReentrancyGuardTransient {
    using SafeCast for uint256;

    /// @dev One slot. `id` names owner and token together; its first deposit or lease gives it.
    struct Account {
        uint88 free;
        uint88 noticed;
        uint40 readyAt;
        uint32 id;
    }

    /// @dev Whose an account is.
    struct Holder {
        address owner;
        uint16 tokenId;
    }

    uint256 public constant NOTICE = 15 minutes;

    /// @notice No deposit may lift the balance of a token above this (309 million tokens of 18 decimals), so that no sum overflows.
    uint256 public constant MOST_BALANCE = type(uint88).max;

    ITokens public immutable TOKENS;
    address public immutable BURN_SINK;

    /// @dev Ids of the tokens deposited here at least once.
    mapping(address token => uint16 id) internal _tokenIds;
    mapping(uint16 tokenId => mapping(address owner => Account)) internal _accounts;
    mapping(uint256 id => Holder) internal _holders;
    uint256 private _accountCount;
    mapping(uint16 tokenId => mapping(address owner => uint256 amount)) internal _owed;
    mapping(uint16 tokenId => uint256 amount) internal _burnPending;
    mapping(address renter => mapping(uint256 word => uint256 bits)) private _usedNonces;

    constructor(ITokens tokens, address burnSink) {
        require(address(tokens) != address(0) && burnSink != address(0), EscrowZeroAddress());
        TOKENS = tokens;
        BURN_SINK = burnSink;
    }

    /* FREE BALANCE */

    /// @inheritdoc IEscrow
    function deposit(address token, uint256 amount) external nonReentrant returns (uint256 received) {
        return _deposit(token, amount, msg.sender);
    }

    /// @inheritdoc IEscrow
    function depositFor(address token, address account, uint256 amount)
        external
        nonReentrant
        returns (uint256 received)
    {
        require(account != address(0), EscrowZeroAddress());
        return _deposit(token, amount, account);
    }

    /// @inheritdoc IEscrow
    function depositWithPermit(address token, uint256 amount, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
        nonReentrant
        returns (uint256 received)
    {
        require(TOKENS.isListed(token), EscrowTokenNotListed(token));
        // Who sent the permit first has done its work: what counts is the allowance.
        try IERC20Permit(token).permit(msg.sender, address(this), amount, deadline, v, r, s) {} catch {}
        return _deposit(token, amount, msg.sender);
    }

    /// @inheritdoc IEscrow
    function noticeWithdrawal(address token, uint256 amount) external nonReentrant {
        require(amount > 0, EscrowZeroAmount());
        uint256 most = Math.min(amount, MOST_BALANCE);
        uint256 readyAt = block.timestamp + NOTICE;

        Account storage account = _accounts[_tokenIds[token]][msg.sender];
        account.noticed = most.toUint88();
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

        account.free = (available - amount).toUint88();
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
    function isNonceUsed(address renter, uint256 nonce) external view returns (bool) {
        return _usedNonces[renter][nonce >> 8] & (1 << (nonce & 0xff)) != 0;
    }

    /* INTERNALS */

    /// @dev Pulls from the caller, credits `account`.
    function _deposit(address token, uint256 amount, address account) private returns (uint256 received) {
        require(TOKENS.isListed(token), EscrowTokenNotListed(token));
        uint16 id = _learnTokenId(token);

        uint256 balance;
        (received, balance) = Transfers.pull(token, msg.sender, amount);
        require(received > 0, EscrowZeroAmount());
        require(balance <= MOST_BALANCE, EscrowBalanceAbove(balance, MOST_BALANCE));

        Account storage entry = _accounts[id][account];
        _idOf(entry, id, account);
        entry.free += received.toUint88();

        emit Deposited(token, account, msg.sender, received);
    }

    function _useNonce(address renter, uint256 nonce) internal {
        uint256 bit = 1 << (nonce & 0xff);
        uint256 bits = _usedNonces[renter][nonce >> 8];
        require(bits & bit == 0, EscrowNonceUsed(renter, nonce));
        _usedNonces[renter][nonce >> 8] = bits | bit;
    }

    function _payOwed(address token, address account, address to) private returns (uint256 amount) {
        uint16 id = _tokenIds[token];
        amount = _owed[id][account];
        require(amount > 0, EscrowNothingOwed(account));

        _owed[id][account] = 0;

        emit OwedWithdrawn(token, account, to, amount);
        Transfers.push(token, to, amount);
    }

    /// @dev The account's id, given now if it has none.
    function _idOf(Account storage account, uint16 tokenId, address owner) internal returns (uint256 id) {
        id = account.id;
        if (id != 0) return id;
        id = ++_accountCount;
        account.id = id.toUint32();
        _holders[id] = Holder(owner, tokenId);
    }

    /// @dev Adds to the free balance of the account with this id.
    function _refund(uint256 id, uint256 amount) internal {
        Holder storage holder = _holders[id];
        _accounts[holder.tokenId][holder.owner].free += amount.toUint88();
    }

    function _learnTokenId(address token) private returns (uint16 id) {
        id = _tokenIds[token];
        if (id == 0) {
            id = TOKENS.idOf(token);
            _tokenIds[token] = id;
        }
    }
}
