// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {IController} from "../interfaces/IController.sol";
import {IDevices} from "../interfaces/IDevices.sol";
import {IEscrow} from "../interfaces/IEscrow.sol";
import {PoolArgs} from "../libraries/PoolArgs.sol";
import {PoolLimits} from "../libraries/PoolLimits.sol";
import {Signatures} from "../libraries/Signatures.sol";
import {Offer, Request, Signed} from "../types/Signed.sol";
import {Leases} from "./Leases.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title How a signed offer and a signed request become a lease.
abstract contract Opening is Leases, EIP712 {
    using Signed for Offer;
    using Signed for Request;
    using SafeCast for uint256;

    /// @inheritdoc IController
    function openLease(
        Offer memory offer,
        bytes calldata offerSignature,
        Request memory request,
        bytes calldata requestSignature
    ) public nonReentrant returns (bytes32 lease) {
        _requireRunning();
        bytes32 offerHash = offer.hash();
        IDevices.Standing memory standing = devices.standingOf(offer.device);
        _checkOffer(offer, offerHash, offerSignature, standing);
        uint256 exposure = _checkRequest(offer, offerHash, request);

        lease = _record(offer, offerHash, request, standing.stint);

        devices.reserve(offer.device, offer.share, offer.memoryMiB, block.timestamp + request.duration);
        if (exposure != 0) staking.reserve(standing.provider, exposure.toUint128());
        IEscrow.LeaseTerms memory terms =
            IEscrow.LeaseTerms(offerHash, standing.payout, offer.pricePerSecond, request.duration);
        escrow.openLease(request, requestSignature, terms);
    }

    /// @inheritdoc IController
    function offerDigest(Offer memory offer) public view returns (bytes32) {
        return _hashTypedDataV4(offer.hash());
    }

    function _checkOffer(
        Offer memory offer,
        bytes32 offerHash,
        bytes calldata signature,
        IDevices.Standing memory standing
    ) private view {
        _requireHere(offer.controller);
        require(block.timestamp < offer.deadline, ControllerOfferExpired(offer.deadline, block.timestamp));
        uint256 latest = block.timestamp + PoolLimits.LONGEST_OFFER;
        require(offer.deadline <= latest, ControllerOfferTooFar(offer.deadline, latest));
        require(standing.pool == address(this), ControllerDeviceNotHere(offer.device, standing.pool));
        require(offer.epoch == standing.offerEpoch, ControllerOfferCancelled(offer.epoch, standing.offerEpoch));
        require(
            Signatures.isValid(standing.operator, _hashTypedDataV4(offerHash), signature),
            ControllerBadOfferSignature(standing.operator)
        );
    }

    /// @dev Returns the stake that the lease reserves.
    function _checkRequest(Offer memory offer, bytes32 offerHash, Request memory request)
        private
        view
        returns (uint256 exposure)
    {
        (address token, uint256 exposurePpm, uint256 maxDuration) = PoolArgs.openingRules();
        _checkConsent(request, offerHash, token);
        _checkFit(offer, request, maxDuration);
        return _exposureOf(offer.pricePerSecond, request.duration, exposurePpm);
    }

    /// @dev The renter's own signature is checked by Escrow.
    function _checkConsent(Request memory request, bytes32 offerHash, address token) private view {
        _requireHere(request.controller);
        require(request.token == token, ControllerWrongToken(request.token, token));
        bool hasOffer = request.offer != 0;
        require(!hasOffer || request.offer == offerHash, ControllerOfferNotRequested(offerHash, request.offer));
        bool isAllowed = request.submitter == msg.sender || (hasOffer && request.submitter == address(0));
        require(isAllowed, ControllerSubmitterNotAllowed(msg.sender, request.submitter));
    }

    function _checkFit(Offer memory offer, Request memory request, uint256 poolLongest) private view {
        require(offer.share >= request.share, ControllerShareBelow(offer.share, request.share));
        require(offer.memoryMiB >= request.memoryMiB, ControllerMemoryBelow(offer.memoryMiB, request.memoryMiB));
        require(offer.cpuMilli >= request.cpuMilli, ControllerHostBelow(offer.cpuMilli, request.cpuMilli));
        require(offer.ramMiB >= request.ramMiB, ControllerHostBelow(offer.ramMiB, request.ramMiB));
        require(offer.diskMiB >= request.diskMiB, ControllerHostBelow(offer.diskMiB, request.diskMiB));
        require(offer.isolation >= request.isolation, ControllerIsolationBelow(offer.isolation, request.isolation));

        uint256 longest = Math.min(offer.maxDuration, poolLongest);
        require(
            request.duration >= PoolLimits.SHORTEST && request.duration <= longest,
            ControllerDurationOutside(request.duration, longest)
        );
        uint256 cap = offer.capPerRenter;
        require(cap == 0 || liveLeases[request.renter][offer.device] < cap, ControllerRenterAtCap(request.renter, cap));
    }

    function _requireHere(address controller) private view {
        require(controller == address(this), ControllerWrongController(controller, address(this)));
    }

    function _record(Offer memory offer, bytes32 offerHash, Request memory request, uint16 stint)
        private
        returns (bytes32 lease)
    {
        bytes32 requestHash = request.hash();
        lease = leaseId(offerHash, requestHash);
        bool isCounted = offer.capPerRenter != 0;
        LeaseRecord storage record = _leases[lease];
        record.device = _stem(offer.device);
        record.isCounted = isCounted;
        record.share = offer.share;
        record.memoryMiB = offer.memoryMiB;
        record.notice = Math.min(offer.notice, request.duration).toUint24();
        record.status = LeaseStatus.Open;
        record.stint = stint;
        if (isCounted) ++liveLeases[request.renter][offer.device];

        uint256 endsAt = block.timestamp + request.duration;
        emit LeaseOpened(lease, offer.device, request.renter, requestHash, block.timestamp, endsAt, offer);
    }
}
