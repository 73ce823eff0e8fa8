// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Attestations} from "../../contracts/Attestations.sol";
import {IAttestations} from "../../contracts/interfaces/IAttestations.sol";
import {Receipt, Signed} from "../../contracts/types/Signed.sol";
import {ForgeTest} from "./Vm.sol";

contract AttestationsTest is ForgeTest {
    address private constant POOL = address(0x0111);
    address private constant POSTER = address(0x0222);
    bytes32 private constant ROOT = keccak256("root");

    Attestations private attestations;

    function setUp() public {
        vm.warp(1_800_000_000);
        attestations = new Attestations(7 days);
    }

    /* POSTING */

    function test_postReceipts_any_keepsBatchAndEmits() public {
        vm.expectEmit(address(attestations));
        emit IAttestations.ReceiptsPosted(POOL, POSTER, ROOT, 24, "data", block.timestamp + 7 days);
        vm.prank(POSTER);
        attestations.postReceipts(POOL, ROOT, 24, "data");

        IAttestations.Batch memory batch = attestations.batchOf(POOL, POSTER, ROOT);
        vm.assertEq(batch.postedAt, block.timestamp);
        vm.assertEq(batch.challengeableUntil, block.timestamp + 7 days);
        vm.assertEq(batch.count, 24);
        vm.assertEq(attestations.challengeWindow(), 7 days);
    }

    function test_postReceipts_again_revertsAndKeepsDeadline() public {
        vm.startPrank(POSTER);
        attestations.postReceipts(POOL, ROOT, 24, 0);
        vm.warp(block.timestamp + 1 days);
        vm.expectRevert(abi.encodeWithSelector(IAttestations.AttestationsPosted.selector, ROOT));
        attestations.postReceipts(POOL, ROOT, 25, 0);
        vm.assertEq(attestations.batchOf(POOL, POSTER, ROOT).count, 24);
    }

    /// @dev Nobody can take another's root, nor the deadline with it.
    function test_C26_postReceipts_sameRootOfOther_isApart() public {
        vm.prank(address(0x0333));
        attestations.postReceipts(POOL, ROOT, 1, 0);
        vm.assertEq(attestations.batchOf(POOL, POSTER, ROOT).count, 0);
        vm.prank(POSTER);
        attestations.postReceipts(POOL, ROOT, 24, 0);
        vm.assertEq(attestations.batchOf(POOL, POSTER, ROOT).count, 24);
        vm.assertEq(attestations.batchOf(address(1), POSTER, ROOT).count, 0);
    }

    function test_postReceipts_empty_reverts() public {
        vm.expectRevert(IAttestations.AttestationsEmpty.selector);
        attestations.postReceipts(POOL, 0, 1, 0);
        vm.expectRevert(IAttestations.AttestationsEmpty.selector);
        attestations.postReceipts(POOL, ROOT, 0, 0);
    }

    function test_C46_constructor_windowOutside_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IAttestations.AttestationsBadWindow.selector, 1 days - 1, 1 days));
        new Attestations(1 days - 1);
        vm.expectRevert(abi.encodeWithSelector(IAttestations.AttestationsBadWindow.selector, 90 days + 1, 90 days));
        new Attestations(90 days + 1);
    }

    /* PROOFS */

    /// @dev Every leaf of every tree up to 9 leaves is proved, and only at its place.
    function test_isAttested_everyLeafOfSmallTrees_true() public {
        for (uint32 count = 1; count <= 9; ++count) {
            bytes32[] memory leaves = _leaves(count);
            bytes32 root = _root(leaves);
            vm.prank(POSTER);
            attestations.postReceipts(POOL, root, count, 0);
            for (uint256 index; index < count; ++index) {
                bytes32[] memory proof = _proof(leaves, index);
                vm.assertTrue(_isAttested(root, index, index, proof));
                vm.assertFalse(_isAttested(root, index, index + 1, proof));
                vm.assertFalse(_isAttested(root, index + 1, index, proof));
            }
        }
    }

    function testFuzz_isAttested_changedProof_false(uint32 count, uint256 index, uint256 place, uint8 bit) public {
        count = uint32(bound(count, 2, 40));
        index = bound(index, 0, count - 1);
        bytes32[] memory leaves = _leaves(count);
        bytes32 root = _root(leaves);
        vm.prank(POSTER);
        attestations.postReceipts(POOL, root, count, 0);

        bytes32[] memory proof = _proof(leaves, index);
        vm.assertTrue(_isAttested(root, index, index, proof));
        vm.assertFalse(_isAttested(root, index, index, _resized(proof, proof.length + 1)));
        if (proof.length == 0) return;
        vm.assertFalse(_isAttested(root, index, index, _resized(proof, proof.length - 1)));
        place = bound(place, 0, proof.length - 1);
        proof[place] ^= bytes32(uint256(1) << bit);
        vm.assertFalse(_isAttested(root, index, index, proof));
    }

    function test_isAttested_notPosted_false() public view {
        bytes32[] memory leaves = _leaves(1);
        vm.assertFalse(_isAttested(_root(leaves), 0, 0, new bytes32[](0)));
    }

    function test_isAttested_indexBeyondCount_false() public {
        bytes32 root = _root(_leaves(1));
        vm.prank(POSTER);
        attestations.postReceipts(POOL, root, 1, 0);
        vm.assertFalse(_isAttested(root, 0, 1, new bytes32[](0)));
        vm.assertFalse(_isAttested(root, 0, type(uint256).max, new bytes32[](0)));
    }

    /// @dev Leaves and inner nodes are hashed apart, so an inner node is never a receipt.
    function test_isAttested_innerNodeAsRoot_false() public {
        bytes32[] memory leaves = _leaves(4);
        bytes32 left = keccak256(abi.encodePacked(bytes1(0x01), leaves[0], leaves[1]));
        bytes32 right = keccak256(abi.encodePacked(bytes1(0x01), leaves[2], leaves[3]));
        vm.assertEq(_root(leaves), keccak256(abi.encodePacked(bytes1(0x01), left, right)));
        vm.assertNotEq(_root(leaves), keccak256(abi.encodePacked(bytes1(0x00), left, right)));
    }

    /* DIGEST */

    function test_C27_receiptDigest_otherContractOrChain_differs() public {
        bytes32 here = attestations.receiptDigest(_receipt(0));
        vm.assertNotEq(here, new Attestations(7 days).receiptDigest(_receipt(0)));
        vm.chainId(4242);
        vm.assertNotEq(here, attestations.receiptDigest(_receipt(0)));
    }

    /* HELPERS */

    function _receipt(uint256 number) private pure returns (Receipt memory receipt) {
        receipt.lease = "lease";
        receipt.task = bytes32(number);
        receipt.attempt = 1;
    }

    function _isAttested(bytes32 root, uint256 number, uint256 index, bytes32[] memory proof)
        private
        view
        returns (bool)
    {
        return attestations.isAttested(POOL, POSTER, root, _receipt(number), index, proof);
    }

    function _leaves(uint256 count) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            leaves[i] = keccak256(abi.encodePacked(bytes1(0x00), Signed.hash(_receipt(i))));
        }
    }

    function _above(bytes32[] memory row) private pure returns (bytes32[] memory above) {
        above = new bytes32[]((row.length + 1) / 2);
        for (uint256 i; i < above.length; ++i) {
            bool isPair = 2 * i + 1 < row.length;
            above[i] = isPair ? keccak256(abi.encodePacked(bytes1(0x01), row[2 * i], row[2 * i + 1])) : row[2 * i];
        }
    }

    function _root(bytes32[] memory row) private pure returns (bytes32) {
        while (row.length > 1) row = _above(row);
        return row[0];
    }

    function _proof(bytes32[] memory row, uint256 index) private pure returns (bytes32[] memory proof) {
        proof = new bytes32[](0);
        for (; row.length > 1; row = _above(row)) {
            if (index ^ 1 < row.length) {
                proof = _resized(proof, proof.length + 1);
                proof[proof.length - 1] = row[index ^ 1];
            }
            index /= 2;
        }
    }

    function _resized(bytes32[] memory list, uint256 size) private pure returns (bytes32[] memory copy) {
        copy = new bytes32[](size);
        for (uint256 i; i < size && i < list.length; ++i) {
            copy[i] = list[i];
        }
    }
}
