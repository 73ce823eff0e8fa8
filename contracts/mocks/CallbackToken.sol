// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title What a holder may register to be called on every transfer.
interface ITransferHook {
    function onTransfer(address from, address to, uint256 amount) external;
}

/// @title ERC-777-like token: calls the hooks of sender and receiver before and after it moves.
contract CallbackToken is ERC20("Callback token", "CALL") {
    mapping(address holder => ITransferHook hook) public hooks;

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function setHook(ITransferHook hook) external {
        hooks[msg.sender] = hook;
    }

    function _update(address from, address to, uint256 amount) internal override {
        ITransferHook sending = hooks[from];
        if (address(sending) != address(0)) sending.onTransfer(from, to, amount);
        super._update(from, to, amount);
        ITransferHook receiving = hooks[to];
        if (address(receiving) != address(0)) receiving.onTransfer(from, to, amount);
    }
}
