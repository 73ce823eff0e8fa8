"""The signature of an HTTP request: an EIP-712 `Envelope` in four headers. Identity is the recovered signer and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.protocol.errors import InputError
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import Address, Bytes32, bytes32
from millpond.protocol.signed import Envelope
from millpond.protocol.signing import Domain, recover, sign

HEADER_AUDIENCE = "x-millpond-audience"
HEADER_NONCE = "x-millpond-nonce"
HEADER_EXPIRY = "x-millpond-expiry"
HEADER_SIGNATURE = "x-millpond-signature"
MAX_AHEAD_S = 120
LIFETIME_S = 60


class EnvelopeError(InputError):
    remedy_text = "Sign the request again: audience, chain id, method, path, body, a fresh nonce and an expiry at most 120 s ahead."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who signed, and what must be remembered until `expiry` so that it cannot be replayed."""

    signer: Address
    nonce: int
    expiry: int


def body_hash(body: bytes) -> Bytes32:
    return bytes32(sha256(body))


def seal(
    key: bytes, domain: Domain, audience: Address, method: str, path: str, body: bytes, nonce: int, now: int
) -> dict[str, str]:
    """Headers for one request. `path` includes the query; `nonce` is 256 random bits; `now` Unix seconds."""
    expiry = now + LIFETIME_S
    envelope = Envelope(audience, method.upper(), path, body_hash(body), nonce, expiry)
    return {
        HEADER_AUDIENCE: audience,
        HEADER_NONCE: str(nonce),
        HEADER_EXPIRY: str(expiry),
        HEADER_SIGNATURE: "0x" + sign(envelope, domain, key).hex(),
    }


def open_envelope(
    headers: Mapping[str, str], domain: Domain, audience: Address, method: str, path: str, body: bytes, now: int
) -> Caller:
    """The caller; raises `EnvelopeError` or `SignatureError`. The nonce still has to be consumed, after this succeeded."""
    try:
        nonce, expiry = int(headers[HEADER_NONCE]), int(headers[HEADER_EXPIRY])
        signature = bytes.fromhex(headers[HEADER_SIGNATURE].removeprefix("0x"))
        said = headers[HEADER_AUDIENCE]
    except (KeyError, ValueError):
        raise EnvelopeError("the request is not signed, or its headers cannot be read") from None
    if said.lower() != audience.lower():
        raise EnvelopeError(f"signed for {said}, this is {audience}", audience=audience)
    if not now <= expiry <= now + MAX_AHEAD_S:
        raise EnvelopeError(f"the signature's expiry {expiry} is outside {now} ... {now + MAX_AHEAD_S}", now=now)
    if not 0 <= nonce < 1 << 256:
        raise EnvelopeError("the nonce is outside 256 bits")
    envelope = Envelope(audience, method.upper(), path, body_hash(body), nonce, expiry)
    return Caller(recover(envelope, domain, signature), nonce, expiry)
