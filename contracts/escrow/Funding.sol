// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IEscrow} from "../interfaces/IEscrow.sol";
import {LeaseIds} from "../libraries/LeaseIds.sol";
import {Limits} from "../libraries/Limits.sol";
import {Signatures} from "../libraries/Signatures.sol";
import {Request, Signed} from "../types/Signed.sol";
import {LeaseBook} from "./LeaseBook.sol";

/// @title How a renter's signed request becomes an earmark.
abstract contract Funding is LeaseBook, EIP712 {
    using SafeCast for uint256;
    using Signed for Request;

    uint256 public constant MOST_REPLACEMENTS = 32;

    /// @inheritdoc IEscrow
    function openLease(Request memory request, bytes calldata signature, LeaseTerms memory terms)
        public
        nonReentrant
        returns (bytes32 lease)
    {
        require(request.controller == msg.sender, EscrowWrongController(msg.sender, request.controller));
        uint256 depositSeconds = _fixTerms().depositSeconds;
        _checkRequest(request, terms, depositSeconds);
        _checkTerms(terms);
        bytes32 requestHash = request.hash();
        bool isSigned = Signatures.isValid(request.renter, _hashTypedDataV4(requestHash), signature);
        require(isSigned, EscrowBadRequestSignature(request.renter));

        lease = LeaseIds.compute(msg.sender, terms.offer, requestHash);
        LeaseRecord storage record = _leases[msg.sender][lease];
        uint256 earmark = uint256(terms.pricePerSecond) * (terms.duration + depositSeconds);
        if (request.replacements == 0) _useNonce(request.renter, request.nonce);
        else _joinGroup(lease, record, requestHash, request, earmark);
        _fund(lease, record, request, terms, earmark);
    }

    /// @inheritdoc IEscrow
    function endRequest(bytes32 requestHash) external {
        GroupRecord storage group = _groups[requestHash];
        require(msg.sender == group.renter, EscrowNotRenter(msg.sender, group.renter));
        group.opened = ENDED;

        emit RequestEnded(msg.sender, requestHash);
    }

    /// @inheritdoc IEscrow
    function requestDigest(Request memory request) public view returns (bytes32) {
        return _hashTypedDataV4(request.hash());
    }

    function _checkRequest(Request memory request, LeaseTerms memory terms, uint256 depositSeconds) private view {
        require(block.timestamp < request.deadline, EscrowRequestExpired(request.deadline, block.timestamp));
        require(
            request.offer == terms.offer || request.offer == bytes32(0),
            EscrowOfferNotRequested(terms.offer, request.offer)
        );
        require(
            terms.pricePerSecond <= request.maxPricePerSecond,
            EscrowPriceAboveRequest(terms.pricePerSecond, request.maxPricePerSecond)
        );
        require(terms.duration <= request.duration, EscrowDurationAboveRequest(terms.duration, request.duration));
        require(
            depositSeconds <= request.depositSeconds, EscrowDepositAboveRequest(depositSeconds, request.depositSeconds)
        );
        require(request.voucherSigner != address(0), EscrowZeroAddress());
    }

    function _checkTerms(LeaseTerms memory terms) private pure {
        require(terms.payee != address(0), EscrowZeroAddress());
        _checkTerm("duration", terms.duration, 1, Limits.MAX_LEASE_DURATION);
        _checkTerm("pricePerSecond", terms.pricePerSecond, 0, type(uint64).max);
    }

    /// @dev The first lease of a group uses the nonce up; each of the others is one of `replacements`.
    function _joinGroup(
        bytes32 lease,
        LeaseRecord storage record,
        bytes32 requestHash,
        Request memory request,
        uint256 earmark
    ) private {
        _checkTerm("replacements", request.replacements, 1, MOST_REPLACEMENTS);
        require(record.payer == 0, EscrowLeaseExists(lease));
        GroupRecord storage group = _groups[requestHash];
        uint256 opened = group.opened;
        require(opened <= request.replacements, EscrowReplacementsUsed(requestHash, opened, request.replacements));
        uint256 held = group.held + earmark;
        require(held <= request.spendCap, EscrowSpendAboveCap(held, request.spendCap));

        if (opened == 0) {
            _useNonce(request.renter, request.nonce);
            group.renter = request.renter;
        }
        group.opened = (opened + 1).toUint8();
        group.held = held.toUint88();
        record.marks = GROUPED;
        record.group = requestHash;

        emit LeaseGrouped(requestHash, lease, opened + 1, held);
    }

    function _fund(
        bytes32 lease,
        LeaseRecord storage record,
        Request memory request,
        LeaseTerms memory terms,
        uint256 earmark
    ) private {
        uint16 tokenId = _tokenIds[request.token];
        Account storage account = _accounts[tokenId][request.renter];
        uint256 available = account.free;
        require(available >= earmark, EscrowInsufficientFree(available, earmark));

        account.free = (available - earmark).toUint88();
        _write(record, _idOf(account, tokenId, request.renter), request.voucherSigner, terms);

        emit LeaseFunded(
            msg.sender, lease, request.renter, request.token, earmark, terms, request.voucherSigner, request.nonce
        );
    }

    function _write(LeaseRecord storage record, uint256 payer, address voucherSigner, LeaseTerms memory terms) private {
        record.voucherSigner = voucherSigner;
        record.payee = _enrol(terms.payee);
        record.payer = payer.toUint32();
        record.pricePerSecond = uint256(terms.pricePerSecond).toUint64();
        record.openedAt = block.timestamp.toUint32();
        record.duration = uint256(terms.duration).toUint24();
    }

    function _enrol(address payee) private returns (bytes10 stem) {
        // The roster knows the rest.
        // forge-lint: disable-next-line(unsafe-typecast)
        stem = bytes10(uint80(uint160(payee)));
        address known = _payees[stem];
        if (known == payee) return stem;
        require(known == address(0), EscrowPayeeClash(payee, known));
        _payees[stem] = payee;
    }
}
