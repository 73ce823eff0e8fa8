"""Verifies the receipt of a task as a stranger would: with an RPC URL and the receipt's JSON, and no code of Millpond.

    python examples/verify_receipt.py --rpc http://127.0.0.1:8545 receipt.json

Prints every check. Exits 0 when all hold, 1 when one fails. Name the pool you trust with --pool: anyone can make a pool of its own.
Needs eth-abi, eth-keys and eth-utils (all come with eth-account).
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

FIELDS = {
    "lease": "bytes32", "task": "bytes32", "attempt": "uint32", "device": "bytes32", "image": "bytes32",
    "input": "bytes32", "output": "bytes32", "resultHash": "bytes32", "startedAt": "uint64", "endedAt": "uint64",
    "mode": "uint8", "status": "uint8",
}  # fmt: skip
RECEIPT_TYPE = f"Receipt({','.join(f'{kind} {name}' for name, kind in FIELDS.items())})"
RECEIPT_TUPLE = f"({','.join(FIELDS.values())})"
DOMAIN_TYPE = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
ADDRESSES = ("controller", "escrow", "devices", "attestations", "poster")
CIDS = {"input_cid": "input", "output_cid": "output"}
MOST_BYTES, TIMEOUT_S = 1 << 20, 10
STATUS = ("none", "open", "closed", "released")


class FailedError(Exception):
    """A check that did not hold."""


def need(holds: bool, why: str) -> None:
    if not holds:
        raise FailedError(why)


class Chain:
    """Read-only questions to a JSON-RPC server."""

    def __init__(self, url: str) -> None:
        self.url = url
        is_local = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
        self._open = urllib.request.build_opener(*[urllib.request.ProxyHandler({})] if is_local else []).open

    def ask(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self.url, body, {"content-type": "application/json"})
        with self._open(request, timeout=TIMEOUT_S) as answer:
            reply = json.load(answer)
        need("result" in reply, f"{method}: {reply.get('error')}")
        return reply["result"]

    def call(self, to: str, name: str, types: list[str], values: tuple[Any, ...], returns: list[str]) -> Any:
        """Calls a view function; `returns` may stop before the last value of a static struct. One value, or a tuple."""
        data = keccak(text=f"{name}({','.join(types)})")[:4] + encode(types, values)
        answer = self.ask("eth_call", {"to": to, "data": "0x" + data.hex()}, "latest")
        found = decode(returns, bytes.fromhex(answer[2:]))
        return found[0] if len(found) == 1 else found

    def replaced_after(self, when: int, where: str, event: str, *topics: str) -> bool:
        """Whether an event, with the given address topics, was logged after the moment `when`."""
        wanted = ["0x" + keccak(text=event).hex(), *("0x" + topic[2:].lower().rjust(64, "0") for topic in topics)]
        logs = self.ask("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": where, "topics": wanted})
        blocks = [self.ask("eth_getBlockByHash", log["blockHash"], False) for log in logs]
        return any(int(block["timestamp"], 16) > when for block in blocks)


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def values_of(receipt: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(raw(receipt[name]) if kind == "bytes32" else int(receipt[name]) for name, kind in FIELDS.items())


def struct_hash(receipt: dict[str, Any]) -> bytes:
    """EIP-712 `hashStruct`: every field is one word."""
    return keccak(encode(["bytes32", *FIELDS.values()], [keccak(text=RECEIPT_TYPE), *values_of(receipt)]))


def digest(bundle: dict[str, Any], struct: bytes) -> bytes:
    """What the worker signed, for the Attestations contract of one chain."""
    words = [keccak(text=DOMAIN_TYPE), keccak(text="Millpond"), keccak(text="1")]
    fields = ["bytes32", "bytes32", "bytes32", "uint256", "address"]
    domain = keccak(encode(fields, [*words, bundle["chain_id"], bundle["attestations"]]))
    return keccak(b"\x19\x01" + domain + struct)


def climb(leaf: bytes, index: int, count: int, siblings: list[bytes]) -> bytes:
    """Merkle root over `leaf`: node = keccak(0x01 || left || right), an odd last node is carried up."""
    need(0 <= index < count, f"leaf {index} of {count}")
    rest = list(siblings)
    while count > 1:
        if index ^ 1 < count:
            need(bool(rest), "the proof is too short")
            other = rest.pop(0)
            leaf = keccak(b"\x01" + (other + leaf if index & 1 else leaf + other))
        index, count = index // 2, (count + 1) // 2
    need(not rest, "the proof is too long")
    return leaf


def strict(bundle: dict[str, Any]) -> dict[str, Any]:
    """The bundle written anew from what was read: equal to it unless something is spelt oddly, missing or too much."""
    signed, receipt = bundle["signed"], bundle["signed"]["receipt"]

    def word(text: str) -> str:
        return "0x" + raw(text).hex().rjust(64, "0")

    def field(name: str, kind: str) -> Any:
        value = receipt[name]
        return word(value) if kind == "bytes32" else str(int(value)) if kind == "uint64" else int(value)

    return {
        "chain_id": int(bundle["chain_id"]),
        **{name: to_checksum_address(bundle[name]) for name in ADDRESSES},
        "root": word(bundle["root"]),
        "count": int(bundle["count"]),
        "index": int(bundle["index"]),
        "proof": [word(item) for item in bundle["proof"]],
        "signed": {
            "receipt": {name: field(name, kind) for name, kind in FIELDS.items()},
            "signature": base64.urlsafe_b64encode(base64.urlsafe_b64decode(signed["signature"])).decode(),
            "worker": to_checksum_address(signed["worker"]),
            **{name: signed[name] for name in (*CIDS, "value_cid", "log_cid")},
        },
    }


def cid_digest(cid: str) -> bytes:
    """The sha-256 inside a base32 CIDv1."""
    body = base64.b32decode(cid[1:].upper() + "=" * (-len(cid[1:]) % 8))
    again = "b" + base64.b32encode(body).decode().lower().rstrip("=")
    need(again == cid and len(body) == 36, f"{cid!r} is no CIDv1 of a sha-256")
    need(body[0] == 1 and body[1] in (0x55, 0x70) and body[2:4] == b"\x12\x20", f"{cid!r} is no CIDv1 of a sha-256")
    return body[4:]


def recover(signature: bytes, message: bytes) -> str:
    need(len(signature) == 65 and signature[64] in (27, 28), "the signature is malformed")
    need(int.from_bytes(signature[32:64], "big") <= HALF_ORDER, "the signature is a malleated copy")
    parts = Signature(signature[:64] + bytes([signature[64] - 27]))
    return parts.recover_public_key_from_msg_hash(message).to_checksum_address()


class Checks:
    """The checks of one bundle, in order; each returns what it found or raises."""

    def __init__(self, chain: Chain, bundle: dict[str, Any], trusted_pool: str) -> None:
        self.chain, self.bundle, self.trusted_pool = chain, bundle, trusted_pool
        self.signed = bundle["signed"]
        self.receipt = self.signed["receipt"]
        self.pool = bundle["controller"]
        self.struct = struct_hash(self.receipt)
        self.proof_words = [raw(item) for item in bundle["proof"]]

    def form(self) -> str:
        need(strict(self.bundle) == self.bundle, "a value is not in its one form")
        return "every value is in its one form"

    def chain_id(self) -> str:
        actual = int(self.chain.ask("eth_chainId"), 16)
        need(actual == self.bundle["chain_id"], f"the RPC serves chain {actual}, not {self.bundle['chain_id']}")
        return f"the RPC serves chain {actual}"

    def contracts(self) -> str:
        wanted = self.trusted_pool
        need(not wanted or wanted.lower() == self.pool.lower(), f"the receipt is of pool {self.pool}")
        for name in ("devices", "escrow"):
            actual = self.chain.call(self.pool, name, [], (), ["address"])
            need(actual == self.bundle[name].lower(), f"the pool works with {name} {actual}")
        return f"{self.pool} works with the named Devices and Escrow"

    def signature(self) -> str:
        found = recover(base64.urlsafe_b64decode(self.signed["signature"]), digest(self.bundle, self.struct))
        need(found == self.signed["worker"], f"signed by {found}, not by {self.signed['worker']}")
        asked = self.chain.call(
            self.bundle["attestations"], "receiptDigest", [RECEIPT_TUPLE], (values_of(self.receipt),), ["bytes32"]
        )
        need(asked == digest(self.bundle, self.struct), "the contract computes another digest")
        return f"struct hash 0x{self.struct.hex()[:16]}... signed by {found}"

    def lease(self) -> str:
        lease, words = self.receipt["lease"], ["bytes32", *["uint256"] * 4]
        device, *_, status = self.chain.call(self.pool, "leaseOf", ["bytes32"], (raw(lease),), words)
        need(0 < status < len(STATUS), "the pool has no such lease")
        need(device == raw(self.receipt["device"]), "the lease is on another device")
        return f"{lease[:18]}... is {STATUS[status]}, on the receipt's device"

    def operator(self) -> str:
        devices, worker, began = self.bundle["devices"], self.signed["worker"], int(self.receipt["startedAt"])
        provider = self.chain.call(devices, "deviceOf", ["bytes32"], (raw(self.receipt["device"]),), ["address"])
        is_now = self.chain.call(devices, "isOperator", ["address", "address"], (provider, worker), ["bool"])
        event = "OperatorChanged(address,address,address)"
        is_operator = is_now or self.chain.replaced_after(began, devices, event, provider, worker)
        need(is_operator, f"{worker} is not the operator of provider {provider}")
        return f"{worker} is operator of provider {to_checksum_address(provider)}"

    def content(self) -> str:
        for name, field in CIDS.items():
            found = cid_digest(self.signed[name]) if self.signed[name] else bytes(32)
            need(found == raw(self.receipt[field]), f"{name} does not name what the receipt commits to")
        for name in ("value_cid", "log_cid"):
            need(not self.signed[name] or bool(cid_digest(self.signed[name])), f"{name} is malformed")
        return "the CIDs of inputs and outputs hold the committed digests"

    def proof(self) -> str:
        index, count, root = self.bundle["index"], self.bundle["count"], self.bundle["root"]
        found = climb(keccak(b"\x00" + self.struct), index, count, self.proof_words)
        need(found == raw(root), f"the proof leads to 0x{found.hex()}")
        return f"leaf {index} of {count} leads to root {root[:18]}..."

    def batch(self) -> str:
        where, poster, count = self.bundle["attestations"], self.bundle["poster"], self.bundle["count"]
        key, types = (self.pool, poster, raw(self.bundle["root"])), ["address", "address", "bytes32"]
        posted, until, size = self.chain.call(where, "batchOf", types, key, ["uint64", "uint64", "uint32"])
        need(posted > 0, f"{poster} posted no such root for the pool")
        need(size == count, f"the batch has {size} receipts")
        values = (*key, values_of(self.receipt), self.bundle["index"], self.proof_words)
        types = [*types, RECEIPT_TUPLE, "uint256", "bytes32[]"]
        need(self.chain.call(where, "isAttested", types, values, ["bool"]), "the contract finds no such receipt")
        node, event = self.chain.call(self.pool, "node", [], (), ["address"]), "NodeChanged(address,address)"
        is_node = node == poster.lower() or self.chain.replaced_after(posted, self.pool, event, poster)
        need(is_node, f"{poster} is not the pool's node: its word is worth nothing here")
        return f"posted at {posted} by the pool's node, open to challenge until {until}"

    def all(self) -> Iterator[tuple[str, Callable[[], str]]]:
        yield "form", self.form
        yield "chain", self.chain_id
        yield "pool", self.contracts
        yield "signature", self.signature
        yield "lease", self.lease
        yield "operator", self.operator
        yield "content", self.content
        yield "proof", self.proof
        yield "batch", self.batch


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(pairs)) == len(pairs), "a name occurs twice")
    return dict(pairs)


def verify(url: str, text: bytes, pool: str = "", say: Callable[[str], None] = print) -> bool:
    """Runs the checks until one fails; says each. Whatever the bytes are, it answers."""
    name = "read"
    try:
        need(len(text) <= MOST_BYTES, f"{len(text)} bytes are too many")
        bundle = json.loads(text, object_pairs_hook=unique)
        for name, check in Checks(Chain(url), bundle, pool).all():
            say(f"  ok      {name:<10} {check()}")
    except FailedError as error:
        say(f"  FAILED  {name:<10} {error}")
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError) as error:
        say(f"  FAILED  {name:<10} {type(error).__name__}: {error}")
    except (DecodingError, EncodingError, BadSignature, ValidationError) as error:
        say(f"  FAILED  {name:<10} {type(error).__name__}: {error}")
    else:
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Verifies the receipt of a Millpond task against a chain.")
    parser.add_argument("file", type=Path, help="the receipt's JSON")
    parser.add_argument("--rpc", required=True, metavar="URL", help="any RPC of the receipt's chain")
    parser.add_argument("--pool", default="", metavar="ADDRESS", help="the pool you trust")
    options = parser.parse_args()
    try:
        text = options.file.read_bytes()
    except OSError as error:
        print(f"{options.file} cannot be read: {error.strerror}")
        return 1
    is_valid = verify(options.rpc, text, options.pool)
    print("valid" if is_valid else "NOT VALID")
    return 0 if is_valid else 1


if __name__ == "__main__":
    sys.exit(main())
