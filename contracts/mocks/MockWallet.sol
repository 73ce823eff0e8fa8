// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title ERC-1271 wallet of one key, which can also make any call.
contract MockWallet is IERC1271 {
    address public immutable OWNER;

    constructor(address owner) {
        OWNER = owner;
    }

    function execute(address target, bytes calldata data) external returns (bytes memory answer) {
        bool isDone;
        (isDone, answer) = target.call(data);
        require(isDone, string(answer));
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (address signer,,) = ECDSA.tryRecoverCalldata(hash, signature);
        return signer == OWNER ? IERC1271.isValidSignature.selector : bytes4(0);
    }
}
