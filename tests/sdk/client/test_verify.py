"""A lying node: what it gives in place of a result never becomes a value."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from millpond._attached import AttachedJob
from millpond._job import Job
from millpond._outcomes import fetch_value
from millpond._verify import Party, Verifier, verifier
from millpond.errors import ResultForgedError
from millpond.protocol import values
from millpond.protocol.hashing import sha256
from millpond.protocol.ids import ZERO_BYTES32, Bytes32, address, bytes32, task_id
from millpond.protocol.messages import SignedOffer, SignedReceipt, TaskResult, TaskSpec
from millpond.protocol.signed import Offer, Receipt
from millpond.protocol.signing import Domain, address_of, sign

KEY, OTHER = b"\x05" * 32, b"\x06" * 32
DOMAIN = Domain(31337, address("0x" + "33" * 20))
LEASE, DEVICE, ELSE = bytes32(b"\x01" * 32), bytes32(b"\x02" * 32), bytes32(b"\x03" * 32)
JOB = bytes32(b"\x04" * 32)
NODE = "https://node.test"
VALUE = values.encode_bytes(42)


def honest(
    job: Bytes32 = JOB, index: int = 0, key: bytes = KEY, value: bytes | None = VALUE, **changes: Any
) -> TaskResult:
    """A result whose receipt `key` signed; `changes` are of the receipt, before it was signed."""
    task = task_id(job, index)
    digest = ZERO_BYTES32 if value is None else bytes32(sha256(value))
    zero = ZERO_BYTES32
    receipt = replace(Receipt(LEASE, task, 1, DEVICE, zero, zero, zero, digest, 10, 11, 0, 0), **changes)
    return TaskResult(
        index + 1, job, task, index, SignedReceipt(receipt, sign(receipt, DOMAIN, key), address_of(key)), value
    )


def tampered(result: TaskResult, **changes: Any) -> TaskResult:
    """The receipt changed after it was signed."""
    assert result.signed is not None
    receipt = replace(result.signed.receipt, **changes)
    return replace(result, signed=replace(result.signed, receipt=receipt))


def strict(job: Bytes32 = JOB) -> Verifier:
    return Verifier(NODE, job, DOMAIN, {LEASE: Party(address_of(KEY), DEVICE)})


def lenient(job: Bytes32 = JOB) -> Verifier:
    return Verifier(NODE, job, DOMAIN)


LIES: dict[str, Callable[[], TaskResult]] = {
    "another value": lambda: replace(honest(), value=values.encode_bytes(43)),
    "a value without a receipt": lambda: replace(honest(), signed=None),
    "a value withheld": lambda: replace(honest(), value=None),
    "a receipt changed to fit another value": lambda: tampered(
        replace(honest(), value=b"x"), resultHash=bytes32(sha256(b"x"))
    ),
    "a receipt of another task": lambda: replace(honest(), signed=honest(index=1).signed),
    "a result of another job": lambda: honest(job=ELSE),
    "a task under another number": lambda: replace(honest(), index=7),
    "a failure told as a success": lambda: tampered(honest(status=1), status=0),
    "no attempt": lambda: honest(attempt=0),
    "no such status": lambda: honest(status=9),
    "a signature cut short": lambda: replace(honest(), signed=replace(honest().signed, signature=b"\x01")),  # type: ignore[type-var]
    "another worker named": lambda: replace(honest(), signed=replace(honest().signed, worker=address_of(OTHER))),  # type: ignore[type-var]
}
LIES_OF_PARTIES: dict[str, Callable[[], TaskResult]] = {
    "a key of the node's own": lambda: honest(key=OTHER),
    "another lease": lambda: honest(lease=ELSE),
    "another device": lambda: honest(device=ELSE),
}


@pytest.mark.parametrize("lie", [*LIES, *LIES_OF_PARTIES])
def test_check_of_a_lie_names_the_node(lie: str) -> None:
    with pytest.raises(ResultForgedError) as caught:
        strict().check((LIES | LIES_OF_PARTIES)[lie]())
    assert caught.value.fields["node"] == NODE
    assert NODE in caught.value.message


@pytest.mark.parametrize("lie", LIES)
def test_check_without_known_leases_still_finds_a_lie(lie: str) -> None:
    with pytest.raises(ResultForgedError):
        lenient().check(LIES[lie]())


def test_check_of_honest_results_passes() -> None:
    strict().check(honest())
    strict().check(honest(value=None))
    strict().check(honest(value=None, status=1))
    strict().check(replace(honest(value=None), signed=None))
    lenient().check(honest(key=OTHER, lease=ELSE))


class LyingNode:
    """Gives what `answer` makes of a job for its every task."""

    url = NODE

    def __init__(self, answer: Callable[[Bytes32], list[TaskResult]]) -> None:
        self.answer = answer

    async def submit(self, _: object) -> dict[str, int]:
        return {}

    async def results(self, job: Bytes32, after: int, **_: object) -> AsyncGenerator[TaskResult, None]:
        for result in self.answer(job):
            if result.cursor > after:
                yield result
        await asyncio.sleep(3600)

    async def job(self, _: Bytes32) -> Any:
        return SimpleNamespace(queued=0, running=0, succeeded=1, failed=0, cancelled=0)


async def test_job_with_one_lie_among_honest_results_fails_that_task_alone() -> None:
    def answer(job: Bytes32) -> list[TaskResult]:
        return [honest(job, 0), replace(honest(job, 1), value=values.encode_bytes(0)), honest(job, 2)]

    job = Job(LyingNode(answer), [LEASE], lambda made: strict(made).check)  # type: ignore[arg-type]
    seen: list[int] = []
    job.watch(lambda result: seen.append(result.index))
    futures = await job.submit([TaskSpec(ZERO_BYTES32, 0, entry="m:f")] * 3)
    first, second, third = await asyncio.gather(*futures, return_exceptions=True)
    await job.aclose()

    assert isinstance(first, TaskResult)
    assert isinstance(third, TaskResult)
    assert isinstance(second, ResultForgedError)
    assert seen == [0, 2]


async def test_attached_job_with_a_lie_raises_it_each_time() -> None:
    node = LyingNode(lambda job: [replace(honest(job), value=values.encode_bytes(0))])
    attached = AttachedJob(node, JOB, lenient().check)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ResultForgedError):
            await attached.result(task_id(JOB, 0))
    await attached.aclose()


async def test_value_by_cid_that_is_another_than_the_receipts_is_refused() -> None:
    async def fetch(_: str) -> bytes:
        return values.encode_bytes("something else, under a CID that is true of it")

    result = honest()
    assert result.signed is not None
    by_cid = replace(result, value=None, signed=replace(result.signed, value_cid="bafkother"))
    strict().check(by_cid)
    with pytest.raises(ResultForgedError, match="not the one"):
        await fetch_value(SimpleNamespace(fetch=fetch, api=LyingNode(lambda _: [])), by_cid)  # type: ignore[arg-type]


def test_lease_whose_offer_another_signed_is_refused() -> None:
    pool = SimpleNamespace(chain_id=DOMAIN.chain_id, attestations=DOMAIN.contract, controller=DOMAIN.contract)
    zero = {
        name: ZERO_BYTES32 if kind == "bytes32" else DOMAIN.contract if kind == "address" else 1
        for kind, name in Offer.FIELDS
    }
    offer = replace(Offer(**zero), device=DEVICE)  # type: ignore[arg-type]
    view = SimpleNamespace(lease=LEASE, worker=address_of(KEY), offer=SignedOffer(offer, sign(offer, DOMAIN, KEY)))
    verifier(pool, NODE, JOB, [view]).check(honest())  # type: ignore[arg-type, list-item]
    view.worker = address_of(OTHER)
    with pytest.raises(ResultForgedError, match="offer"):
        verifier(pool, NODE, JOB, [view])  # type: ignore[arg-type, list-item]
