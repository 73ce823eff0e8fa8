// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../../contracts/interfaces/IController.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {Offer, Request} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @notice Whatever it is asked, it calls back, and passes on how that failed.
contract CallsBack {
    address private _target;
    bytes private _data;

    function arm(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    fallback() external {
        (bool isDone, bytes memory answer) = _target.call(_data);
        if (isDone) return;
        assembly ("memory-safe") {
            revert(add(answer, 0x20), mload(answer))
        }
    }
}

/// @notice Escrow and Staking turned hostile: each call of a pool that changes something refuses to be entered again.
contract ControllerReentrancyTest is Fixture {
    bytes4 private immutable REENTERED = ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;

    bytes32 private _lease;

    function setUp() public override {
        super.setUp();
        _lease = _open();
    }

    function test_C01_openLease_reentered_reverts() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        _turn(address(escrow), abi.encodeCall(IController.closeLease, (_lease)));
        vm.expectRevert(REENTERED);
        vm.prank(node);
        pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function test_C01_closeLease_reentered_reverts() public {
        _keepAccount();
        _turn(address(escrow), abi.encodeCall(IController.closeLease, (_lease)));
        vm.expectRevert(REENTERED);
        vm.prank(renter);
        pool.closeLease(_lease);
    }

    function test_C01_closeUnpaid_reentered_reverts() public {
        vm.startPrank(operator);
        pool.demandPayment(_lease);
        _skip(900);
        _keepAccount();
        _turn(address(escrow), abi.encodeCall(IController.closeUnpaid, (_lease)));
        vm.expectRevert(REENTERED);
        pool.closeUnpaid(_lease);
    }

    function test_C01_collectFinal_reentered_reverts() public {
        _close(_lease);
        vm.mockCall(address(escrow), abi.encodeWithSelector(IEscrow.collectable.selector), abi.encode(0));
        _turn(address(escrow), abi.encodeCall(IController.collectFinal, (_lease, 0, "")));
        vm.expectRevert(REENTERED);
        vm.prank(operator);
        pool.collectFinal(_lease, 0, "");
    }

    function test_C01_releaseExposure_reentered_reverts() public {
        _close(_lease);
        _skip(3 days);
        _turn(address(staking), abi.encodeCall(IController.releaseExposure, (_lease)));
        vm.expectRevert(REENTERED);
        pool.releaseExposure(_lease);
    }

    function _keepAccount() private {
        bytes memory account = abi.encode(escrow.leaseAccount(address(pool), _lease));
        vm.mockCall(address(escrow), abi.encodeWithSelector(IEscrow.leaseAccount.selector), account);
    }

    function _turn(address singleton, bytes memory data) private {
        vm.etch(singleton, address(new CallsBack()).code);
        CallsBack(singleton).arm(address(pool), data);
    }
}
