"""EIP-712 domains, digests, signatures. Signing is deterministic (RFC 6979), so a replay signs the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from coincurve import PrivateKey, PublicKey

from millpond.protocol.errors import InputError
from millpond.protocol.hashing import keccak256, to_checksum_address, word_address, word_uint
from millpond.protocol.ids import Address
from millpond.protocol.signed import DOMAIN_NAME, DOMAIN_VERSION, Signable

_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
_DOMAIN_TYPE_HASH_TEXT = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"


class SignatureError(InputError):
    remedy_text = "Sign again with the expected key, for this chain id and this contract."


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a signature is valid: one chain, one contract."""

    chain_id: int
    contract: Address


@cache
def domain_separator(domain: Domain) -> bytes:
    return keccak256(
        keccak256(_DOMAIN_TYPE_HASH_TEXT)
        + keccak256(DOMAIN_NAME.encode())
        + keccak256(DOMAIN_VERSION.encode())
        + word_uint(domain.chain_id, 256, "chainId")
        + word_address(domain.contract)
    )


def digest(message: Signable, domain: Domain) -> bytes:
    """The 32 bytes that are signed: `keccak256(0x1901 || domainSeparator || structHash)`."""
    return keccak256(b"\x19\x01" + domain_separator(domain) + bytes.fromhex(message.struct_hash()[2:]))


@lru_cache(16)
def _private_key(key: bytes) -> PrivateKey:
    """Making one costs as much as signing: it computes the public key, twice."""
    return PrivateKey(key)


def sign(message: Signable, domain: Domain, key: bytes) -> bytes:
    """65 bytes r || s || v, with low s and v in {27, 28}."""
    raw = _private_key(key).sign_recoverable(digest(message, domain), hasher=None)
    return raw[:64] + bytes([raw[64] + 27])


def recover(message: Signable, domain: Domain, signature: bytes) -> Address:
    """The signer's address; raises `SignatureError` on a malformed, malleable or unrecoverable signature."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        raise SignatureError("a signature is 65 bytes that end in 27 or 28", length=len(signature))
    if int.from_bytes(signature[32:64], "big") > _HALF_ORDER:
        raise SignatureError("the signature's s is in the upper half: it is a malleated copy")
    try:
        raw = signature[:64] + bytes([signature[64] - 27])
        public = PublicKey.from_signature_and_message(raw, digest(message, domain), hasher=None)
    except Exception as error:  # coincurve raises bare Exception and ValueError alike
        raise SignatureError(f"no key can be recovered from the signature: {error}") from error
    return _address_of(public)


def verify(message: Signable, domain: Domain, signature: bytes, signer: Address) -> None:
    """Raises `SignatureError` unless `signer` signed `message` for `domain`."""
    found = recover(message, domain, signature)
    if found != signer:
        raise SignatureError(
            f"signed by {found}, expected {signer}", found=found, expected=signer, chain_id=domain.chain_id
        )


def address_of(key: bytes) -> Address:
    """The address of a private key of 32 bytes."""
    return _address_of(PrivateKey(key).public_key)


def _address_of(public: PublicKey) -> Address:
    return Address(to_checksum_address("0x" + keccak256(public.format(compressed=False)[1:])[-20:].hex()))
