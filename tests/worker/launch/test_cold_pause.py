import asyncio
from typing import Any

from millpond_worker.launch.port import ContainerSpec, Limits, TaskStatus

RENTER = "0x00000000000000000000000000000000000000Aa"

COUNTER = ["sh", "-c", "i=0; while [ $i -lt 12 ]; do i=$((i+1)); echo $i; sleep 0.1; done"]


def cold() -> ContainerSpec:
    return ContainerSpec("lease-1", RENTER, "millpond-task:1", Limits(1000, 256), task="c", attempt=1)


async def test_pause_cold_command_stands_still_and_its_limit_too(real: Any) -> None:
    chunks: list[Any] = []
    call = asyncio.create_task(real.run_cold(cold(), COUNTER, 4.0, chunks.append))
    await _until(lambda: bool(chunks))
    await real.pause_cold("lease-1")
    await asyncio.sleep(0.5)
    seen = len(chunks)
    await asyncio.sleep(4.0)
    assert not call.done()
    assert len(chunks) == seen
    await real.unpause_cold("lease-1")
    outcome = await call
    assert (outcome.status, outcome.exit_code) == (TaskStatus.OK, 0)


async def test_cold_command_that_starts_while_its_lease_is_frozen_waits(real: Any) -> None:
    await real.pause_cold("lease-1")
    call = asyncio.create_task(real.run_cold(cold(), COUNTER, 4.0))
    await asyncio.sleep(3.0)
    assert not call.done()
    await real.unpause_cold("lease-1")
    assert (await call).status is TaskStatus.OK


async def test_pause_cold_of_another_lease_stops_nothing(real: Any) -> None:
    await real.pause_cold("lease-2")
    outcome = await real.run_cold(cold(), ["true"], 20.0)
    assert outcome.status is TaskStatus.OK


async def test_wipe_frozen_cold_command_is_removed(real: Any) -> None:
    call = asyncio.create_task(real.run_cold(cold(), ["sleep", "60"], 90.0))
    await _until_async(real)
    await real.pause_cold("lease-1")
    async with asyncio.timeout(20):
        await real.wipe("lease-1")
        await asyncio.gather(call, return_exceptions=True)
    assert await real.list_owned() == []


async def _until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.05)


async def _until_async(real: Any) -> None:
    async with asyncio.timeout(20):
        while not [found for found in await real.list_owned() if found.is_running]:
            await asyncio.sleep(0.05)
