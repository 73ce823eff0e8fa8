// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IAttestations} from "../../contracts/interfaces/IAttestations.sol";
import {IController} from "../../contracts/interfaces/IController.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Offer, Receipt, Request, Signed, Voucher} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

/// @notice Solidity's hashes against those of Python and eth-account, and every field of every signed type flipped.
contract SignedTest is Fixture {
    using Signed for Offer;
    using Signed for Request;
    using Signed for Voucher;
    using Signed for Receipt;

    string private _json;
    address private _contract;

    function setUp() public override {
        super.setUp();
        _json = vm.readFile("tests/vectors/eip712.json");
        _contract = vm.parseJsonAddress(_json, ".contract");
        vm.chainId(vm.parseJsonUint(_json, ".chainId"));
    }

    /* AGAINST PYTHON */

    function test_C28_typeHashes_allTypes_equalPython() public view {
        vm.assertEq(Signed.OFFER_TYPEHASH, vm.parseJsonBytes32(_json, ".typeHashes.Offer"));
        vm.assertEq(Signed.REQUEST_TYPEHASH, vm.parseJsonBytes32(_json, ".typeHashes.Request"));
        vm.assertEq(Signed.VOUCHER_TYPEHASH, vm.parseJsonBytes32(_json, ".typeHashes.Voucher"));
        vm.assertEq(Signed.RECEIPT_TYPEHASH, vm.parseJsonBytes32(_json, ".typeHashes.Receipt"));
    }

    function test_C28_offerDigest_everyVector_equalsPython() public {
        vm.etch(_contract, address(implementation).code);
        for (uint256 i; i < _count(); ++i) {
            Offer memory offer = abi.decode(_encoded("Offer", i), (Offer));
            vm.assertEq(offer.hash(), _field("Offer", i, "structHash"));
            vm.assertEq(IController(_contract).offerDigest(offer), _field("Offer", i, "digest"));
        }
    }

    function test_C28_requestDigest_everyVector_equalsPython() public {
        vm.etch(_contract, address(escrow).code);
        for (uint256 i; i < _count(); ++i) {
            Request memory request = abi.decode(_encoded("Request", i), (Request));
            vm.assertEq(request.hash(), _field("Request", i, "structHash"));
            vm.assertEq(IEscrow(_contract).requestDigest(request), _field("Request", i, "digest"));
        }
    }

    function test_C28_voucherDigest_everyVector_equalsPython() public {
        vm.etch(_contract, address(escrow).code);
        for (uint256 i; i < _count(); ++i) {
            Voucher memory voucher = abi.decode(_encoded("Voucher", i), (Voucher));
            vm.assertEq(voucher.hash(), _field("Voucher", i, "structHash"));
            bytes32 digest = IEscrow(_contract).voucherDigest(voucher.lease, voucher.cumulative);
            vm.assertEq(digest, _field("Voucher", i, "digest"));
        }
    }

    function test_C28_receiptDigest_everyVector_equalsPython() public {
        vm.etch(_contract, address(attestations).code);
        for (uint256 i; i < _count(); ++i) {
            Receipt memory receipt = abi.decode(_encoded("Receipt", i), (Receipt));
            vm.assertEq(receipt.hash(), _field("Receipt", i, "structHash"));
            vm.assertEq(IAttestations(_contract).receiptDigest(receipt), _field("Receipt", i, "digest"));
        }
    }

    /* EVERY FIELD COUNTS */

    function testFuzz_C28_offerHash_anyFieldFlipped_differs(Offer memory offer) public pure {
        bytes memory encoded = abi.encode(offer);
        vm.assertEq(offer.hash(), _plainHash(Signed.OFFER_TYPEHASH, encoded));
        for (uint256 word; word < encoded.length / 32; ++word) {
            vm.assertNotEq(abi.decode(_flipped(encoded, word), (Offer)).hash(), offer.hash());
        }
    }

    function testFuzz_C28_requestHash_anyFieldFlipped_differs(Request memory request) public pure {
        bytes memory encoded = abi.encode(request);
        vm.assertEq(request.hash(), _plainHash(Signed.REQUEST_TYPEHASH, encoded));
        for (uint256 word; word < encoded.length / 32; ++word) {
            vm.assertNotEq(abi.decode(_flipped(encoded, word), (Request)).hash(), request.hash());
        }
    }

    function testFuzz_C28_voucherHash_anyFieldFlipped_differs(Voucher memory voucher) public pure {
        bytes memory encoded = abi.encode(voucher);
        vm.assertEq(voucher.hash(), _plainHash(Signed.VOUCHER_TYPEHASH, encoded));
        for (uint256 word; word < encoded.length / 32; ++word) {
            vm.assertNotEq(abi.decode(_flipped(encoded, word), (Voucher)).hash(), voucher.hash());
        }
    }

    function testFuzz_C28_receiptHash_anyFieldFlipped_differs(Receipt memory receipt) public pure {
        bytes memory encoded = abi.encode(receipt);
        vm.assertEq(receipt.hash(), _plainHash(Signed.RECEIPT_TYPEHASH, encoded));
        for (uint256 word; word < encoded.length / 32; ++word) {
            vm.assertNotEq(abi.decode(_flipped(encoded, word), (Receipt)).hash(), receipt.hash());
        }
    }

    /* DOMAINS */

    function test_C27_offerDigest_twoClones_differ() public {
        Offer memory offer = _offer();
        vm.assertNotEq(pool.offerDigest(offer), _createPool("other").offerDigest(offer));
        vm.assertNotEq(pool.offerDigest(offer), implementation.offerDigest(offer));
    }

    function test_C27_digests_chainForked_differ() public {
        Request memory request = _request();
        bytes32 offerBefore = pool.offerDigest(_offer());
        bytes32 requestBefore = escrow.requestDigest(request);
        vm.chainId(4242);
        vm.assertNotEq(pool.offerDigest(_offer()), offerBefore);
        vm.assertNotEq(escrow.requestDigest(request), requestBefore);
    }

    /* HELPERS */

    function _plainHash(bytes32 typeHash, bytes memory encoded) private pure returns (bytes32) {
        return keccak256(bytes.concat(typeHash, encoded));
    }

    /// @dev The lowest bit of a word belongs to the field whatever its width.
    function _flipped(bytes memory encoded, uint256 word) private pure returns (bytes memory copy) {
        copy = bytes.concat(encoded);
        copy[word * 32 + 31] ^= 0x01;
    }

    function _count() private view returns (uint256) {
        return vm.parseJsonUint(_json, ".count");
    }

    function _key(string memory name, uint256 index, string memory field) private pure returns (string memory) {
        return string.concat(".cases.", name, "[", vm.toString(index), "].", field);
    }

    function _encoded(string memory name, uint256 index) private view returns (bytes memory) {
        return vm.parseJsonBytes(_json, _key(name, index, "encoded"));
    }

    function _field(string memory name, uint256 index, string memory field) private view returns (bytes32) {
        return vm.parseJsonBytes32(_json, _key(name, index, field));
    }
}
