// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title Token whose issuer may bar an account from sending and receiving.
contract BlacklistToken is ERC20("Blacklist token", "BLACK") {
    error BlacklistTokenBarred(address account);

    mapping(address account => bool) public isBarred;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function bar(address account, bool isBarred_) external {
        isBarred[account] = isBarred_;
    }

    function _update(address from, address to, uint256 amount) internal override {
        require(!isBarred[from], BlacklistTokenBarred(from));
        require(!isBarred[to], BlacklistTokenBarred(to));
        super._update(from, to, amount);
    }
}
