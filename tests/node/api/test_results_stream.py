"""The stream of results: where it ends, and how long it lingers for tasks that are still to come."""

import time

import pytest

from millpond_node.api import streams


async def test_results_without_linger_end_with_the_last_task(kit, node) -> None:
    api, job = node.api(), kit.new_job()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 2)
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].open == 0)
        begun = time.monotonic()
        answer = await api.get(f"/v1/jobs/{job}/results?follow=1")
    assert answer.text.count("\n") == 2
    assert time.monotonic() - begun < streams.KEEP_ALIVE_S / 2


async def test_results_that_linger_bring_a_task_submitted_after_the_last_ended(
    kit, node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.3)
    api, job = node.api(), kit.new_job()
    path = f"/v1/jobs/{job}/results?follow=1&linger=1"
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 1)
        begun = time.monotonic()
        lines: list[str] = []
        async with node.client.stream("GET", path, headers=api.headers("GET", path)) as response:
            async for line in response.aiter_lines():
                if not line:
                    continue
                lines.append(line)
                if len(lines) == 1:
                    await api.submit(job, rented.lease, 1, 1)
    assert len(lines) == 2
    assert time.monotonic() - begun >= 1  # it lingers anew after each


@pytest.mark.parametrize("linger", ["61", "-1", "soon"])
async def test_results_with_a_linger_out_of_range_are_refused(kit, node, linger: str) -> None:
    answer = await node.api().get(f"/v1/jobs/{kit.new_job()}/results?follow=1&linger={linger}")
    assert (answer.status_code, answer.json()["error"]) == (400, "QueryError")


async def test_results_that_linger_end_when_the_node_stops(kit, node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.2)
    api, job = node.api(), kit.new_job()
    path = f"/v1/jobs/{job}/results?follow=1&linger=60"
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 1)
        async with node.client.stream("GET", path, headers=api.headers("GET", path)) as response:
            async for line in response.aiter_lines():
                if line:
                    begun = time.monotonic()
                    node.agent.stop()
    assert time.monotonic() - begun < 5
