// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Lease ids: they follow from what was signed, never from a counter.
library LeaseIds {
    /// @notice Id of the lease that `controller` opens from an offer and a request, both given by their struct hashes.
    function compute(address controller, bytes32 offerHash, bytes32 requestHash) internal view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, controller, offerHash, requestHash));
    }
}
