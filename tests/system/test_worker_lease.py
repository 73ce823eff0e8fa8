"""A real worker process against a real Anvil and a real node: init, up, a lease with tasks, pay, close, collect, withdraw, stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from worker_stack import CHAIN_ID, WORKER_MAIN, Renter, stack

from millpond.protocol.receipts import check_signature
from millpond.protocol.signing import Domain
from millpond.protocol.values import decode


@pytest.mark.anvil
@pytest.mark.timeout(240)
async def test_worker_serves_a_lease_from_init_to_withdrawal(tmp_path: Path) -> None:
    async with stack(tmp_path) as it:
        await it.start_node()
        first = await it.init()
        assert next(step["step"] for step in first["steps"] if step["tx"]) == "register provider"
        again = await it.init()
        assert not [step for step in again["steps"] if step["tx"]]
        process = await it.start_worker()
        await it.connected()
        renter = Renter(it)
        await renter.fund(10**9)
        lease = await renter.rent(500)
        results = sorted(await renter.map(lease, 8), key=lambda result: result.index)
        assert [decode(result.value or b"") for result in results] == [2 * i for i in range(8)]
        for result in results:
            check_signature(result.signed, Domain(CHAIN_ID, renter.attestations))
        await renter.pay(lease, lease.offer.offer.pricePerSecond)
        await it.until_status(lambda status: [item for item in status["leases"] if item["voucher"] != "0"])
        await renter.close_lease(lease)
        collected = await renter.settled(lease)
        assert collected == lease.offer.offer.pricePerSecond
        status = await it.until_status(lambda status: status["devices"][0]["free_share"] == 1000)
        assert status["leases"][0]["state"] == "clean"
        earned = await it.worker("earnings")
        assert 0 < int(earned["owed"]) <= collected
        assert (await it.worker("withdraw"))["amount"] == earned["owed"]
        assert (await it.worker("earnings"))["withdrawn"] == earned["owed"]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
        await renter.aclose()


@pytest.mark.anvil
@pytest.mark.timeout(240)
async def test_O11_worker_killed_hard_serves_its_lease_again_and_second_worker_is_refused(tmp_path: Path) -> None:
    async with stack(tmp_path) as it:
        await it.start_node()
        await it.init()
        process = await it.start_worker()
        await it.connected()
        code, out = await it.command(WORKER_MAIN, "up", "--home", str(it.home), "--json")
        assert (code, json.loads(out)["error"]) == (3, "WorkerRunningError")
        renter = Renter(it)
        await renter.fund(10**9)
        lease = await renter.rent(500)
        assert len(await renter.map(lease, 2)) == 2
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        await it.start_worker()
        await it.until_status(
            lambda status: status["is_connected"] and [item["state"] for item in status["leases"]] == ["ready"]
        )
        results = await renter.map(lease, 3)
        assert sorted(decode(result.value or b"") for result in results) == [0, 2, 4]
        await renter.close_lease(lease)
        await renter.settled(lease)
        await renter.aclose()
