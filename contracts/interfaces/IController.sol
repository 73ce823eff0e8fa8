// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Offer, Request, Resize} from "../types/Signed.sol";
import {IDevices} from "./IDevices.sol";
import {IEscrow} from "./IEscrow.sol";
import {IPoolTerms} from "./IPoolTerms.sol";
import {IProvisionTerms} from "./IProvisionTerms.sol";
import {IStaking} from "./IStaking.sol";

/// @title One pool: rules of entry, services, offers and requests that become leases, fee, metadata. Holds no money.
interface IController is IProvisionTerms, IPoolTerms {
    /// @notice A pool's rules, fixed when it is made.
    struct PoolParams {
        address token;
        address slasher;
        address treasury;
        uint24 feePpm;
        uint24 burnPpm;
        uint24 exposurePpm;
        uint24 slashCapPpm;
        uint24 claimWindow;
        uint24 disputeWindow;
        uint32 maxDuration;
        uint32 thawPeriod;
        uint16 depositSeconds;
        uint16 grace;
        uint96 minProvision;
    }

    enum LeaseStatus {
        None,
        Open,
        Closed,
        Released
    }

    /// @notice A lease as the pool sees it; its money is in `IEscrow.leaseAccount`. Times are Unix seconds, zero for never.
    /// `stint` names the device's stay in the pool; the last two fields are those of the provider's last demand.
    struct Lease {
        bytes32 device;
        uint16 share;
        uint32 memoryMiB;
        uint24 notice;
        LeaseStatus status;
        uint40 noticeEndsAt;
        uint40 closedAt;
        uint128 exposure;
        uint16 stint;
        uint40 demandedAt;
        uint128 collectedAtDemand;
    }

    enum CloseReason {
        Renter,
        Provider,
        End,
        Unpaid
    }

    struct Service {
        bytes32 digest;
        uint64 expiresAt;
        string uri;
    }

    event LeaseOpened(
        bytes32 indexed lease,
        bytes32 indexed device,
        address indexed renter,
        bytes32 request,
        uint256 openedAt,
        uint256 endsAt,
        Offer terms
    );
    event LeaseResized(bytes32 indexed lease, uint256 share, uint256 memoryMiB, uint256 pricePerSecond);
    event LeaseReclaimed(bytes32 indexed lease, uint256 compensation);
    event LeaseNoticed(bytes32 indexed lease, uint256 endsAt);
    event PaymentDemanded(bytes32 indexed lease, uint256 collected, uint256 answerBy);
    event LeaseClosed(bytes32 indexed lease, address indexed by, CloseReason reason, uint256 at);
    event ExposureReleased(bytes32 indexed lease, uint256 amount);
    event ServiceAnnounced(
        address indexed provider, bytes32 indexed kind, string uri, bytes32 digest, uint256 expiresAt
    );
    event ServiceWithdrawn(address indexed provider, bytes32 indexed kind);
    event MetadataSet(bytes32 digest, string uri);
    event NodeChanged(address indexed previous, address indexed node);
    event OwnershipOffered(address indexed owner, address indexed heir);
    event OwnershipTaken(address indexed previous, address indexed owner);
    event Paused(uint256 until);
    event Unpaused();

    error ControllerInitialized();
    error ControllerNotOwner(address caller, address owner);
    error ControllerNotHeir(address caller, address heir);
    error ControllerPaused(uint256 until);
    error ControllerPausedRecently(uint256 notBefore, uint256 time);
    error ControllerNotPaused();
    error ControllerProvisionBelow(uint256 unreserved, uint256 least);
    error ControllerNotDevices(address caller, address devices);
    error ControllerDeviceClash(bytes32 device, bytes32 known);
    error ControllerWrongController(address actual, address expected);
    error ControllerOfferExpired(uint256 deadline, uint256 time);
    error ControllerOfferTooFar(uint256 deadline, uint256 latest);
    error ControllerOfferCancelled(uint256 epoch, uint256 current);
    error ControllerDeviceNotHere(bytes32 device, address pool);
    error ControllerBadOfferSignature(address operator);
    error ControllerOfferNotRequested(bytes32 offer, bytes32 requested);
    error ControllerSubmitterNotAllowed(address caller, address submitter);
    error ControllerWrongToken(address actual, address expected);
    error ControllerShareBelow(uint256 offered, uint256 requested);
    error ControllerMemoryBelow(uint256 offered, uint256 requested);
    error ControllerHostBelow(uint256 offered, uint256 requested);
    error ControllerIsolationBelow(uint256 offered, uint256 requested);
    error ControllerDurationOutside(uint256 duration, uint256 longest);
    error ControllerRenterAtCap(address renter, uint256 cap);
    error ControllerLeaseUnknown(bytes32 lease);
    error ControllerLeaseNotOpen(bytes32 lease, LeaseStatus status);
    error ControllerLeaseNotClosed(bytes32 lease, LeaseStatus status);
    error ControllerNotParty(address caller);
    error ControllerNoticeMissing(bytes32 lease);
    error ControllerNoticeRunning(uint256 endsAt, uint256 time);
    error ControllerNotDemanded(bytes32 lease);
    error ControllerDemandRunning(uint256 answerBy, uint256 time);
    error ControllerDemandAnswered(uint256 collected, uint256 needed);
    error ControllerCompensationAbove(uint256 compensation, uint256 most);
    error ControllerCompensationShort(uint256 credited, uint256 compensation);
    error ControllerWindowOpen(uint256 endsAt, uint256 time);
    error ControllerTtlOutside(uint256 ttl, uint256 longest);
    error ControllerTextTooLong(uint256 length, uint256 most);
    error ControllerServiceUnknown(address provider, bytes32 kind);

    /// @notice Sets the node of a new clone, once; the factory calls it in the transaction that makes the clone, and says so in
    /// `PoolCreated`.
    function initialize(address node) external;

    /* LEASES */

    /// @notice Opens a lease of `request.duration` seconds from a signed offer and a signed request; returns its id.
    /// @dev Submitted by `request.submitter`, or by anyone where that is zero and the request names the offer. Reserves the slice in
    /// `Devices`, `price * duration * exposurePpm / 1e6` (rounded up) of the provider's stake in `Staking`, and earmarks in `Escrow`.
    function openLease(
        Offer calldata offer,
        bytes calldata offerSignature,
        Request calldata request,
        bytes calldata requestSignature
    ) external returns (bytes32 lease);

    /// @notice Gives an open lease another slice of its device and another price until its end, as its payer signed for Escrow.
    /// Provider's owner or operator. Slice ledger, exposure and earmark follow; a demand for payment lapses.
    function resizeLease(Resize calldata resize, bytes calldata signature) external;

    /// @notice Starts the promised notice, which ends with the lease at the latest. Provider's owner or operator.
    function giveNotice(bytes32 lease) external;

    /// @notice Closes: the renter (or its voucher signer) at any time; the provider after its notice; anyone from the end on.
    function closeLease(bytes32 lease) external;

    /// @notice Closes at once. For the seconds of promised notice that are missing, the caller pays the lease's price to the renter in
    /// this call: it approves that to the pool, and sets the most it will pay. Provider's owner or operator.
    function reclaimLease(bytes32 lease, uint256 mostCompensation) external;

    /// @notice Demands a newer voucher on chain. Provider's owner or operator. A later demand replaces an earlier one.
    function demandPayment(bytes32 lease) external;

    /// @notice Closes without notice when, 15 minutes after the demand, vouchers have not brought the pay of those 15 minutes less the
    /// pool's grace. Provider's owner or operator.
    function closeUnpaid(bytes32 lease) external;

    /// @notice The provider's last collection of a closed lease: collects the voucher (none when zero) and settles at once.
    function collectFinal(bytes32 lease, uint128 cumulative, bytes calldata signature) external;

    /// @notice Releases the stake reserved for a closed lease after the claim and dispute windows; anyone, once.
    function releaseExposure(bytes32 lease) external;

    /* ENTRY: called by Devices */

    /// @notice Reverts where the pool's rules refuse the device: while paused, or with less than `minProvision` of unreserved stake.
    function onDeviceJoin(bytes32 device, address provider) external;

    /* SERVICES */

    /// @notice Announces or renews the caller's service of `kind` for `ttl` seconds, 60 to 30 days. The owner, the node, or who has
    /// `minProvision` of active stake.
    function announce(bytes32 kind, string calldata uri, bytes32 digest, uint32 ttl) external;

    function withdrawService(bytes32 kind) external;

    /// @notice Empty when unknown, withdrawn or expired.
    function serviceOf(address provider, bytes32 kind) external view returns (Service memory);

    /* OWNER */

    function setNode(address node) external;

    /// @notice Publishes where the pool's description is (at most 200 bytes) and its digest.
    function setMetadata(bytes32 digest, string calldata uri) external;

    /// @notice Offers ownership to `heir`, who must take it; the zero address withdraws the offer.
    function offerOwnership(address heir) external;
    function takeOwnership() external;

    /// @notice Stops new leases, devices and announcements for 7 days, at most once in 30. Exits stay open.
    function pause() external;
    function unpause() external;

    /* VIEWS */

    function escrow() external view returns (IEscrow);
    function staking() external view returns (IStaking);
    function devices() external view returns (IDevices);

    function params() external view returns (PoolParams memory);

    /// @notice Account that made the pool, and the label it gave it.
    function founder() external view returns (address);
    function label() external view returns (bytes32);

    /// @notice The founder, until ownership was taken by an heir.
    function owner() external view returns (address);
    function heir() external view returns (address);
    function node() external view returns (address);

    /// @notice End of the present pause; zero when not paused.
    function pausedUntil() external view returns (uint256);
    function metadataDigest() external view returns (bytes32);
    function leaseOf(bytes32 lease) external view returns (Lease memory);

    /// @notice Open leases of `renter` on `device` from offers that cap them.
    function liveLeases(address renter, bytes32 device) external view returns (uint256);

    /// @notice keccak256(abi.encode(chain id, this pool, offer's struct hash, request's struct hash)).
    function leaseId(bytes32 offerHash, bytes32 requestHash) external view returns (bytes32);

    /// @notice Digest that the provider's operator signs.
    function offerDigest(Offer calldata offer) external view returns (bytes32);
}
