// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../../contracts/interfaces/IController.sol";
import {IDevices} from "../../contracts/interfaces/IDevices.sol";
import {IEscrow} from "../../contracts/interfaces/IEscrow.sol";
import {IStaking} from "../../contracts/interfaces/IStaking.sol";
import {MockWallet} from "../../contracts/mocks/MockWallet.sol";
import {Offer, Request, Signed} from "../../contracts/types/Signed.sol";
import {Fixture} from "./Fixture.sol";

contract ControllerOpeningTest is Fixture {
    /* WHAT OPENING DOES */

    function test_openLease_signedPair_recordsReservesAndEarmarks() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        bytes32 expected = keccak256(abi.encode(block.chainid, address(pool), Signed.hash(offer), Signed.hash(request)));
        uint256 unreserved = staking.unreserved(address(pool), provider);
        bytes32 lease = _open(offer, request);

        vm.assertEq(lease, expected);
        vm.assertEq(lease, pool.leaseId(Signed.hash(offer), Signed.hash(request)));
        _assertRecord(lease, offer);
        vm.assertEq(pool.liveLeases(renter, device), 0);
        vm.assertEq(unreserved - staking.unreserved(address(pool), provider), uint256(PRICE) * DURATION);
        vm.assertEq(devices.deviceOf(device).usedShare, 250);
        vm.assertEq(devices.deviceOf(device).usedMemoryMiB, 4096);
        vm.assertEq(devices.deviceOf(device).latestEnd, block.timestamp + DURATION);
        vm.assertEq(escrow.free(address(token), renter), FUNDS - uint256(PRICE) * (DURATION + 900));
        _assertAccount(escrow.leaseAccount(address(pool), lease));
    }

    function test_openLease_signedPair_emitsLeaseOpened() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        (bytes32 offerHash, bytes32 requestHash) = (Signed.hash(offer), Signed.hash(request));
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        vm.expectEmit(address(pool));
        emit IController.LeaseOpened(
            pool.leaseId(offerHash, requestHash),
            device,
            renter,
            requestHash,
            block.timestamp,
            block.timestamp + DURATION,
            offer
        );
        vm.prank(node);
        pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function _assertRecord(bytes32 lease, Offer memory offer) private view {
        IController.Lease memory record = pool.leaseOf(lease);
        vm.assertEq(record.device, device);
        vm.assertEq(record.share, offer.share);
        vm.assertEq(record.memoryMiB, offer.memoryMiB);
        vm.assertEq(record.notice, offer.notice);
        vm.assertTrue(record.status == IController.LeaseStatus.Open);
        vm.assertEq(record.noticeEndsAt, 0);
        vm.assertEq(record.closedAt, 0);
        vm.assertEq(record.exposure, uint256(PRICE) * DURATION);
        vm.assertEq(record.demandedAt, 0);
    }

    function _assertAccount(IEscrow.LeaseAccount memory account) private view {
        vm.assertEq(account.payer, renter);
        vm.assertEq(account.payee, payout);
        vm.assertEq(account.voucherSigner, session);
        vm.assertEq(account.pricePerSecond, PRICE);
        vm.assertEq(account.duration, DURATION);
        vm.assertEq(account.depositSeconds, 900);
        vm.assertEq(account.feePpm, 20_000);
        vm.assertEq(account.burnPpm, 5000);
        vm.assertEq(account.claimWindow, 1 days);
        vm.assertEq(escrow.termsOf(address(pool)).treasury, treasury);
    }

    function test_openLease_unequalSlices_untilDeviceIsFull() public {
        Offer memory large = _offer();
        large.share = 600;
        large.memoryMiB = 16_384;
        _open(large, _request());
        _open(_offer(), _request());

        _refuse(_offer(), _request(), abi.encodeWithSelector(IDevices.DevicesShareFull.selector, 150, 250));
        Offer memory fat = _offer();
        fat.share = 100;
        fat.memoryMiB = 4097;
        Request memory request = _request();
        request.share = 100;
        _refuse(fat, request, abi.encodeWithSelector(IDevices.DevicesMemoryFull.selector, 4096, 4097));
    }

    function test_openLease_exposureNotWhole_roundsUp() public {
        IController.PoolParams memory params = _params();
        params.exposurePpm = 333_333;
        params.minProvision = 0;
        vm.prank(poolOwner);
        pool = IController(factory.createPool("thin", node, params));
        _stake(pool, STAKE);
        vm.prank(provider);
        devices.leave(device);
        _join(device, pool);

        Offer memory offer = _offer();
        offer.pricePerSecond = 1;
        Request memory request = _request();
        request.duration = 61;
        // 61 * 333,333 / 1e6 = 20.33...
        vm.assertEq(pool.leaseOf(_open(offer, request)).exposure, 21);
    }

    function test_openLease_noExposureAsked_reservesNoStake() public {
        IController.PoolParams memory params = _params();
        params.exposurePpm = 0;
        params.minProvision = 0;
        vm.prank(poolOwner);
        pool = IController(factory.createPool("bare", node, params));
        vm.prank(provider);
        devices.leave(device);
        _join(device, pool);

        bytes32 lease = _open();
        vm.assertEq(pool.leaseOf(lease).exposure, 0);
        _close(lease);
        _skip(3 days);
        pool.releaseExposure(lease);
        vm.assertTrue(pool.leaseOf(lease).status == IController.LeaseStatus.Released);
    }

    function test_openLease_noticeBeyondDuration_isCappedToIt() public {
        Offer memory offer = _offer();
        offer.notice = type(uint32).max;
        vm.assertEq(pool.leaseOf(_open(offer, _request())).notice, DURATION);
    }

    function test_C30_openLease_operatorIsContractWallet_opens() public {
        vm.startPrank(provider);
        devices.setOperator(address(new MockWallet(vm.addr(OPERATOR_KEY))));
        vm.stopPrank();
        vm.assertTrue(pool.leaseOf(_open()).status == IController.LeaseStatus.Open);
    }

    /* OFFER */

    function test_C27_openLease_offerOfOtherPool_reverts() public {
        IController other = _createPool("other");
        Offer memory offer = _offer();
        offer.controller = address(other);
        _refuse(
            offer,
            _request(),
            abi.encodeWithSelector(IController.ControllerWrongController.selector, address(other), address(pool))
        );
    }

    function test_C27_openLease_offerSignedForOtherCloneOrChain_reverts() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        bytes memory elsewhere = _sign(OPERATOR_KEY, _createPool("other").offerDigest(offer));
        _expectBadOffer(offer, elsewhere, request);

        bytes memory here = _signOffer(offer);
        vm.chainId(4242);
        _expectBadOffer(offer, here, request);
    }

    function test_openLease_offerDeadlinePassed_reverts() public {
        Offer memory offer = _offer();
        offer.deadline = uint64(block.timestamp);
        _refuse(
            offer,
            _request(),
            abi.encodeWithSelector(IController.ControllerOfferExpired.selector, block.timestamp, block.timestamp)
        );
        offer.deadline += 1;
        _open(offer, _request());
    }

    function test_D17_openLease_offerDeadlineTooFar_reverts() public {
        Offer memory offer = _offer();
        uint256 latest = block.timestamp + 1 hours;
        offer.deadline = uint64(latest + 1);
        _refuse(
            offer, _request(), abi.encodeWithSelector(IController.ControllerOfferTooFar.selector, latest + 1, latest)
        );
        offer.deadline -= 1;
        _open(offer, _request());
    }

    function test_D17_openLease_offerCancelled_reverts() public {
        Offer memory offer = _offer();
        vm.prank(operator);
        devices.cancelOffers(device);
        _refuse(offer, _request(), abi.encodeWithSelector(IController.ControllerOfferCancelled.selector, 0, 1));
        offer.epoch = 2;
        _refuse(offer, _request(), abi.encodeWithSelector(IController.ControllerOfferCancelled.selector, 2, 1));
        _open();
    }

    function test_openLease_deviceElsewhere_reverts() public {
        Offer memory offer = _offer();
        vm.prank(provider);
        devices.leave(device);
        _refuse(
            offer, _request(), abi.encodeWithSelector(IController.ControllerDeviceNotHere.selector, device, address(0))
        );

        IController other = _createPool("other");
        _stake(other, STAKE);
        _join(device, other);
        _refuse(
            offer,
            _request(),
            abi.encodeWithSelector(IController.ControllerDeviceNotHere.selector, device, address(other))
        );
    }

    function test_openLease_deviceUnknown_reverts() public {
        Offer memory offer = _offer();
        offer.device = "none";
        _refuse(offer, _request(), abi.encodeWithSelector(IDevices.DevicesDeviceUnknown.selector, bytes32("none")));
    }

    function test_openLease_deviceDraining_reverts() public {
        vm.prank(provider);
        devices.setDraining(device, true);
        _refuse(_offer(), _request(), abi.encodeWithSelector(IDevices.DevicesDraining.selector, device));
    }

    function test_C39_openLease_offerOfReplacedOperator_reverts() public {
        Offer memory offer = _offer();
        bytes memory signature = _signOffer(offer);
        vm.prank(provider);
        devices.setOperator(stranger);
        operator = stranger;
        _expectBadOffer(offer, signature, _request());
    }

    function test_C30_openLease_badOfferSignature_reverts() public {
        Offer memory offer = _offer();
        bytes memory good = _signOffer(offer);
        _expectBadOffer(offer, "", _request());
        _expectBadOffer(offer, _highS(good), _request());
        _expectBadOffer(offer, abi.encodePacked(good, bytes1(0)), _request());
        _expectBadOffer(offer, new bytes(65), _request());
        _expectBadOffer(offer, _sign(PROVIDER_KEY, pool.offerDigest(offer)), _request());
        offer.pricePerSecond -= 1;
        _expectBadOffer(offer, good, _request());
    }

    function _expectBadOffer(Offer memory offer, bytes memory signature, Request memory request) private {
        bytes memory requestSignature = _signRequest(request);
        vm.expectRevert(abi.encodeWithSelector(IController.ControllerBadOfferSignature.selector, operator));
        vm.prank(node);
        pool.openLease(offer, signature, request, requestSignature);
    }

    function _highS(bytes memory signature) private pure returns (bytes memory) {
        (bytes32 r, bytes32 s) = abi.decode(signature, (bytes32, bytes32));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes1 v = signature[64] == bytes1(uint8(27)) ? bytes1(uint8(28)) : bytes1(uint8(27));
        return abi.encodePacked(r, order - uint256(s), v);
    }

    /* REQUEST */

    function test_C27_openLease_requestForOtherPool_reverts() public {
        Request memory request = _request();
        request.controller = stranger;
        _refuse(
            _offer(),
            request,
            abi.encodeWithSelector(IController.ControllerWrongController.selector, stranger, address(pool))
        );
    }

    function test_openLease_otherToken_reverts() public {
        Request memory request = _request();
        request.token = stranger;
        _refuse(
            _offer(),
            request,
            abi.encodeWithSelector(IController.ControllerWrongToken.selector, stranger, address(token))
        );
    }

    function test_D09_openLease_otherOfferThanRequested_reverts() public {
        Offer memory wanted = _offer();
        Offer memory other = _offer();
        other.notice = 0;
        Request memory request = _request();
        request.offer = Signed.hash(wanted);
        _refuse(
            other,
            request,
            abi.encodeWithSelector(
                IController.ControllerOfferNotRequested.selector, Signed.hash(other), Signed.hash(wanted)
            )
        );
        _open(wanted, request);
    }

    function test_D09_openLease_anyoneWithoutOffer_reverts() public {
        Request memory request = _request();
        request.submitter = address(0);
        _refuse(
            _offer(),
            request,
            abi.encodeWithSelector(IController.ControllerSubmitterNotAllowed.selector, stranger, address(0)),
            stranger
        );
    }

    function test_C29_openLease_notTheSubmitter_reverts() public {
        bytes memory error = abi.encodeWithSelector(IController.ControllerSubmitterNotAllowed.selector, stranger, node);
        Offer memory offer = _offer();
        Request memory request = _request();
        _refuse(offer, request, error, stranger);
        request.offer = Signed.hash(offer);
        _refuse(offer, request, error, stranger);
    }

    function test_openLease_anyoneWithOffer_opens() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        request.offer = Signed.hash(offer);
        request.submitter = address(0);
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _signRequest(request);
        vm.prank(stranger);
        pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function test_C29_openLease_cancelledOrUsedNonce_reverts() public {
        Request memory request = _request();
        vm.prank(renter);
        escrow.cancelRequest(request.nonce);
        bytes memory error = abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, request.nonce);
        _refuse(_offer(), request, error);

        request = _request();
        _open(_offer(), request);
        error = abi.encodeWithSelector(IEscrow.EscrowNonceUsed.selector, renter, request.nonce);
        _refuse(_offer(), request, error);
    }

    function test_openLease_requestSignedByOther_reverts() public {
        Offer memory offer = _offer();
        Request memory request = _request();
        bytes memory offerSignature = _signOffer(offer);
        bytes memory requestSignature = _sign(SESSION_KEY, escrow.requestDigest(request));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.EscrowBadRequestSignature.selector, renter));
        vm.prank(node);
        pool.openLease(offer, offerSignature, request, requestSignature);
    }

    function test_openLease_priceAboveRequest_reverts() public {
        Offer memory offer = _offer();
        offer.pricePerSecond += 1;
        _refuse(
            offer,
            _request(),
            abi.encodeWithSelector(IEscrow.EscrowPriceAboveRequest.selector, offer.pricePerSecond, PRICE)
        );
    }

    /* FIT */

    function test_openLease_lessThanRequested_reverts() public {
        Request memory request = _request();
        request.share = 251;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerShareBelow.selector, 250, 251));
        request = _request();
        request.memoryMiB = 4097;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerMemoryBelow.selector, 4096, 4097));
        request = _request();
        request.isolation = 2;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerIsolationBelow.selector, 1, 2));
    }

    function test_openLease_lessHostThanRequested_reverts() public {
        Request memory request = _request();
        request.cpuMilli = 2001;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerHostBelow.selector, 2000, 2001));
        request = _request();
        request.ramMiB = 8193;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerHostBelow.selector, 8192, 8193));
        request = _request();
        request.diskMiB = 16_385;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerHostBelow.selector, 16_384, 16_385));
    }

    function test_openLease_exactlyWhatIsOffered_opens() public {
        Request memory request = _request();
        request.cpuMilli = 2000;
        request.ramMiB = 8192;
        request.diskMiB = 16_384;
        request.duration = 1 days;
        _open(_offer(), request);
    }

    function test_openLease_durationOutside_reverts() public {
        Request memory request = _request();
        request.duration = 59;
        _refuse(_offer(), request, abi.encodeWithSelector(IController.ControllerDurationOutside.selector, 59, 1 days));
        request.duration = 1 days + 1;
        _refuse(
            _offer(),
            request,
            abi.encodeWithSelector(IController.ControllerDurationOutside.selector, 1 days + 1, 1 days)
        );
        Offer memory longer = _offer();
        longer.maxDuration = type(uint32).max;
        request.duration = 7 days + 1;
        _refuse(
            longer, request, abi.encodeWithSelector(IController.ControllerDurationOutside.selector, 7 days + 1, 7 days)
        );
    }

    function test_openLease_renterAtCap_revertsUntilOneCloses() public {
        Offer memory offer = _offer();
        offer.capPerRenter = 1;
        _open();
        bytes32 lease = _open(offer, _request());
        vm.assertEq(pool.liveLeases(renter, device), 1);
        _refuse(offer, _request(), abi.encodeWithSelector(IController.ControllerRenterAtCap.selector, renter, 1));
        _close(lease);
        vm.assertEq(pool.liveLeases(renter, device), 0);
        _open(offer, _request());
    }

    function test_D15_openLease_stakeExhausted_revertsWithAmounts() public {
        uint256 exposure = uint256(PRICE) * DURATION;
        uint256 unreserved = staking.unreserved(address(pool), provider);
        vm.prank(provider);
        staking.thaw(address(pool), unreserved - 2 * exposure + 1);
        _open();
        _refuse(
            _offer(),
            _request(),
            abi.encodeWithSelector(IStaking.StakingInsufficientUnreserved.selector, exposure - 1, exposure)
        );
    }
}
