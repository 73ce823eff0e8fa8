// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IAttestations} from "./interfaces/IAttestations.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {Receipt, Signed} from "./types/Signed.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title Merkle roots of signed receipts, each with its challenge deadline.
contract Attestations is IAttestations, EIP712 {
    using Signed for Receipt;

    uint64 internal constant MIN_WINDOW = 1 days;
    uint64 internal constant MAX_WINDOW = 90 days;

    uint64 public immutable override challengeWindow;

    mapping(bytes32 key => Batch) private _batches;

    constructor(uint64 challengeWindow_) EIP712("Millpond", "1") {
        require(challengeWindow_ >= MIN_WINDOW, AttestationsBadWindow(challengeWindow_, MIN_WINDOW));
        require(challengeWindow_ <= MAX_WINDOW, AttestationsBadWindow(challengeWindow_, MAX_WINDOW));
        challengeWindow = challengeWindow_;
    }

    /// @inheritdoc IAttestations
    function postReceipts(address pool, bytes32 root, uint32 count, bytes32 dataHash) external {
        require(root != 0 && count != 0, AttestationsEmpty());
        Batch storage batch = _batches[_keyOf(pool, msg.sender, root)];
        require(batch.count == 0, AttestationsPosted(root));

        uint64 until = uint64(block.timestamp) + challengeWindow;
        batch.postedAt = uint64(block.timestamp);
        batch.challengeableUntil = until;
        batch.count = count;

        emit ReceiptsPosted(pool, msg.sender, root, count, dataHash, until);
    }

    /// @inheritdoc IAttestations
    function batchOf(address pool, address poster, bytes32 root) public view returns (Batch memory) {
        return _batches[_keyOf(pool, poster, root)];
    }

    /// @inheritdoc IAttestations
    function isAttested(
        address pool,
        address poster,
        bytes32 root,
        Receipt calldata receipt,
        uint256 index,
        bytes32[] calldata proof
    ) external view returns (bool) {
        uint32 count = batchOf(pool, poster, root).count;
        return count != 0 && Merkle.rootOf(receipt.hash(), index, count, proof) == root;
    }

    /// @inheritdoc IAttestations
    function receiptDigest(Receipt calldata receipt) external view returns (bytes32) {
        return _hashTypedDataV4(receipt.hash());
    }

    function _keyOf(address pool, address poster, bytes32 root) private pure returns (bytes32) {
        return keccak256(abi.encode(pool, poster, root));
    }
}
