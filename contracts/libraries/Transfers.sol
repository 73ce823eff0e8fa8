// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

/// @title Moves tokens in and out; a transfer in is measured, never believed.
library Transfers {
    using SafeERC20 for IERC20;

    /// @notice Pulls `amount` from `from`; tells what arrived and the balance after it.
    function pull(address token, address from, uint256 amount) internal returns (uint256 received, uint256 balance) {
        uint256 previous = IERC20(token).balanceOf(address(this));
        IERC20(token).safeTransferFrom(from, address(this), amount);
        balance = IERC20(token).balanceOf(address(this));
        received = balance - previous;
    }

    function push(address token, address to, uint256 amount) internal {
        IERC20(token).safeTransfer(to, amount);
    }
}
