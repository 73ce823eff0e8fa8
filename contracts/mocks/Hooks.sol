// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {CallbackToken, ITransferHook} from "./CallbackToken.sol";

/// @title Receiver that makes one chosen call from inside a transfer and keeps its outcome.
contract ReentrantHook is ITransferHook {
    address public target;
    bytes public data;
    uint256 public calls;
    bool public succeeded;
    bytes public returned;

    function arm(CallbackToken token, address target_, bytes calldata data_) external {
        token.setHook(this);
        (target, data, calls, succeeded, returned) = (target_, data_, 0, false, "");
    }

    function onTransfer(address, address, uint256) external {
        ++calls;
        (succeeded, returned) = target.call(data);
    }

    /// @notice Makes any call as this receiver.
    function execute(address callee, bytes calldata data_) external returns (bytes memory answer) {
        bool isDone;
        (isDone, answer) = callee.call(data_);
        require(isDone, string(answer));
    }
}

/// @title Receiver that refuses every transfer, or answers with a megabyte.
contract HostileHook is ITransferHook {
    bool public isLong;

    function setLong(bool isLong_) external {
        isLong = isLong_;
    }

    function onTransfer(address, address, uint256) external view {
        bool isLong_ = isLong;
        assembly ("memory-safe") {
            if isLong_ { revert(0, 1000000) }
            invalid()
        }
    }
}
