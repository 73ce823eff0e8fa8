// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Receipt} from "../types/Signed.sol";

/// @title Merkle roots of signed receipts, each with its challenge deadline.
interface IAttestations {
    struct Batch {
        uint64 postedAt;
        uint64 challengeableUntil;
        uint32 count;
    }

    event ReceiptsPosted(
        address indexed pool,
        address indexed poster,
        bytes32 indexed root,
        uint32 count,
        bytes32 dataHash,
        uint256 challengeableUntil
    );

    error AttestationsBadWindow(uint256 window, uint256 least);
    error AttestationsEmpty();
    error AttestationsPosted(bytes32 root);

    /// @notice Posts the root over `count` receipts of `pool`, in the caller's own name. A root is worth what its poster is worth.
    function postReceipts(address pool, bytes32 root, uint32 count, bytes32 dataHash) external;

    /// @notice Seconds in which a posted receipt may be challenged.
    function challengeWindow() external view returns (uint64);

    /// @notice All zero when not posted.
    function batchOf(address pool, address poster, bytes32 root) external view returns (Batch memory);

    /// @notice Whether `receipt` is in the posted batch: leaf = keccak256(0x00 || structHash), node = keccak256(0x01 || left || right), odd nodes are carried up.
    function isAttested(
        address pool,
        address poster,
        bytes32 root,
        Receipt calldata receipt,
        uint256 index,
        bytes32[] calldata proof
    ) external view returns (bool);

    /// @notice Digest that the worker's operator key signs.
    function receiptDigest(Receipt calldata receipt) external view returns (bytes32);
}
