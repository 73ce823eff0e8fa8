"""Examples of the OpenAPI document: whole messages, written by the same code that reads and writes the real ones."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

from millpond.protocol import wire
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, bytes32
from millpond.protocol.ladders import Ladder, Rung
from millpond.protocol.link import Log
from millpond.protocol.messages import (
    DeviceEntry,
    SignedOffer,
    SignedReceipt,
    SignedRequest,
    Submit,
    TaskResult,
    TaskSpec,
    VoucherNote,
)
from millpond.protocol.signed import Offer, Receipt, Request
from millpond.protocol.usage import LeaseUsage, UsageView
from millpond.protocol.views import (
    BlockView,
    FilterCount,
    HealthView,
    JobView,
    LeaseState,
    LeaseView,
    OfferView,
    PoolView,
    ReceiptBundle,
    Relaxation,
    RequestState,
    RequestView,
    SubmitView,
    TaskStage,
    TaskView,
    VoucherKeptView,
    Why,
)
from millpond_node.api.ladder import LadderKept
from millpond_node.api.routes import CancelBody

NOW = 1_800_000_000
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
SIGNATURE = bytes(64) + b"\x1b"
METRICS = "# HELP millpond_tasks_open Tasks not ended.\n# TYPE millpond_tasks_open gauge\nmillpond_tasks_open 0\n"


def word(name: str) -> Bytes32:
    return bytes32(keccak256(name.encode()))


def account(name: str) -> Address:
    return Address("0x" + word(name)[-40:])


PARAMETERS: dict[str, Any] = {
    "hash": word("request"),
    "lease": word("lease"),
    "job": word("job"),
    "task": word("task"),
    "attempt": "1",
    "cid": CID,
    "wait": 20,
    "after": 0,
    "follow": 1,
    "linger": 0,
}


def examples() -> dict[Any, Any]:
    """JSON by type of message, the caller's own."""
    return deepcopy(_examples())


@cache
def _examples() -> dict[Any, Any]:
    found = (*_of_market(), *_of_lease(), *_of_work(), *_of_node())
    return {type(message): json.loads(wire.write(message)) for message in found}


def _offer() -> SignedOffer:
    offer = Offer(
        controller=account("controller"), device=word("device"), epoch=1, mode=1, isolation=1, share=500, memoryMiB=8192,
        cpuMilli=4000, ramMiB=16384, diskMiB=10240, bandwidthMbit=0, pricePerSecond=10**14, tick=10, notice=60,
        determinism=ZERO_BYTES32, maxDuration=86_400, capPerRenter=0, deadline=NOW + 1800,
    )  # fmt: skip
    return SignedOffer(offer, SIGNATURE)


def _request() -> SignedRequest:
    request = Request(
        renter=account("renter"), controller=account("controller"), token=account("token"), offer=ZERO_BYTES32,
        submitter=account("node"), isolation=1, share=300, memoryMiB=4096, cpuMilli=1000, ramMiB=2048, diskMiB=1024,
        maxPricePerSecond=2 * 10**14, duration=3600, depositSeconds=60, voucherSigner=account("session"), verification=0,
        data=ZERO_BYTES32, deadline=NOW + 600, nonce=7,
    )  # fmt: skip
    return SignedRequest(request, SIGNATURE)


def _device() -> DeviceEntry:
    return DeviceEntry(word("device"), "GPU-8f2c", "nvidia", "NVIDIA H200", 143_771, 0)


def _of_market() -> tuple[object, ...]:
    counts = (FilterCount("share", 3, "Ask for at most 300 per mille of compute."),)
    nearest = (Relaxation("share", 500, 300, "share <= 300"),)
    said = "Ask for at most 300 per mille of compute."
    return (
        _request(),
        OfferView(_offer(), word("offer"), account("provider"), _device(), "docker", True, 500, 100_000, 10**14, True),
        RequestView(word("request"), RequestState.QUEUED, None, "", NOW + 600, RequestState.EXPIRED),
        Why(
            word("request"), RequestState.QUEUED, 1, 3, 0, counts, said, nearest, None, NOW + 600, RequestState.EXPIRED
        ),
    )


def _of_lease() -> tuple[object, ...]:
    usage = LeaseUsage(word("lease"), NOW + 60, 41_200, 812_000_000, 990_000_000, 4096, 65_536)
    rungs = (Rung(10**15, SIGNATURE), Rung(2 * 10**15, SIGNATURE))
    return (
        LeaseView(
            word("lease"), LeaseState.SERVING, account("renter"), account("provider"), account("worker"), _offer(),
            word("request"), NOW, NOW + 3600, NOW + 4, 10**15, "", NOW + 3600, LeaseState.CLOSING, NOW + 60,
        ),
        VoucherNote(word("lease"), 10**15, SIGNATURE),
        VoucherKeptView(10**15),
        Ladder(word("lease"), rungs),
        LadderKept(2, 2 * 10**15),
        UsageView(word("lease"), usage, 1, 4000, 16_384, (usage,)),
    )  # fmt: skip


def _signed_receipt() -> SignedReceipt:
    receipt = Receipt(
        word("lease"), word("task"), 1, word("device"), word("image"), word("input"), ZERO_BYTES32, word("value"), NOW, NOW + 2,
        0, 0,
    )  # fmt: skip
    return SignedReceipt(receipt, SIGNATURE, account("worker"), input_cid=CID)


def _of_work() -> tuple[object, ...]:
    spec = TaskSpec(word("task"), 0, entry="app:work", code=CID, args=b"\x01")
    lease, job, task = word("lease"), word("job"), word("task")
    return (
        Submit(job, (lease,), (spec,)),
        SubmitView(1, 0),
        JobView(job, 3, 1, 1, 1, 0, 0, 1, 0, 0),
        TaskView(job, task, 0, TaskStage.RUNNING, lease, 1, 0, 0, 3600, TaskStage.ENDED),
        CancelBody((task,)),
        TaskResult(1, job, task, 0, _signed_receipt(), b"\x01"),
        Log(lease, task, 1, "stdout", 0, b"hello\n"),
        ReceiptBundle(
            31337, account("controller"), account("escrow"), account("devices"), account("attestations"), account("node"),
            word("root"), 1, 0, (), _signed_receipt(),
        ),
    )  # fmt: skip


def _of_node() -> tuple[object, ...]:
    return (
        HealthView("ok", 31337, 1200, "0.1.0", 2, 0),
        PoolView(
            31337, account("controller"), account("node"), account("escrow"), account("staking"), account("devices"),
            account("attestations"), account("tokens"), account("token"), "USD", 18, "millpond-task:1", "0.1.0", 20_000, 10_000,
            60, 64,
        ),
        BlockView(CID, 400),
    )  # fmt: skip
