// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Shares in parts per million. `amount` is below 2^232, as every balance here is.
library Ppm {
    uint256 internal constant ONE = 1_000_000;

    /// @notice `amount * ppm / 1e6`, rounded down.
    function mulDown(uint256 amount, uint256 ppm) internal pure returns (uint256) {
        return amount * ppm / ONE;
    }

    /// @notice `amount * ppm / 1e6`, rounded up.
    function mulUp(uint256 amount, uint256 ppm) internal pure returns (uint256) {
        return (amount * ppm + ONE - 1) / ONE;
    }
}
