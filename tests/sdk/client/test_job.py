import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from millpond._job import Job
from millpond.errors import NodeRefusedError, NodeUnreachableError
from millpond.protocol.ids import ZERO_BYTES32, Bytes32, bytes32, task_id
from millpond.protocol.messages import Submit, TaskResult, TaskSpec

LEASE = bytes32(b"\x01" * 32)


class ScriptedNode:
    """Answers `results` with scripted streams; an exception in a stream breaks it there."""

    def __init__(self, streams: Sequence[Sequence[TaskResult | Exception]] = ()) -> None:
        self.submits: list[Submit] = []
        self.streams = list(streams)
        self.cursors: list[int] = []

    async def submit(self, submit: Submit) -> dict[str, int]:
        self.submits.append(submit)
        return {"accepted": len(submit.tasks), "known": 0}

    async def results(self, job: Bytes32, after: int, *, linger_s: int = 0) -> AsyncGenerator[TaskResult, None]:
        self.cursors.append(after)
        for item in self.streams.pop(0) if self.streams else []:
            if isinstance(item, Exception):
                raise item
            yield item
        if not self.streams:
            await asyncio.sleep(3600)


def specs(count: int, args: bytes = b"") -> list[TaskSpec]:
    return [TaskSpec(ZERO_BYTES32, 0, entry="m:f", args=args) for _ in range(count)]


def result(job: Job, index: int, cursor: int) -> TaskResult:
    return TaskResult(cursor, job.id, task_id(job.id, index), index, None, b"%d" % index)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond._job.RECONNECT_PAUSE_S", 0.0)


async def test_submit_of_many_tasks_sends_few_requests_and_numbers_each_once() -> None:
    node = ScriptedNode()
    job = Job(node, [LEASE])  # type: ignore[arg-type]
    await job.submit(specs(600))
    await job.aclose()

    assert sorted(len(item.tasks) for item in node.submits) == [88, 256, 256]
    indices = sorted(spec.index for item in node.submits for spec in item.tasks)
    assert indices == list(range(600))
    assert {spec.id for item in node.submits for spec in item.tasks} == {task_id(job.id, i) for i in range(600)}


async def test_submit_of_large_arguments_keeps_requests_below_their_limit() -> None:
    node = ScriptedNode()
    job = Job(node, [LEASE])  # type: ignore[arg-type]
    await job.submit(specs(200, args=b"x" * 60_000))
    await job.aclose()

    assert max(sum(len(spec.args) * 4 // 3 for spec in item.tasks) for item in node.submits) <= 4 << 20


async def test_results_over_a_broken_stream_are_taken_up_behind_the_cursor() -> None:
    node = ScriptedNode()
    job = Job(node, [LEASE])  # type: ignore[arg-type]
    node.streams = [
        [result(job, 0, 1), NodeUnreachableError("cut")],
        [result(job, 0, 1), result(job, 2, 2), result(job, 1, 3)],
    ]
    seen: list[int] = []
    job.watch(lambda item: seen.append(item.index))
    futures = await job.submit(specs(3))
    values = [item.value for item in await asyncio.gather(*futures)]
    await job.aclose()

    assert values == [b"0", b"1", b"2"]
    assert seen == [0, 2, 1]
    assert node.cursors[:2] == [0, 1]


async def test_results_of_a_refusal_reach_whoever_waits() -> None:
    node = ScriptedNode()
    job = Job(node, [LEASE])  # type: ignore[arg-type]
    node.streams = [[NodeRefusedError("gone")]]
    futures = await job.submit(specs(2))

    with pytest.raises(NodeRefusedError, match="gone"):
        await asyncio.gather(*futures)
    await job.aclose()


async def test_results_of_an_unexpected_error_reach_whoever_waits() -> None:
    node = ScriptedNode()
    job = Job(node, [LEASE])  # type: ignore[arg-type]
    node.streams = [[RuntimeError("bug")]]
    futures = await job.submit(specs(1))

    with pytest.raises(RuntimeError, match="bug"):
        await futures[0]
    await job.aclose()
