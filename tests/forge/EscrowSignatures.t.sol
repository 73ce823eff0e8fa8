// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {Escrow} from "../../contracts/Escrow.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {MockWallet} from "../../contracts/mocks/MockWallet.sol";
import {Request, Signed} from "../../contracts/types/Signed.sol";
import {MoneyBase} from "./MoneyBase.sol";

/// @notice Who signed a request, and what exactly.
contract EscrowSignaturesTest is MoneyBase {
    function setUp() public override {
        super.setUp();
        fund(renter, FUNDS);
    }

    function test_C04_openLease_signedByAnother_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = sign(SESSION_KEY, escrow.requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
    }

    function test_C30_openLease_zeroRenter_reverts() external {
        Request memory request = newRequest(0);
        request.renter = address(0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, address(0)));
        pool.openLease(request, new bytes(65), newTerms());
    }

    function test_C30_openLease_highS_reverts() external {
        Request memory request = newRequest(0);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(RENTER_KEY, escrow.requestDigest(request));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes memory flipped = abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, flipped, newTerms());
    }

    function test_C30_openLease_walletSignsByErc1271() external {
        MockWallet wallet = new MockWallet(renter);
        fund(address(wallet), FUNDS);
        Request memory request = newRequest(0);
        request.renter = address(wallet);
        bytes32 lease = open(request, newTerms());
        vm.assertEq(leaseOf(lease).payer, address(wallet));

        request.nonce = 1;
        bytes memory signature = sign(SESSION_KEY, escrow.requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, address(wallet)));
        pool.openLease(request, signature, newTerms());
    }

    function test_C27_openLease_signedForAnotherChain_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        vm.chainId(99);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
        open(request, newTerms());
    }

    function test_C27_openLease_signedForAnotherEscrow_reverts() external {
        Request memory request = newRequest(0);
        bytes memory signature = sign(RENTER_KEY, new Escrow(tokens, SINK).requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        pool.openLease(request, signature, newTerms());
    }

    /// @dev Every field of the signed request is in its hash.
    function test_C28_openLease_anyFieldChanged_reverts(uint256 field, uint256 flip) external {
        Request memory request = newRequest(0);
        bytes memory signature = signed(request);
        bytes memory words = abi.encode(request);
        field = bound(field, 0, 20);
        uint256 size = fieldBits(field);
        flip = bound(flip, 1, size == 256 ? type(uint256).max : (1 << size) - 1);
        assembly ("memory-safe") {
            let place := add(add(words, 32), mul(field, 32))
            mstore(place, xor(mload(place), flip))
        }
        Request memory changed = abi.decode(words, (Request));
        vm.assertNotEq(escrow.requestDigest(changed), escrow.requestDigest(request));
        vm.expectRevert();
        pool.openLease(changed, signature, newTerms());
    }

    function fieldBits(uint256 field) internal pure returns (uint256) {
        uint16[21] memory bits =
            [160, 160, 160, 256, 160, 8, 16, 32, 32, 32, 32, 80, 32, 16, 160, 8, 256, 64, 256, 8, 128];
        return bits[field];
    }

    /// @dev The opening hashes the request as one word run; the library does it in pieces.
    function test_C28_requestDigest_isThatOfTheLibrary(Request calldata request) external view {
        bytes32 structHash = keccak256(abi.encode(Signed.REQUEST_TYPEHASH, request));
        vm.assertEq(structHash, Signed.hash(request));
        (, string memory name, string memory version, uint256 chain, address verifier,,) = escrow.eip712Domain();
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(version)),
                chain,
                verifier
            )
        );
        vm.assertEq(name, "Millpond");
        vm.assertEq(version, "1");
        vm.assertEq(verifier, address(escrow));
        vm.assertEq(escrow.requestDigest(request), keccak256(abi.encodePacked(hex"1901", domain, structHash)));
    }
}
