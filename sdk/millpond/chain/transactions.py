"""EIP-1559 transactions: encoding and signing. Pure; signing is deterministic (RFC 6979)."""

from __future__ import annotations

from dataclasses import dataclass

import rlp
from coincurve import PrivateKey

from millpond.protocol.hashing import keccak256, to_checksum_address
from millpond.protocol.ids import Address, Bytes32

Item = bytes | list[bytes]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A type-2 transaction. Fees in wei per gas, value in wei."""

    chain_id: int
    nonce: int
    max_priority_fee: int
    max_fee: int
    gas: int
    to: Address
    value: int
    data: bytes

    def _fields(self) -> list[Item]:
        return [
            _integer(self.chain_id),
            _integer(self.nonce),
            _integer(self.max_priority_fee),
            _integer(self.max_fee),
            _integer(self.gas),
            bytes.fromhex(self.to[2:]),
            _integer(self.value),
            self.data,
            [],
        ]

    def sign(self, key: bytes) -> bytes:
        """The raw signed transaction, as `eth_sendRawTransaction` takes it."""
        digest = keccak256(b"\x02" + rlp.encode(self._fields()))
        signature = PrivateKey(key).sign_recoverable(digest, hasher=None)
        r, s, parity = signature[:32], signature[32:64], signature[64]
        signed: bytes = rlp.encode([*self._fields(), _integer(parity), r.lstrip(b"\0"), s.lstrip(b"\0")])
        return b"\x02" + signed


def transaction_hash(raw: bytes) -> Bytes32:
    return Bytes32("0x" + keccak256(raw).hex())


def create2_address(deployer: Address, salt: bytes, init_code: bytes) -> Address:
    """`keccak256(0xff || deployer || salt || keccak256(initCode))[12:]` (EIP-1014)."""
    digest = keccak256(b"\xff" + bytes.fromhex(deployer[2:]) + salt + keccak256(init_code))
    return Address(to_checksum_address("0x" + digest[12:].hex()))


def _integer(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")
