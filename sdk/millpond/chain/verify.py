"""Verifies a task's receipt against a chain, with nothing but an RPC URL and the receipt's bundle. Asks no node, trusts no address.

The contracts that the bundle names must have this release's code and belong together; the lease must be one of the pool; the
signer must be, or have been, the operator of the device's provider; the root must be posted. The log's CID, and a value's of more
than one block, are hints that no signature covers.
"""

from __future__ import annotations

import base64
import binascii
import time
from dataclasses import dataclass

from millpond.chain import artefacts
from millpond.chain.bindings import Attestations, Controller, Devices
from millpond.chain.bindings.structs import Batch
from millpond.chain.enums import LeaseStatus
from millpond.chain.eth import Eth
from millpond.chain.rpc import DEFAULT_TIMEOUT_S, Rpc
from millpond.protocol.ids import Address, Bytes32, address, raw32
from millpond.protocol.messages import SignedReceipt
from millpond.protocol.receipts import ReceiptError, check_bundle
from millpond.protocol.views import ReceiptBundle

_CLONE_HEAD = bytes.fromhex("363d3d373d3d3d363d73")
_CLONE_TAIL = bytes.fromhex("5af43d82803e903d91602b57fd5bf3")
_LOG_BLOCKS = 5_000
_RAW_BLOCK = b"\x01\x55"


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """What the chain confirmed. Times are Unix seconds; until `challengeable_until` the receipt can still be disputed."""

    chain_id: int
    pool: Address
    provider: Address
    worker: Address
    is_operator_now: bool
    lease: Bytes32
    lease_status: str
    task: Bytes32
    attempt: int
    root: Bytes32
    count: int
    poster: Address
    is_posted_by_node: bool
    posted_at: int
    challengeable_until: int
    is_challengeable: bool


async def verify_receipt(bundle: ReceiptBundle, rpc_url: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> VerifiedReceipt:
    """Every check of `verify_with`, over its own connection; `timeout_s` bounds each question."""
    async with Rpc(rpc_url, timeout_s, chain_id=bundle.chain_id) as rpc:
        return await verify_with(Eth(rpc), bundle)


async def verify_with(eth: Eth, bundle: ReceiptBundle) -> VerifiedReceipt:
    """Raises `WrongChainError`, `SignatureError`, `MerkleError`, `CodeMismatchError` or `ReceiptError` on the first check that fails."""
    check_bundle(bundle)
    _check_names(bundle.signed)
    await _check_code(eth, bundle)
    status = await _check_lease(eth, bundle)
    provider, is_now = await _check_worker(eth, bundle)
    batch = await _check_root(eth, bundle)
    receipt = bundle.signed.receipt
    node = await Controller(eth, bundle.controller).node()
    return VerifiedReceipt(
        chain_id=bundle.chain_id,
        pool=bundle.controller,
        provider=provider,
        worker=bundle.signed.worker,
        is_operator_now=is_now,
        lease=receipt.lease,
        lease_status=status.name.lower(),
        task=receipt.task,
        attempt=receipt.attempt,
        root=bundle.root,
        count=batch.count,
        poster=bundle.poster,
        is_posted_by_node=bundle.poster == node,
        posted_at=batch.postedAt,
        challengeable_until=batch.challengeableUntil,
        is_challengeable=time.time() < batch.challengeableUntil,
    )


def _check_names(signed: SignedReceipt) -> None:
    """The CIDs beside the receipt must be those whose digests it signs."""
    receipt = signed.receipt
    for name, cid, digest in (
        ("input", signed.input_cid, receipt.input),
        ("output", signed.output_cid, receipt.output),
        ("value", signed.value_cid, receipt.resultHash),
    ):
        raw = _cid_bytes(name, cid)
        is_covered = name != "value" or raw[:2] == _RAW_BLOCK
        if cid and is_covered and raw[4:] != raw32(digest):
            raise ReceiptError(f"the {name} CID is not the one the receipt signs", field=name, cid=cid, digest=digest)


def _cid_bytes(name: str, cid: str) -> bytes:
    """The 36 bytes of a CIDv1 with SHA-256 in base32; empty for an empty text."""
    body = cid[1:].upper()
    try:
        raw = base64.b32decode(body + "=" * (-len(body) % 8))
    except binascii.Error:
        raw = b""
    if cid and (len(raw) != 36 or cid != "b" + base64.b32encode(raw).decode().lower().rstrip("=")):
        raise ReceiptError(f"the {name} CID is malformed: {cid[:80]!r}", field=name, cid=cid[:80])
    return raw


async def _check_code(eth: Eth, bundle: ReceiptBundle) -> None:
    for name, where in (("Attestations", bundle.attestations), ("Devices", bundle.devices), ("Escrow", bundle.escrow)):
        artefacts.load(name).check(await eth.code(where), where)
    implementation = _implementation(await eth.code(bundle.controller))
    if implementation is None:
        raise ReceiptError(f"{bundle.controller} is no pool", controller=bundle.controller)
    artefacts.load("Controller").check(await eth.code(implementation), implementation)
    pool = Controller(eth, bundle.controller)
    for name, claimed, actual in (
        ("Devices", bundle.devices, await pool.devices()),
        ("Escrow", bundle.escrow, await pool.escrow()),
    ):
        if claimed != actual:
            raise ReceiptError(f"the pool works with {name} {actual}, not {claimed}", claimed=claimed, actual=actual)


def _implementation(code: bytes) -> Address | None:
    """Where a clone (EIP-1167, arguments may follow) delegates to."""
    head, body = code[: len(_CLONE_HEAD)], code[len(_CLONE_HEAD) :]
    if head != _CLONE_HEAD or body[20 : 20 + len(_CLONE_TAIL)] != _CLONE_TAIL:
        return None
    return address("0x" + body[:20].hex())


async def _check_lease(eth: Eth, bundle: ReceiptBundle) -> LeaseStatus:
    receipt = bundle.signed.receipt
    lease = await Controller(eth, bundle.controller).lease_of(receipt.lease)
    if lease.status == LeaseStatus.NONE:
        raise ReceiptError(f"the pool {bundle.controller} has no lease {receipt.lease}", lease=receipt.lease)
    if lease.device != receipt.device:
        raise ReceiptError(
            f"the lease is on device {lease.device}, the receipt names {receipt.device}",
            lease=receipt.lease,
            expected=lease.device,
            actual=receipt.device,
        )
    return LeaseStatus(lease.status)


async def _check_worker(eth: Eth, bundle: ReceiptBundle) -> tuple[Address, bool]:
    """The device's provider, and whether the signer is its operator now; else it must have been when the task began."""
    devices, worker = Devices(eth, bundle.devices), bundle.signed.worker
    provider = (await devices.device_of(bundle.signed.receipt.device)).provider
    if await devices.is_operator(provider, worker):
        return provider, True
    if await _was_operator(eth, devices, provider, worker, bundle.signed.receipt.startedAt):
        return provider, False
    raise ReceiptError(f"{worker} is not the operator of provider {provider}", worker=worker, provider=provider)


async def _was_operator(eth: Eth, devices: Devices, provider: Address, worker: Address, at: int) -> bool:
    """Whether the first change of operator after `at` replaced `worker`, by the events of `Devices`, newest first."""
    changed = devices.abi.event("OperatorChanged").topic
    last, answer = await eth.block_number(), False
    while last >= 0:
        first = max(0, last - _LOG_BLOCKS + 1)
        topics = [changed, _word(provider)]
        for log in reversed(await eth.logs(first, last, [devices.address], topics)):
            header = await eth.header(log.block_number)
            if header is None or header.timestamp <= at:
                return answer
            answer = log.topics[2] == _word(worker)
        header = await eth.header(first)
        if header is None or header.timestamp <= at:
            return answer
        last = first - 1
    return answer


def _word(account: Address) -> bytes:
    return bytes(12) + bytes.fromhex(account[2:])


async def _check_root(eth: Eth, bundle: ReceiptBundle) -> Batch:
    attestations = Attestations(eth, bundle.attestations)
    batch = await attestations.batch_of(bundle.controller, bundle.poster, bundle.root)
    if batch.postedAt == 0:
        raise ReceiptError(
            f"{bundle.poster} posted no root {bundle.root} for the pool", root=bundle.root, poster=bundle.poster
        )
    if batch.count != bundle.count:
        raise ReceiptError(
            f"the batch has {batch.count} receipts, the bundle says {bundle.count}",
            expected=batch.count,
            actual=bundle.count,
        )
    receipt = bundle.signed.receipt
    if not await attestations.is_attested(
        bundle.controller, bundle.poster, bundle.root, receipt, bundle.index, bundle.proof
    ):
        raise ReceiptError(
            "the contract finds no such receipt in the batch", root=bundle.root, receipt=receipt.struct_hash()
        )
    return batch
