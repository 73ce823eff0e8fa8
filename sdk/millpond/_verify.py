"""A result as the renter takes it: only with the receipt that its lease's worker signed for exactly this task and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millpond.errors import ResultForgedError
from millpond.protocol.errors import InputError
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32, task_id
from millpond.protocol.messages import AttemptStatus, SignedReceipt, TaskResult
from millpond.protocol.receipts import check_signature
from millpond.protocol.signing import Domain, recover
from millpond.protocol.views import LeaseView, PoolView


@dataclass(frozen=True, slots=True)
class Party:
    """Who serves a lease, on which device."""

    worker: Address
    device: Bytes32


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks what the node at `node` says of the tasks of `job`. `domain` is the Attestations contract.

    `parties` are the leases the job runs on; None where they are not known here: then a receipt has to agree with itself.
    """

    node: str
    job: Bytes32
    domain: Domain
    parties: Mapping[Bytes32, Party] | None = None

    def check(self, result: TaskResult) -> None:
        """Raises `ResultForgedError`. A result without a receipt passes where it brings no value: nobody answers for it."""
        said = self._wrong(result)
        if said:
            raise _forged(self.node, result.task, said)

    def _wrong(self, result: TaskResult) -> str:
        if result.job != self.job or result.task != task_id(self.job, result.index):
            return "it is of another task"
        if result.signed is None:
            return "it brings a value without a receipt" if result.value is not None else ""
        return (
            self._wrong_parties(result, result.signed)
            or _wrong_value(result, result.signed)
            or self._unsigned(result.signed)
        )

    def _wrong_parties(self, result: TaskResult, signed: SignedReceipt) -> str:
        receipt = signed.receipt
        if receipt.task != result.task or receipt.attempt < 1:
            return "its receipt is of another task"
        if self.parties is None:
            return ""
        party = self.parties.get(receipt.lease)
        if party is None:
            return "its receipt is of another lease"
        is_its = signed.worker == party.worker and receipt.device == party.device
        return "" if is_its else "its receipt is of another worker or device than its lease"

    def _unsigned(self, signed: SignedReceipt) -> str:
        try:
            check_signature(signed, self.domain)
        except InputError as error:
            return f"its receipt is not signed by its worker ({error.message})"
        return ""


def verifier(pool: PoolView, node: str, job: Bytes32, leases: Sequence[LeaseView] | None = None) -> Verifier:
    """Of `job` in `pool`, whose `leases` are given where they are known; raises `ResultForgedError` when one is not by its worker."""
    attestations = Domain(pool.chain_id, pool.attestations)
    if leases is None:
        return Verifier(node, job, attestations)
    controller = Domain(pool.chain_id, pool.controller)
    return Verifier(node, job, attestations, {view.lease: _party(view, controller, node) for view in leases})


def _party(view: LeaseView, controller: Domain, node: str) -> Party:
    """From the offer, which the worker signed: the node's word alone names nobody."""
    offer = view.offer
    if recover(offer.offer, controller, offer.signature) != view.worker:
        raise _forged(node, view.lease, "the lease's offer is not signed by the worker the node names")
    return Party(view.worker, offer.offer.device)


def check_value(node: str, result: TaskResult, encoded: bytes) -> None:
    """A value that travelled by CID, against the receipt. Raises `ResultForgedError`."""
    if result.signed is None or bytes32(sha256(encoded)) != result.signed.receipt.resultHash:
        raise _forged(node, result.task, "the value is not the one its receipt names")


def _wrong_value(result: TaskResult, signed: SignedReceipt) -> str:
    receipt = signed.receipt
    if receipt.status not in AttemptStatus._value2member_map_:
        return "its receipt has a status that does not exist"
    if result.value is not None and bytes32(sha256(result.value)) != receipt.resultHash:
        return "the value is not the one its receipt names"
    is_withheld = result.value is None and not signed.value_cid and receipt.resultHash != ZERO_BYTES32
    return "the value that its receipt names is missing" if is_withheld else ""


def _forged(node: str, thing: Bytes32, said: str) -> ResultForgedError:
    return ResultForgedError(f"the node {node} gave a result that cannot be accepted: {said}", node=node, task=thing)
