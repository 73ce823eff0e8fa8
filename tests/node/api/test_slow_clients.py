"""A06, O15: what a client leaves open is cut off, and costs the node a bounded amount."""

import asyncio
import json
import time

import pytest

from millpond.protocol.signing import address_of
from millpond_node.api.http import MAX_HEAD_BYTES
from millpond_node.auth import MAX_BUCKETS, Buckets


@pytest.fixture
async def hasty(kit, start):
    """A node that waits half a second for anything."""
    return await start(
        limits=kit.Limits(head_seconds=0.5, body_seconds=0.5, stall_seconds=0.5, connections_per_address=20)
    )


async def opened(node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = node.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def answered(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the connection is cut."""
    async with asyncio.timeout(8):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def test_A06_connection_that_sends_nothing_is_cut(hasty) -> None:
    reader, writer = await opened(hasty)
    assert await answered(reader) == b""
    writer.close()


async def test_A06_head_that_drips_is_cut(hasty) -> None:
    reader, writer = await opened(hasty)
    began = time.monotonic()
    for byte in b"GET /v1/health HTTP/1.1\r\nhost: x\r\nx-slow: " + b"a" * 200:
        if writer.is_closing() or reader.at_eof():
            break
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)
    assert await answered(reader) == b""
    assert time.monotonic() - began < 5
    writer.close()


async def test_A06_second_head_on_a_kept_connection_is_cut_too(hasty) -> None:
    reader, writer = await opened(hasty)
    writer.write(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/hea")
    assert (await answered(reader)).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_A06_body_that_drips_is_a_typed_408(hasty) -> None:
    reader, writer = await opened(hasty)
    writer.write(b"POST /v1/requests HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n{")
    answer = await answered(reader)
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"] == "SlowBodyError"
    writer.close()


async def test_A01_head_without_end_is_refused_and_not_kept(hasty) -> None:
    reader, writer = await opened(hasty)
    writer.write(b"GET /v1/health HTTP/1.1\r\nhost: x\r\n" + b"x-many: aaaaaaaaaa\r\n" * (2 * MAX_HEAD_BYTES // 20))
    answer = await answered(reader)
    assert answer.startswith(b"HTTP/1.1 431")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"] == "HeadError"
    writer.close()


@pytest.mark.parametrize(
    "bytes_", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n"]
)
async def test_A01_bytes_that_are_no_request_get_a_typed_400(hasty, bytes_) -> None:
    reader, writer = await opened(hasty)
    writer.write(bytes_)
    answer = await answered(reader)
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"] == "MalformedError"
    writer.close()


async def test_A06_connections_of_an_address_are_bounded_and_given_back(hasty) -> None:
    held = [await opened(hasty) for _ in range(30)]
    await asyncio.sleep(0.2)
    cut = sum(reader.at_eof() for reader, _ in held)
    assert cut >= 10
    for _, writer in held:
        writer.close()
    await asyncio.sleep(0.2)
    assert (await hasty.client.get("/v1/health")).status_code == 200


async def test_O15_results_nobody_reads_are_cut_and_hold_bounded_memory(kit, hasty) -> None:
    api, job, value = hasty.api(), kit.new_job(), bytes(60_000)
    runner = lambda run: (0, value)  # noqa: E731
    async with hasty.worker(runner=runner).connected() as worker:
        rented = await api.rent(worker)
        for first in range(0, 300, 100):
            await api.submit(job, rented.lease, 100, first)
        await kit.wait_for(lambda: hasty.agent.core.books.desk.jobs[job].open == 0, 30)
        path = f"/v1/jobs/{job}/results?after=0&follow=1"
        reader, writer = await opened(hasty)
        head = "".join(f"{name}: {value}\r\n" for name, value in api.headers("GET", path).items())
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
        await kit.wait_for(lambda: hasty.agent.streams.total() == 1)
        await kit.wait_for(lambda: hasty.agent.streams.total() == 0)
    got = await answered(reader)
    assert 0 < len(got) < 8 << 20  # of 24 MB
    writer.close()


async def test_A06_streams_of_one_signer_are_bounded_and_others_go_on(kit, start) -> None:
    node = await start(limits=kit.Limits(followers_per_signer=2))
    api, job = node.api(), kit.new_job()
    async with node.worker(runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 1)
        path = f"/v1/jobs/{job}/results?follow=1"
        held = [await opened(node) for _ in range(2)]
        for _, writer in held:
            head = "".join(f"{name}: {value}\r\n" for name, value in api.headers("GET", path).items())
            writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n".encode())
        await kit.wait_for(lambda: node.agent.streams.total() == 2)
        answer = await api.get(path)
        assert (answer.status_code, answer.json()["error"]) == (429, "BacklogError")
        assert int(answer.headers["retry-after"]) >= 1
        for _, writer in held:
            writer.close()
        await kit.wait_for(lambda: node.agent.streams.total() == 0)


async def test_A06_unknown_paths_count_like_any_other(kit, start) -> None:
    node = await start(limits=kit.Limits(rate_per_address=0.001, burst_per_address=2))
    statuses = [(await node.client.get("/v1/nothing")).status_code for _ in range(3)]
    assert statuses == [404, 404, 429]


def test_A06_ten_thousand_signers_hold_bounded_memory_and_the_busy_one_stays_limited() -> None:
    buckets = Buckets(1.0, 2.0, most=1000)
    busy = address_of(b"\1" * 32)
    for number in range(10_000):
        buckets.take(f"0x{number:040x}", 0.0)
        if number % 100 == 0:
            buckets.take(busy, 0.0)
    assert len(buckets) == 1000
    assert buckets.take(busy, 0.0) > 0


def test_A06_bucket_fills_with_time_and_says_how_long_it_takes() -> None:
    buckets = Buckets(2.0, 1.0)
    assert buckets.take("a", 100.0) == 0
    assert buckets.take("a", 100.0) == pytest.approx(0.5)
    assert buckets.take("a", 100.5) == 0
    assert MAX_BUCKETS >= 10_000
