"""Identifiers. Each derives from signed content, never from a counter, so that it survives reorganisations."""

from __future__ import annotations

from typing import NewType

from millpond.protocol.errors import InputError
from millpond.protocol.hashing import keccak256, sha256, to_checksum_address, word_address, word_bytes32, word_uint

Address = NewType("Address", str)
"""A checksummed 20-byte address."""

Bytes32 = NewType("Bytes32", str)
"""32 bytes as lower-case hex with 0x."""

ZERO_ADDRESS = Address("0x" + "00" * 20)
ZERO_BYTES32 = Bytes32("0x" + "00" * 32)


class IdError(InputError):
    remedy_text = "Copy the identifier again from where it was shown; it is hexadecimal and starts with 0x."


def address(value: str) -> Address:
    """Returns `value` with its EIP-55 checksum; raises `IdError` unless it is a 20-byte address with a right checksum."""
    try:
        return Address(to_checksum_address(value))
    except ValueError as error:
        raise IdError(f"not an address: {value!r} ({error})", value=value) from None


def bytes32(value: str | bytes) -> Bytes32:
    """Returns `value` as canonical hex; raises `IdError` unless it is 32 bytes."""
    try:
        raw = value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("0x"))
    except (ValueError, AttributeError):
        raise IdError(f"not 32 bytes of hexadecimal: {value!r}", value=repr(value)) from None
    if len(raw) != 32:
        raise IdError(f"{len(raw)} bytes where 32 are needed: {value!r}", value=repr(value))
    return Bytes32("0x" + raw.hex())


def raw32(value: Bytes32) -> bytes:
    return bytes.fromhex(value[2:])


def device_uuid_hash(uuid: str) -> Bytes32:
    """keccak256 of the device's UUID as its driver prints it."""
    return Bytes32("0x" + keccak256(uuid.encode()).hex())


def device_id(provider: Address, uuid_hash: Bytes32) -> Bytes32:
    """`keccak256(abi.encode(provider, uuidHash))`, as `Devices` computes it."""
    return Bytes32("0x" + keccak256(word_address(provider) + word_bytes32(uuid_hash)).hex())


def lease_id(chain_id: int, controller: Address, offer_hash: Bytes32, request_hash: Bytes32) -> Bytes32:
    """`keccak256(abi.encode(chainId, controller, offerHash, requestHash))`, as `Controller` computes it."""
    words = word_uint(chain_id, 256, "chainId") + word_address(controller)
    return Bytes32("0x" + keccak256(words + word_bytes32(offer_hash) + word_bytes32(request_hash)).hex())


def job_id(seed: bytes) -> Bytes32:
    """A job's id from 32 or more random bytes of its client."""
    return Bytes32("0x" + sha256(b"millpond job" + seed).hex())


def task_id(job: Bytes32, index: int) -> Bytes32:
    """The id of task number `index` of `job`: made by the client, so that a resubmission is the same task."""
    return Bytes32("0x" + keccak256(word_bytes32(job) + word_uint(index, 64, "index")).hex())
