// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Request, Resize} from "../types/Signed.sol";

/// @title Renters' money: deposits, an earmark per lease, cumulative vouchers, refunds.
/// @notice Trusts no pool: the earmark of a lease needs the renter's own signature on a `Request` that names the pool, the highest
/// price and the longest time; its payment needs a `Voucher` of the session key in that request. Every amount has an owner and a
/// time by which the owner can take it out alone.
interface IEscrow {
    /// @notice Terms of a lease, snapshotted when it opens. `offer` is the struct hash of the offer taken.
    struct LeaseTerms {
        bytes32 offer;
        address payee;
        uint80 pricePerSecond;
        uint32 duration;
    }

    /// @notice Terms of a pool: a controller's first lease fixes them for all its leases, whatever it says later.
    /// `treasury` gets the fee.
    struct PoolTerms {
        address treasury;
        uint24 feePpm;
        uint24 burnPpm;
        uint24 claimWindow;
        uint16 depositSeconds;
    }

    /// @notice A lease's money. `accrued` is what has accrued by now, `collected` what vouchers have taken.
    /// `stoppedAfter` is 0 while nobody has stopped it, else one more than the seconds from `openedAt` to the stop.
    struct LeaseAccount {
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
        uint128 collected;
        uint128 accrued;
        bool isSettled;
        bool isDepositReturned;
    }

    /// @notice One voucher of a batch.
    struct VoucherClaim {
        address controller;
        bytes32 lease;
        uint128 cumulative;
        bytes signature;
    }

    event Deposited(address indexed token, address indexed account, address indexed funder, uint256 amount);
    event WithdrawalNoticed(address indexed token, address indexed account, uint256 amount, uint256 readyAt);
    event Withdrawn(address indexed token, address indexed account, address indexed to, uint256 amount);
    event OwedWithdrawn(address indexed token, address indexed account, address indexed to, uint256 amount);
    event RequestCancelled(address indexed renter, uint256 nonce);
    event LeaseGrouped(bytes32 indexed request, bytes32 indexed lease, uint256 opened, uint256 held);
    event RequestEnded(address indexed renter, bytes32 indexed request);
    event LeaseFunded(
        address indexed controller,
        bytes32 indexed lease,
        address indexed payer,
        address token,
        uint256 earmark,
        LeaseTerms terms,
        address voucherSigner,
        uint256 nonce
    );
    event PoolFixed(address indexed controller, PoolTerms terms);
    event PoolSwept(address indexed controller, address indexed token, uint256 fees, uint256 burnt);
    event VoucherCollected(
        address indexed controller, bytes32 indexed lease, uint256 cumulative, uint256 paid, uint256 fee, uint256 burnt
    );
    event OpeningDepositReturned(address indexed controller, bytes32 indexed lease, uint256 amount);
    event LeaseRepriced(
        address indexed controller, bytes32 indexed lease, uint256 pricePerSecond, uint256 accrued, uint256 rent
    );
    event LeaseStopped(address indexed controller, bytes32 indexed lease, uint256 at);
    event LeaseSettled(address indexed controller, bytes32 indexed lease, uint256 refunded, uint256 burnt);
    event BurnFlushed(address indexed token, uint256 amount);

    error EscrowTokenNotListed(address token);
    error EscrowZeroAmount();
    error EscrowZeroAddress();
    error EscrowBalanceAbove(uint256 balance, uint256 most);
    error EscrowBatchTooLong(uint256 length, uint256 most);
    error EscrowInsufficientFree(uint256 free, uint256 needed);
    error EscrowNothingNoticed(address account);
    error EscrowNoticeRunning(uint256 readyAt, uint256 time);
    error EscrowNothingOwed(address account);
    error EscrowWrongController(address caller, address expected);
    error EscrowRequestExpired(uint256 deadline, uint256 time);
    error EscrowNonceUsed(address renter, uint256 nonce);
    error EscrowPriceAboveRequest(uint256 price, uint256 highest);
    error EscrowDurationAboveRequest(uint256 duration, uint256 longest);
    error EscrowDepositAboveRequest(uint256 depositSeconds, uint256 most);
    error EscrowOfferNotRequested(bytes32 offer, bytes32 requested);
    error EscrowBadTerms(bytes32 term, uint256 value, uint256 bound);
    error EscrowLeaseExists(bytes32 lease);
    error EscrowReplacementsUsed(bytes32 request, uint256 opened, uint256 replacements);
    error EscrowSpendAboveCap(uint256 held, uint256 cap);
    error EscrowNotRenter(address caller, address renter);
    error EscrowResizeOutdated(uint256 sequence, uint256 current);
    error EscrowLeaseIsGrouped(bytes32 lease);
    error EscrowPayeeClash(address payee, address known);
    error EscrowBadRequestSignature(address renter);
    error EscrowLeaseUnknown(bytes32 lease);
    error EscrowLeaseSettled(bytes32 lease);
    error EscrowLeaseStopped(bytes32 lease);
    error EscrowLeaseRunning(bytes32 lease);
    error EscrowClaimWindowOpen(uint256 endsAt, uint256 time);
    error EscrowBadVoucher(address recovered, address expected);
    error EscrowNothingToCollect(uint256 collected, uint256 bound);

    /* FREE BALANCE */

    /// @notice Adds `amount` of a listed token to the caller's free balance; credits what really arrived.
    function deposit(address token, uint256 amount) external returns (uint256 received);

    /// @notice Adds `amount` of the caller's tokens to the free balance of `account`: a gift, for `account` to use and to withdraw.
    function depositFor(address token, address account, uint256 amount) external returns (uint256 received);

    /// @notice Deposits with the caller's ERC-2612 permit. A permit that somebody else has sent already does no harm.
    function depositWithPermit(address token, uint256 amount, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
        returns (uint256 received);

    /// @notice Announces a withdrawal of up to `amount` in place of any earlier notice. The money stays usable for leases and may
    /// leave after `NOTICE`: whoever relies on a renter's money counts `free` less `noticed`.
    function noticeWithdrawal(address token, uint256 amount) external;

    /// @notice Pays the noticed amount, or what is left of it, to `to`, once the notice is over.
    function withdraw(address token, address to) external returns (uint256 amount);

    /// @notice Voids one nonce of the caller, so that a request signed with it can open nothing.
    function cancelRequest(uint256 nonce) external;

    /// @notice Lets a request with replacements open no more leases. By its renter, once the first is open; before that,
    /// `cancelRequest` does.
    function endRequest(bytes32 requestHash) external;

    /* LEASES: called by the controller the renter named */

    /// @notice Earmarks the most the lease can cost: `pricePerSecond * (duration + depositSeconds)`. The caller's first lease asks it
    /// for its `IPoolTerms`.
    /// @dev A request with `replacements` may open that many leases after its first, under the same terms and until its deadline, as
    /// long as what all of them hold and have cost stays within `spendCap`; what was given back counts no more. Its nonce is used by
    /// the first.
    /// @return lease `keccak256(abi.encode(chainid, caller, terms.offer, struct hash of request))`, so that no voucher fits two leases.
    function openLease(Request calldata request, bytes calldata signature, LeaseTerms calldata terms)
        external
        returns (bytes32 lease);

    /// @notice Gives a running lease of the calling controller another price, with the payer's signature. What has accrued stays; of the
    /// rent still to come, more is earmarked from the payer's free balance or less is kept. No time is added; the opening deposit stays
    /// as it is. The rent of a lease of a request with replacements can only fall.
    /// @return duration of the lease in seconds
    /// @return previousPrice what a second cost until now
    function resizeLease(Resize calldata resize, bytes calldata signature)
        external
        returns (uint256 duration, uint256 previousPrice);

    /// @notice Stops the meter of a lease of the calling controller, now or at its end. Once; also after it was settled.
    function stopLease(bytes32 lease) external;

    /// @notice The payee's final word, relayed by the calling controller: the claim window of a stopped or ended lease need not be
    /// waited for.
    function settleEarly(bytes32 lease) external;

    /* VOUCHERS: anyone */

    /// @notice Pays what `cumulative` promises beyond what was collected, at most what has accrued; clamps, never reverts for more.
    /// @dev The fee is `feePpm` of the payment, the burn `burnPpm` of the rest, both of the cumulative sum and rounded down: how
    /// often a lease is collected changes neither. A voucher above the bound pays the bound and may be shown again later.
    function collect(address controller, bytes32 lease, uint128 cumulative, bytes calldata signature)
        external
        returns (uint256 paid);

    /// @notice Collects up to `MOST_CLAIMS` vouchers; those with nothing to collect are passed over.
    function collectMany(VoucherClaim[] calldata claims) external returns (uint256 paid);

    /// @notice After the claim window: gives the payer back what no voucher took; burns the opening deposit of a lease nobody paid for.
    function settle(address controller, bytes32 lease) external;

    /* OWED */

    /// @notice Credits what the leases of `controller` brought since the last sweep: the fees to its treasury's `owed`, the rest to
    /// `burnPending`. Anyone may call.
    function sweep(address controller, address token) external returns (uint256 fees, uint256 burnt);

    /// @notice Pays everything owed to `account` to `account`; anyone may call.
    function withdrawOwed(address token, address account) external returns (uint256 amount);

    /// @notice Pays everything owed to the caller to `to`.
    function withdrawOwedTo(address token, address to) external returns (uint256 amount);

    /// @notice Sends the burnt amount to the sink.
    function flushBurn(address token) external returns (uint256 amount);

    /* VIEWS */

    function free(address token, address account) external view returns (uint256);
    function noticed(address token, address account) external view returns (uint256 amount, uint256 readyAt);
    function owed(address token, address account) external view returns (uint256);

    /// @notice What `flushBurn` would burn; the pools' takings come on top.
    function burnPending(address token) external view returns (uint256);
    function leaseAccount(address controller, bytes32 lease) external view returns (LeaseAccount memory);

    /// @notice What `controller` takes of its leases; all zero before its first lease.
    function termsOf(address controller) external view returns (PoolTerms memory);

    /// @notice Leases opened by a request with replacements (255 when its renter ended it), and what they hold and have cost.
    function groupOf(bytes32 requestHash) external view returns (address renter, uint256 opened, uint256 held);

    /// @notice Fees and burns of the leases of `controller` that wait for `sweep`.
    function takings(address controller, address token) external view returns (uint256 fees, uint256 burnt);

    /// @notice What has accrued by now: the bound of every voucher.
    function accruedOf(address controller, bytes32 lease) external view returns (uint256);

    /// @notice What a voucher of `cumulative` would pay now; equals what `collect` then does.
    function collectable(address controller, bytes32 lease, uint128 cumulative) external view returns (uint256);
    function isNonceUsed(address renter, uint256 nonce) external view returns (bool);
    function requestDigest(Request calldata request) external view returns (bytes32);
    function resizeDigest(Resize calldata resize) external view returns (bytes32);

    /// @notice How often a lease was resized: the `sequence` of the next `Resize`.
    function resizesOf(address controller, bytes32 lease) external view returns (uint256);
    function voucherDigest(bytes32 lease, uint128 cumulative) external view returns (bytes32);
}
