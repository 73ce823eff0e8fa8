// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {PoolRules} from "./PoolRules.sol";

/// @title Who owns a pool, in two steps, and which key its node has.
abstract contract Ownership is PoolRules {
    address private immutable _implementation;

    /// @dev Zero while the founder owns the pool: making a pool then writes one slot less.
    address private _owner;
    address public override heir;
    address public override node;
    bool private _isInitialized;

    constructor() {
        _implementation = address(this);
    }

    /// @inheritdoc IController
    function initialize(address node_) external {
        require(!_isInitialized && address(this) != _implementation, ControllerInitialized());
        (node, _isInitialized) = (node_, true);
    }

    /// @inheritdoc IController
    function setNode(address node_) external {
        _requireOwner();
        address previous = node;
        node = node_;
        emit NodeChanged(previous, node_);
    }

    /// @inheritdoc IController
    function offerOwnership(address heir_) external {
        _requireOwner();
        heir = heir_;
        emit OwnershipOffered(msg.sender, heir_);
    }

    /// @inheritdoc IController
    function takeOwnership() external {
        require(msg.sender == heir, ControllerNotHeir(msg.sender, heir));
        address previous = owner();
        _owner = msg.sender;
        heir = address(0);
        emit OwnershipTaken(previous, msg.sender);
    }

    /// @inheritdoc IController
    function owner() public view returns (address) {
        address current = _owner;
        return current == address(0) ? founder() : current;
    }

    function _requireOwner() internal view {
        address current = owner();
        require(msg.sender == current, ControllerNotOwner(msg.sender, current));
    }
}
