"""A provider leaves its pool: everything comes out, wherever the command is killed, on a chain whose time is moved."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from worker_stack import CHAIN_ID, OWNER, PAYOUT, WORKER_MAIN, Renter, Stack, stack

from millpond.chain.bindings import Devices, Staking
from millpond.chain.keys import development_wallet
from millpond.protocol.ids import ZERO_ADDRESS

OWNER_ADDRESS, PAYOUT_ADDRESS = (development_wallet(number, CHAIN_ID).address for number in (OWNER, PAYOUT))
KILLED = 9
# Dies as by kill -9 right after each transaction has been handed over, before it is seen mined.
DYING_WORKER = f"""
import os
from millpond_worker import exit as leaving
async def dying(transactor, step):
    await transactor.send_call(f"exit:{{transactor.count}}:{{step.label}}", step.call)
    os._exit({KILLED})
leaving.send_step = dying
{WORKER_MAIN}
"""


class Leaving:
    """Runs `millpond-worker exit` again and again."""

    def __init__(self, it: Stack, renter: Renter) -> None:
        self.it, self.renter = it, renter
        self.deaths = 0

    async def once(self, main: str = WORKER_MAIN) -> tuple[int, Any]:
        arguments = ("exit", "--home", str(self.it.home), "--owner-dev-key", str(OWNER), "--json")
        code, out = await self.it.command(main, *arguments)
        return code, json.loads(out[out.index("{") :]) if code == 0 else out

    async def until_it_waits(self) -> Any:
        """Kills it at each transaction until there is none left to send."""
        for _ in range(20):
            code, answer = await self.once(DYING_WORKER)
            if code == 0:
                return answer
            assert code == KILLED, answer
            self.deaths += 1
        raise AssertionError("it never ends")

    async def pass_to(self, at: int) -> None:
        header = await self.renter.controller.eth.header()
        assert header is not None
        await self.renter.rpc.call("evm_increaseTime", hex(max(1, at - header.timestamp)))
        await self.renter.rpc.call("evm_mine")


@pytest.mark.anvil
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_exit_killed_at_every_transaction_gets_stake_and_earnings_out(tmp_path: Path) -> None:
    async with stack(tmp_path) as it:
        await it.start_node()
        await it.init()
        worker = await it.start_worker()
        await it.connected()
        renter = Renter(it)
        await renter.fund(10**9)
        lease = await renter.rent(500, 3600)
        price = lease.offer.offer.pricePerSecond
        await renter.pay(lease, 5 * price)
        leaving = Leaving(it, renter)

        _, answer = await leaving.once()
        assert answer["waits"][0]["step"] == "drain"
        assert not answer["is_out"]
        await it.until_status(lambda status: [item["voucher"] for item in status["leases"]] == [str(5 * price)])
        await asyncio.sleep(4)
        await renter.close_lease(lease)
        assert await renter.settled(lease) == 5 * price
        await asyncio.wait_for(worker.wait(), 30)

        seen = []
        for _ in range(6):
            answer = await leaving.until_it_waits()
            if answer["is_out"]:
                break
            seen.append({item["step"] for item in answer["waits"]})
            await leaving.pass_to(answer["waits"][0]["until"])
        assert answer["is_out"]
        assert "release exposure" in seen[0]
        assert "complete thaw" in seen[-1]
        assert leaving.deaths >= 5
        await _assert_out(renter, 5 * price)
        assert (await leaving.once())[1] == {"is_out": True, "did": [], "waits": []}
        await renter.aclose()


async def _assert_out(renter: Renter, paid: int) -> None:
    eth, pool, token = renter.controller.eth, renter.controller.address, renter.token
    staking = Staking(eth, await renter.controller.staking())
    provision = await staking.provision_of(pool, OWNER_ADDRESS)
    assert (provision.active, provision.thawing, provision.exposure) == (0, 0, 0)
    assert await token.balance_of(OWNER_ADDRESS) == 10**6 * 10 ** await token.decimals()
    params = await renter.controller.params()
    fees = paid * params.feePpm // 10**6 + paid * params.burnPpm // 10**6
    assert abs(await token.balance_of(PAYOUT_ADDRESS) - (paid - fees)) <= 1
    devices = Devices(eth, await renter.controller.devices())
    owned = json.loads((renter.it.home / "status.json").read_text())["devices"]
    for item in owned:
        assert (await devices.device_of(item["device"])).pool == ZERO_ADDRESS
