"""Whether this worker serves a lease: what can be told from the signed offer and request alone."""

from __future__ import annotations

from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Bytes32, lease_id
from millpond.protocol.link import Desired
from millpond.protocol.messages import VoucherNote
from millpond.protocol.signed import Voucher
from millpond.protocol.signing import Domain, recover
from millpond_worker.machine.model import LeaseRow, Terms


def offer_problem(terms: Terms, desired: Desired) -> str:
    """Why the lease is none of this worker's, empty when it is. A lease that passes is bound to its id, offer and request."""
    offer = desired.offer.offer
    if offer.controller != terms.controller:
        return f"the offer is for the pool {offer.controller}"
    if offer.device not in terms.devices:
        return f"the device {offer.device} is not one of this worker's"
    try:
        expected = _lease_id(terms, desired)
        signer = recover(offer, Domain(terms.chain_id, terms.controller), desired.offer.signature)
    except MillpondError as error:
        return error.message
    if desired.lease != expected:
        return f"the lease of this offer and request is {expected}"
    return "" if signer == terms.operator else f"the offer is signed by {signer}"


def request_problem(terms: Terms, desired: Desired) -> str:
    """Why the request's signature does not prove the renter's will; a contract's signature only the chain can judge."""
    request = desired.request.request
    try:
        signer = recover(request, Domain(terms.chain_id, terms.escrow), desired.request.signature)
    except MillpondError as error:
        return error.message
    return "" if signer == request.renter else f"the request is signed by {signer}"


def renter_problem(terms: Terms, desired: Desired) -> str:
    """Why this worker's launcher refuses the renter."""
    renter = desired.request.request.renter
    if terms.allow_renters is not None and renter not in terms.allow_renters:
        return f"this worker runs processes without isolation and serves only its allow-list, not {renter}"
    return ""


def policy_problem(terms: Terms, desired: Desired, now: int, is_open_on_chain: bool) -> str:
    """Why the provider does not want the lease. One that is open on chain was offered within the hours, and is kept."""
    policy, offer = terms.policy, desired.offer.offer
    problem = policy.renter_problem(desired.request.request.renter) or policy.image_problem(desired.image)
    if problem or is_open_on_chain:
        return problem
    return policy.hours_problem(now) or policy.price_problem(offer.pricePerSecond, offer.share)


def voucher_problem(terms: Terms, row: LeaseRow, note: VoucherNote) -> str:
    """Why the voucher pays nothing: not signed by the session key the renter named."""
    try:
        signer = recover(Voucher(note.lease, note.cumulative), Domain(terms.chain_id, terms.escrow), note.signature)
    except MillpondError as error:
        return error.message
    expected = row.request.request.voucherSigner
    return "" if signer == expected else f"the voucher is signed by {signer}, not by {expected}"


def _lease_id(terms: Terms, desired: Desired) -> Bytes32:
    offer, request = desired.offer.offer, desired.request.request
    return lease_id(terms.chain_id, terms.controller, offer.struct_hash(), request.struct_hash())
