// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {Services} from "./Services.sol";

/// @title The pool's description, by digest.
abstract contract Metadata is Services {
    bytes32 public override metadataDigest;

    /// @inheritdoc IController
    function setMetadata(bytes32 digest, string calldata uri) external {
        _requireOwner();
        _requireShort(uri);
        metadataDigest = digest;
        emit MetadataSet(digest, uri);
    }
}
