// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Ppm} from "./Ppm.sol";

/// @title Fee and burn of a cumulative payment.
/// @notice Both follow from the cumulative sum alone, so paying in many pieces costs neither more nor less.
library Fees {
    /// @notice What of the piece from `previous` to `next` is fee and what is burnt; the payee gets the rest.
    function split(uint256 previous, uint256 next, uint256 feePpm, uint256 burnPpm)
        internal
        pure
        returns (uint256 fee, uint256 burnt)
    {
        uint256 previousFee = Ppm.mulDown(previous, feePpm);
        uint256 nextFee = Ppm.mulDown(next, feePpm);
        fee = nextFee - previousFee;
        burnt = Ppm.mulDown(next - nextFee, burnPpm) - Ppm.mulDown(previous - previousFee, burnPpm);
    }
}
