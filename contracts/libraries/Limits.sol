// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Bounds that Escrow and Staking hold every pool to.
library Limits {
    uint256 internal constant MAX_FEE_PPM = 250_000;
    uint256 internal constant MAX_BURN_PPM = 100_000;
    uint256 internal constant MIN_CLAIM_WINDOW = 1 days;
    uint256 internal constant MAX_CLAIM_WINDOW = 30 days;
    uint256 internal constant MAX_LEASE_DURATION = 180 days;
    uint256 internal constant MIN_THAW_PERIOD = 1 days;
    uint256 internal constant MAX_THAW_PERIOD = 120 days;
}
