"""Keys, domains and signed messages that the node's tests share."""

import secrets
import time
from dataclasses import replace
from typing import Any

from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, job_id, task_id
from millpond.protocol.messages import SignedOffer, SignedRequest, TaskSpec
from millpond.protocol.signed import Offer, Request
from millpond.protocol.signing import Domain, address_of, sign
from millpond_node.chain.port import PoolFacts

CHAIN_ID = 31337
ESCROW_FUNDS = 10**24


def key_of(name: str) -> bytes:
    return keccak256(name.encode())


def address_named(name: str) -> Address:
    return address_of(key_of(name))


def contract_named(name: str) -> Address:
    return address_of(key_of("contract " + name))


CONTROLLER, ESCROW, ATTESTATIONS = (
    contract_named("controller"),
    contract_named("escrow"),
    contract_named("attestations"),
)
CONTRACT_DOMAIN = Domain(CHAIN_ID, CONTROLLER)
ESCROW_DOMAIN = Domain(CHAIN_ID, ESCROW)
RECEIPT_DOMAIN = Domain(CHAIN_ID, ATTESTATIONS)
TOKEN = contract_named("token")


def pool_facts() -> PoolFacts:
    return PoolFacts(
        CHAIN_ID, CONTROLLER, address_named("node"), ESCROW, contract_named("staking"), contract_named("devices"), ATTESTATIONS,
        contract_named("tokens"), TOKEN, "USD", 18, 20_000, 10_000, 60, 30 * 86_400, 2,
    )  # fmt: skip


def make_request(key: bytes, priority: int = 0, **changes: Any) -> SignedRequest:
    base = Request(
        renter=address_of(key), controller=CONTROLLER, token=TOKEN, offer=ZERO_BYTES32, submitter=address_named("node"), isolation=0,
        share=100, memoryMiB=256, cpuMilli=0, ramMiB=0, diskMiB=0, maxPricePerSecond=1000, duration=3600, depositSeconds=60,
        voucherSigner=address_named("session"), verification=0, data=ZERO_BYTES32, deadline=int(time.time()) + 600,
        nonce=secrets.randbits(256),
    )  # fmt: skip
    request = replace(base, **changes)
    return SignedRequest(request, sign(request, ESCROW_DOMAIN, key), priority)


def make_spec(job: Bytes32, index: int, **changes: Any) -> TaskSpec:
    return replace(TaskSpec(task_id(job, index), index, entry="app:work", code="bcode", args=b"a%d" % index), **changes)


def new_job() -> Bytes32:
    return job_id(secrets.token_bytes(32))


def make_offer(device: Bytes32, key: bytes, **changes: Any) -> SignedOffer:
    base = Offer(
        controller=CONTROLLER, device=device, epoch=1, mode=0, isolation=1, share=500, memoryMiB=512, cpuMilli=1000, ramMiB=1024,
        diskMiB=1024, bandwidthMbit=0, pricePerSecond=100, tick=10, notice=60, determinism=ZERO_BYTES32, maxDuration=86_400,
        capPerRenter=0, deadline=int(time.time()) + 1800,
    )  # fmt: skip
    offer = replace(base, **changes)
    return SignedOffer(offer, sign(offer, CONTRACT_DOMAIN, key))
