// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {PoolLimits} from "../libraries/PoolLimits.sol";
import {Pausing} from "./Pausing.sol";

/// @title Where the pool's parties can be reached, each entry with a time to live.
abstract contract Services is Pausing {
    mapping(address provider => mapping(bytes32 kind => Service)) private _services;

    /// @inheritdoc IController
    function announce(bytes32 kind, string calldata uri, bytes32 digest, uint32 ttl) external {
        _requireRunning();
        _requireBacked();
        require(
            ttl >= PoolLimits.SHORTEST && ttl <= PoolLimits.LONGEST_TTL,
            ControllerTtlOutside(ttl, PoolLimits.LONGEST_TTL)
        );
        _requireShort(uri);

        uint64 expiresAt = uint64(block.timestamp + ttl);
        _services[msg.sender][kind] = Service({digest: digest, expiresAt: expiresAt, uri: uri});

        emit ServiceAnnounced(msg.sender, kind, uri, digest, expiresAt);
    }

    /// @inheritdoc IController
    function withdrawService(bytes32 kind) external {
        require(_services[msg.sender][kind].expiresAt != 0, ControllerServiceUnknown(msg.sender, kind));
        delete _services[msg.sender][kind];
        emit ServiceWithdrawn(msg.sender, kind);
    }

    /// @inheritdoc IController
    function serviceOf(address provider, bytes32 kind) external view returns (Service memory service) {
        if (block.timestamp < _services[provider][kind].expiresAt) service = _services[provider][kind];
    }

    function _requireBacked() private view {
        if (msg.sender == owner() || msg.sender == node) return;
        uint256 least = params().minProvision;
        uint256 active = staking.provisionOf(address(this), msg.sender).active;
        require(active >= least, ControllerProvisionBelow(active, least));
    }

    function _requireShort(string calldata text) internal pure {
        uint256 length = bytes(text).length;
        require(length <= PoolLimits.LONGEST_URI, ControllerTextTooLong(length, PoolLimits.LONGEST_URI));
    }
}
