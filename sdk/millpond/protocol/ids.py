"""Identifiers. Each derives from signed content, never from a counter, so that it survives reorganisations."""

from __future__ import annotations

from millpond.protocol.hashing import keccak256, sha256, word_address, word_bytes32, word_uint
from millpond.protocol.typed import Address, Bytes32, IdError, address, bytes32

__all__ = [
    "ZERO_ADDRESS",
    "ZERO_BYTES32",
    "Address",
    "Bytes32",
    "IdError",
    "address",
    "bytes32",
    "device_id",
    "device_uuid_hash",
    "job_id",
    "lease_id",
    "raw32",
    "task_id",
]

ZERO_ADDRESS = Address("0x" + "00" * 20)
ZERO_BYTES32 = Bytes32("0x" + "00" * 32)


def raw32(value: Bytes32) -> bytes:
    return bytes.fromhex(value[2:])


def device_uuid_hash(uuid: str) -> Bytes32:
    """keccak256 of the device's UUID as its driver prints it."""
    return bytes32(keccak256(uuid.encode()))


def device_id(provider: Address, uuid_hash: Bytes32) -> Bytes32:
    """`keccak256(abi.encode(provider, uuidHash))`, as `Devices` computes it."""
    return bytes32(keccak256(word_address(provider) + word_bytes32(uuid_hash)))


def lease_id(chain_id: int, controller: Address, offer_hash: Bytes32, request_hash: Bytes32) -> Bytes32:
    """`keccak256(abi.encode(chainId, controller, offerHash, requestHash))`, as `Controller` computes it."""
    words = word_uint(chain_id, 256, "chainId") + word_address(controller)
    return bytes32(keccak256(words + word_bytes32(offer_hash) + word_bytes32(request_hash)))


def job_id(seed: bytes) -> Bytes32:
    """A job's id from 32 or more random bytes of its client."""
    return bytes32(sha256(b"millpond job" + seed))


def task_id(job: Bytes32, index: int) -> Bytes32:
    """The id of task number `index` of `job`: made by the client, so that a resubmission is the same task."""
    return bytes32(keccak256(word_bytes32(job) + word_uint(index, 64, "index")))
