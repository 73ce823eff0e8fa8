"""Receipts: what they commit to, and the checks that need no chain."""

from __future__ import annotations

import json

from millpond.protocol import merkle
from millpond.protocol.errors import InputError
from millpond.protocol.ids import Bytes32, bytes32, raw32
from millpond.protocol.messages import SignedReceipt, TaskSpec
from millpond.protocol.signing import Domain, verify
from millpond.protocol.views import ReceiptBundle


class ReceiptError(InputError):
    remedy_text = "Ask the node for the receipt again; do not accept the result it claims to prove."


def input_manifest(spec: TaskSpec) -> bytes:
    """Canonical JSON of all a task reads; the receipt's `input` is the digest of this block's CID.

    Arguments appear as their own block's CID, also where they travelled inline.
    """
    fields = {
        "args": spec.args_cid,
        "code": spec.code,
        "command": list(spec.command),
        "entry": spec.entry,
        "env": dict(sorted(spec.env.items())),
        "inputs": dict(sorted(spec.inputs.items())),
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def receipt_leaf(signed: SignedReceipt) -> bytes:
    return merkle.leaf(raw32(signed.receipt.struct_hash()))


def batch_root(receipts: list[SignedReceipt]) -> Bytes32:
    """Merkle root over receipts in the given order."""
    return bytes32(merkle.root([receipt_leaf(signed) for signed in receipts]))


def check_signature(signed: SignedReceipt, domain: Domain) -> None:
    """Raises `SignatureError` unless the named worker signed the receipt for `domain` (the Attestations contract)."""
    verify(signed.receipt, domain, signed.signature, signed.worker)


def check_bundle(bundle: ReceiptBundle) -> None:
    """Checks signature and Merkle proof of a bundle; whether the chain has its root and lease is `millpond.chain.verify`'s part."""
    check_signature(bundle.signed, Domain(bundle.chain_id, bundle.attestations))
    siblings = [raw32(item) for item in bundle.proof]
    found = bytes32(merkle.climb(receipt_leaf(bundle.signed), bundle.index, bundle.count, siblings))
    if found != bundle.root:
        raise ReceiptError(f"the proof leads to {found}, not to the root {bundle.root}", found=found, root=bundle.root)
