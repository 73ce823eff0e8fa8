// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Providers' stake: idle, provisioned to pools, thawing, frozen, slashed.
/// @notice A provision names its slasher and thaw period when it is made, for good. Slashing clamps and never reverts.
interface IStaking {
    /// @notice Stake of one provider locked to one pool.
    struct Provision {
        address slasher;
        uint16 tokenId;
        uint32 thawPeriod;
        uint24 slashCapPpm;
        uint128 active;
        uint128 thawing;
        uint128 frozen;
        uint128 exposure;
    }

    struct ThawEntry {
        uint128 amount;
        uint64 maturesAt;
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
    event ProvisionCreated(address indexed pool, address indexed provider, address indexed slasher, address token, uint256 thawPeriod, uint256 slashCapPpm);
    event StakeProvisioned(address indexed pool, address indexed provider, uint256 amount);
    event ThawStarted(address indexed pool, address indexed provider, uint256 amount, uint256 maturesAt);
    event ThawCompleted(address indexed pool, address indexed provider, uint256 amount);
    event ExposureReserved(address indexed pool, address indexed provider, uint256 amount);
    event ExposureReleased(address indexed pool, address indexed provider, uint256 amount);
    event StakeFrozen(address indexed pool, address indexed provider, bytes32 indexed offence, uint256 amount);
    event StakeUnfrozen(address indexed pool, address indexed provider, bytes32 indexed offence, uint256 amount);
    event StakeSlashed(address indexed pool, address indexed provider, bytes32 indexed offence, uint256 taken, uint256 burnt, uint256 toRenter, uint256 toChallenger);
    event PayoutWithdrawn(bytes32 indexed offence, address indexed beneficiary, address indexed to, uint256 amount);
    event BurnFlushed(address indexed token, uint256 amount);

    error StakingTokenNotListed(address token);
    error StakingZeroAmount();
    error StakingZeroAddress();
    error StakingInsufficientIdle(uint256 idle, uint256 amount);
    error StakingTermsChanged();
    error StakingBadTerms();
    error StakingProvisionUnknown(address pool, address provider);
    error StakingInsufficientUnreserved(uint256 unreserved, uint256 amount);
    error StakingTooManyThaws(uint256 entries, uint256 most);
    error StakingNothingMature(address pool, address provider);
    error StakingNotSlasher(address caller, address slasher);
    error StakingOffenceKnown(bytes32 offence);
    error StakingOffenceUnknown(bytes32 offence);
    error StakingExposureBelow(uint256 exposure, uint256 amount);
    error StakingPayoutImmature(uint256 maturesAt, uint256 time);
    error StakingNothingToPay(bytes32 offence, address beneficiary);

    /* STAKE */

    function deposit(address token, uint256 amount) external returns (uint256 received);
    function withdraw(address token, uint256 amount, address to) external;

    /* PROVISIONS */

    /// @notice Locks `amount` of idle stake to `pool`. The first call makes the provision, with the pool's terms, which must be the expected ones.
    function provision(address pool, uint256 amount, address expectedSlasher, uint32 expectedThawPeriod) external;

    /// @notice Starts to unlock `amount` that backs no live lease; it stays slashable until it matures and is completed.
    function thaw(address pool, uint256 amount) external;

    /// @notice Moves what has matured back to idle.
    function completeThaw(address pool) external returns (uint256 amount);

    /* EXPOSURE: called by the pool */

    function reserve(address provider, uint128 amount) external;
    function release(address provider, uint128 amount) external;

    /* OFFENCES: called by the provision's slasher */

    /// @notice Freezes up to `amount` of what was staked at `offendedAt`; returns the frozen amount. Once per offence.
    function freeze(address pool, address provider, bytes32 offence, uint64 offendedAt, uint128 amount) external returns (uint256 frozen);
    function unfreeze(bytes32 offence) external returns (uint256 amount);
    /// @notice Takes up to `amount` of what the offence froze, unfreezes the rest; at least half is burnt.
    function slash(bytes32 offence, uint128 amount, SlashSplit calldata split) external returns (uint256 taken);

    function withdrawPayout(bytes32 offence, address to) external returns (uint256 amount);
    function flushBurn(address token) external returns (uint256 amount);

    /* VIEWS */

    function idle(address token, address provider) external view returns (uint256);
    function provisionOf(address pool, address provider) external view returns (Provision memory);
    function thawEntries(address pool, address provider) external view returns (ThawEntry[] memory);
    /// @notice What may back a new lease: active stake less live exposure.
    function unreserved(address pool, address provider) external view returns (uint256);
    function payoutOf(bytes32 offence, address beneficiary) external view returns (uint256 amount, uint256 maturesAt);
    function burnPending(address token) external view returns (uint256);
}
