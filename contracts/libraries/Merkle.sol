// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// @title Merkle trees of receipts: leaf = keccak256(0x00 || hash), node = keccak256(0x01 || left || right), odd nodes carried up.
library Merkle {
    function leaf(bytes32 hash) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(bytes1(0x00), hash));
    }

    /// @notice Root of the tree of `count` leaves that has `hash` at `index` and `proof` beside it, lowest sibling first.
    /// @return root zero when `index` or the length of `proof` does not fit such a tree
    /// @dev At most 32 rounds: `count` halves in each.
    function rootOf(bytes32 hash, uint256 index, uint32 count, bytes32[] calldata proof)
        internal
        pure
        returns (bytes32 root)
    {
        if (index >= count) return 0;
        root = leaf(hash);
        uint256 used;
        for (uint256 width = count; width > 1; width = (width + 1) / 2) {
            bool isCarried = index % 2 == 0 && index + 1 == width;
            if (!isCarried) {
                if (used == proof.length) return 0;
                root = index % 2 == 0 ? _node(root, proof[used]) : _node(proof[used], root);
                ++used;
            }
            index /= 2;
        }
        if (used != proof.length) return 0;
    }

    function _node(bytes32 left, bytes32 right) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(bytes1(0x01), left, right));
    }
}
