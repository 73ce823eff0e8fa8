// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Providers' stake: idle, provisioned to pools, thawing, frozen, slashed.
/// @notice A provision names its slasher and thaw period when it is made, for good. Slashing clamps and never reverts.
/// Times by which stake leaves with nobody's help: idle at once; active stake that backs no lease one thaw period after `thaw`; all
/// of it one more thaw period after `retire`, whatever the pool does; frozen stake one thaw period after the freeze
/// (`unfreezeExpired`), then as active stake; payouts one thaw period after the slash.
interface IStaking {
    /// @notice Stake of one provider locked to one pool. `retiredAt` is 0 while the pool may reserve.
    struct Provision {
        address slasher;
        uint16 tokenId;
        uint32 thawPeriod;
        uint24 slashCapPpm;
        uint128 active;
        uint128 thawing;
        uint128 frozen;
        uint128 exposure;
        uint64 retiredAt;
    }

    struct ThawEntry {
        uint128 amount;
        uint64 maturesAt;
    }

    /// @notice What one offence froze and has not yet been slashed or unfrozen.
    struct Offence {
        address pool;
        address provider;
        uint128 frozen;
        uint64 frozenAt;
    }

    /// @notice Who gets what of a slash, in token units; each is clamped to its share, the rest is burnt.
    struct SlashSplit {
        address renter;
        uint128 renterAmount;
        address challenger;
        uint128 challengerAmount;
    }

    event StakeDeposited(address indexed token, address indexed provider, uint256 amount);
    event StakeWithdrawn(address indexed token, address indexed provider, address indexed to, uint256 amount);
    event ProvisionCreated(
        address indexed pool,
        address indexed provider,
        address indexed slasher,
        address token,
        uint256 thawPeriod,
        uint256 slashCapPpm
    );
    event StakeProvisioned(address indexed pool, address indexed provider, uint256 amount);
    event ThawStarted(address indexed pool, address indexed provider, uint256 amount, uint256 maturesAt);
    event ThawCompleted(address indexed pool, address indexed provider, uint256 amount);
    event ExposureReserved(address indexed pool, address indexed provider, uint256 amount);
    event ExposureReleased(address indexed pool, address indexed provider, uint256 amount);
    event ProvisionRetired(address indexed pool, address indexed provider, uint256 exposureVoidAt);
    event StakeFrozen(
        address indexed pool, address indexed provider, bytes32 indexed offence, uint256 amount, uint256 fromThawing
    );
    event StakeUnfrozen(address indexed pool, address indexed provider, bytes32 indexed offence, uint256 amount);
    event StakeSlashed(
        address indexed pool,
        address indexed provider,
        bytes32 indexed offence,
        uint256 taken,
        uint256 burnt,
        uint256 toRenter,
        uint256 toChallenger
    );
    event PayoutWithdrawn(
        address indexed slasher, bytes32 indexed offence, address indexed beneficiary, address to, uint256 amount
    );
    event BurnFlushed(address indexed token, uint256 amount);

    error StakingTokenNotListed(address token);
    error StakingZeroAmount();
    error StakingZeroAddress();
    error StakingInsufficientIdle(uint256 idle, uint256 amount);
    error StakingBalanceAbove(uint256 balance, uint256 most);
    error StakingTermsChanged(address slasher, uint256 thawPeriod);
    error StakingBadTerms(bytes32 term, uint256 value, uint256 bound);
    error StakingRetired(uint256 retiredAt);
    error StakingProvisionUnknown(address pool, address provider);
    error StakingInsufficientUnreserved(uint256 unreserved, uint256 amount);
    error StakingTooManyThaws(uint256 entries, uint256 most);
    error StakingNothingMature(address pool, address provider);
    error StakingNotSlasher(address caller, address slasher);
    error StakingOffenceKnown(bytes32 offence);
    error StakingOffenceUnknown(bytes32 offence);
    error StakingFreezeRunning(uint256 endsAt, uint256 time);
    error StakingExposureBelow(uint256 exposure, uint256 amount);
    error StakingPayoutImmature(uint256 maturesAt, uint256 time);
    error StakingNothingToPay(bytes32 offence, address beneficiary);

    /* STAKE */

    /// @notice Adds `amount` of a listed token to the caller's idle stake; credits what really arrived.
    function deposit(address token, uint256 amount) external returns (uint256 received);

    /// @notice Pays `amount` of the caller's idle stake to `to`.
    function withdraw(address token, uint256 amount, address to) external;

    /* PROVISIONS */

    /// @notice Locks `amount` of idle stake to `pool`. The first call makes the provision, with the pool's terms, which must be the
    /// expected ones. Takes back a retirement.
    function provision(address pool, uint256 amount, address expectedSlasher, uint32 expectedThawPeriod) external;

    /// @notice Starts to unlock `amount` that backs no live lease; it stays slashable until it has matured and is completed.
    function thaw(address pool, uint256 amount) external;

    /// @notice Ends the caller's business with `pool`: no more exposure, and one thaw period later, by when every lease and its
    /// windows are over, what the pool failed to release no longer holds stake back.
    function retire(address pool) external;

    /// @notice Moves what has matured back to idle.
    function completeThaw(address pool) external returns (uint256 amount);

    /* EXPOSURE: called by the pool */

    /// @notice Reserves `amount` of the provider's unreserved stake for a lease of the calling pool.
    function reserve(address provider, uint128 amount) external;
    function release(address provider, uint128 amount) external;

    /* OFFENCES: called by the provision's slasher */

    /// @notice Freezes up to `amount` of what was staked at `offendedAt` and still is, at most the provision's cap per offence; returns
    /// the frozen amount. Once per offence id of the calling slasher. Takes thawing stake first, the oldest entry first, since that
    /// would leave soonest; stake provisioned after `offendedAt` is out of reach.
    function freeze(address pool, address provider, bytes32 offence, uint64 offendedAt, uint128 amount)
        external
        returns (uint256 frozen);

    /// @notice Gives back to the active stake what the caller froze for `offence`; nothing when it was resolved before.
    function unfreeze(bytes32 offence) external returns (uint256 amount);

    /// @notice Takes up to `amount` of what the offence froze and unfreezes the rest; takes nothing when it was resolved before.
    /// @dev At least half is burnt, rounded up; the challenger gets at most a quarter, the renter what is left of the other half; a
    /// share of nobody or of the slasher itself is burnt. Payouts mature one thaw period later.
    function slash(bytes32 offence, uint128 amount, SlashSplit calldata split) external returns (uint256 taken);

    /* ANYONE */

    /// @notice Unfreezes what a silent slasher has held for a whole thaw period.
    function unfreezeExpired(address slasher, bytes32 offence) external returns (uint256 amount);

    /// @notice Pays the caller's matured share of a slash to `to`.
    function withdrawPayout(address slasher, bytes32 offence, address to) external returns (uint256 amount);

    /// @notice Sends the burnt amount to the sink.
    function flushBurn(address token) external returns (uint256 amount);

    /* VIEWS */

    function idle(address token, address provider) external view returns (uint256);
    function provisionOf(address pool, address provider) external view returns (Provision memory);
    function thawEntries(address pool, address provider) external view returns (ThawEntry[] memory);
    /// @notice What may back a new lease: active stake less live exposure; nothing once retired.
    function unreserved(address pool, address provider) external view returns (uint256);

    /// @notice What `thaw` would accept now.
    function thawable(address pool, address provider) external view returns (uint256);

    /// @notice What `freeze` would take now for an offence at `offendedAt`, at most.
    function slashable(address pool, address provider, uint64 offendedAt) external view returns (uint256);
    function offenceOf(address slasher, bytes32 offence) external view returns (Offence memory);
    function payoutOf(address slasher, bytes32 offence, address beneficiary)
        external
        view
        returns (uint256 amount, uint256 maturesAt);
    function burnPending(address token) external view returns (uint256);
}
