// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Bounds of what a pool may ask and allow. Times in seconds, ratios in parts per million.
library PoolLimits {
    /// @dev No lease, time to live, deposit or grace is shorter: no rule is tighter than a minute.
    uint256 internal constant SHORTEST = 1 minutes;

    /// @dev Also the longest reservation of a device.
    uint256 internal constant LONGEST_LEASE = 90 days;

    /// @dev How far ahead the deadline of an offer may be.
    uint256 internal constant LONGEST_OFFER = 1 hours;

    /// @dev Time to answer a demand; a pool's grace is shorter.
    uint256 internal constant ANSWER_TIME = 15 minutes;
    uint256 internal constant MAX_GRACE = 14 minutes;

    uint256 internal constant MIN_DISPUTE_WINDOW = 1 days;
    uint256 internal constant MAX_DISPUTE_WINDOW = 30 days;

    /// @dev What a thaw outlasts beyond the longest lease, the claim and the dispute window.
    uint256 internal constant APPEAL = 7 days;
    uint256 internal constant THAW_MARGIN = 48 hours;

    uint256 internal constant MAX_EXPOSURE_PPM = 10_000_000;

    uint256 internal constant PAUSE = 7 days;
    uint256 internal constant PAUSE_INTERVAL = 30 days;

    uint256 internal constant LONGEST_TTL = 30 days;

    /// @dev Bytes.
    uint256 internal constant LONGEST_URI = 200;
}
