// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title Token that keeps a fee of every transfer.
contract FeeToken is ERC20("Fee token", "FEE") {
    uint256 public feePpm = 10_000;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function setFee(uint256 feePpm_) external {
        feePpm = feePpm_;
    }

    function _update(address from, address to, uint256 amount) internal override {
        super._update(from, to, amount);
        if (from != address(0) && to != address(0)) super._update(to, address(0), amount * feePpm / 1_000_000);
    }
}
