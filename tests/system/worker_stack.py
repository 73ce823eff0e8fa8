"""A real worker process against a real Anvil and a real node, and a renter by hand, for tests of a worker's leases."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from millpond.chain import devnet
from millpond.chain.address_book import AddressBook
from millpond.chain.bindings import Controller, Escrow, MockToken
from millpond.chain.errors import DevnetError
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet, new_wallet
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.dev.accounts import Account, provider_accounts
from millpond.dev.bootstrap import Pool, bootstrap
from millpond.protocol import wire
from millpond.protocol.ids import ZERO_BYTES32, job_id, task_id
from millpond.protocol.messages import SignedRequest, Submit, TaskResult, TaskSpec, VoucherNote
from millpond.protocol.signed import Request, Voucher
from millpond.protocol.signing import Domain, sign
from millpond.protocol.values import encode_bytes
from millpond.protocol.views import LeaseState, LeaseView
from millpond.storage.blocks import make_block
from millpond.storage.http import HttpSource
from millpond_worker.edge.clock import SystemClock
from millpond_worker.edge.store import EnvelopeAuth
from millpond_worker.home import Home, read_json

CHAIN_ID = 31337
OWNER, WORKER, PAYOUT = provider_accounts(0)
RENTER = development_wallet(Account.RENTER, CHAIN_ID)
NODE = development_wallet(Account.NODE, CHAIN_ID)
CODE = b"def double(x):\n    print('x is', x)\n    return 2 * x\n"
WORKER_MAIN = "import sys; from millpond_worker.cli import main; main(sys.argv[1:])"
NODE_MAIN = "from millpond_node.cli import main; main()"


class Stack:
    """Chain, node and worker of one test. `env` is what its processes get."""

    def __init__(self, folder: Path, rpc_url: str, pool: Pool) -> None:
        self.folder, self.rpc_url, self.pool = folder, rpc_url, pool
        self.port = devnet.free_port()
        self.home = folder / "worker"
        self.processes: list[asyncio.subprocess.Process] = []

    async def command(self, main: str, *arguments: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", main, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        out, _ = await asyncio.wait_for(process.communicate(), 120)
        return process.returncode or 0, out.decode()

    async def worker(self, name: str, *arguments: str) -> Any:
        code, out = await self.command(WORKER_MAIN, name, "--home", str(self.home), "--json", *arguments)
        assert code == 0, out
        return json.loads(out)

    async def start(self, main: str, home: Path, log: str) -> asyncio.subprocess.Process:
        with (self.folder / log).open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", main, "up", "--home", str(home), stdout=out, stderr=out
            )
        self.processes.append(process)
        return process

    async def start_node(self) -> None:
        home = self.folder / "node"
        home.mkdir(exist_ok=True)
        lines = {
            "rpc_url": self.rpc_url,
            "chain_id": CHAIN_ID,
            "controller": self.pool.controller,
            "addresses": str(self.pool.book),
        }
        lines |= {"dev_key": int(Account.NODE), "port": self.port}
        (home / "node.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()))
        await self.start(NODE_MAIN, home, "node.log")

    async def init(self, *more: str, tick_s: int = 10) -> Any:
        return await self.worker(
            "init",
            *("--rpc-url", self.rpc_url, "--chain-id", str(CHAIN_ID), "--controller", self.pool.controller),
            *("--addresses", str(self.pool.book), "--node-url", f"http://127.0.0.1:{self.port}"),
            *("--owner-dev-key", str(OWNER), "--dev-key", str(WORKER), "--launcher", "process"),
            *("--payout", development_wallet(PAYOUT, CHAIN_ID).address, "--allow-renter", RENTER.address),
            *("--device", "cpu", "--memory", "1GiB", "--cores", "2", "--stake", "1000"),
            *("--offer", f"share=600,memory=512MiB,price=3.6/h,tick={tick_s}s"),
            *("--offer", f"share=300,memory=256MiB,price=1.8/h,tick={tick_s}s"),
            *more,
        )

    async def start_worker(self, main: str = WORKER_MAIN) -> asyncio.subprocess.Process:
        return await self.start(main, self.home, "worker.log")

    async def connected(self) -> None:
        await self.until_status(lambda status: status["is_connected"])
        await self.mine_each_second()

    async def mine_each_second(self) -> None:
        """What is set up before is mined at once; what is tested runs on a chain with a block each second."""
        async with Rpc(self.rpc_url, chain_id=CHAIN_ID) as rpc:
            await rpc.call("evm_setIntervalMining", 1)

    async def until_status(self, condition: Any) -> Any:
        """What the running worker shows, once it is as wanted; read where `status` reads it."""
        for _ in range(400):
            status = read_json(Home(self.home).status)
            if status is not None and condition(status):
                return status
            await asyncio.sleep(0.1)
        raise AssertionError((self.folder / "worker.log").read_text()[-3000:])

    async def stop(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), 30)


@asynccontextmanager
async def stack(folder: Path) -> AsyncIterator[Stack]:
    try:
        devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(error.message)
    config = devnet.DevnetConfig(port=devnet.free_port(), accounts=40, block_time_s=0)
    async with devnet.running(config) as chain:
        made = Stack(folder, chain.url, await bootstrap(chain.url, folder, 1))
        try:
            yield made
        finally:
            await made.stop()


class Renter:
    """A renter by hand: nothing of the SDK's client."""

    def __init__(self, it: Stack) -> None:
        book = AddressBook.load(it.pool.book)
        self.it, self.session = it, new_wallet()
        self.rpc = Rpc(it.rpc_url, chain_id=CHAIN_ID)
        eth = Eth(self.rpc)
        self.transactor = Transactor(eth, RENTER, MemoryOutbox())
        self.token, self.escrow = MockToken(eth, it.pool.token), Escrow(eth, book.address("Escrow"))
        self.controller = Controller(eth, it.pool.controller)
        self.attestations = book.address("Attestations")
        self.domain = Domain(CHAIN_ID, self.escrow.address)
        auth = EnvelopeAuth(RENTER.key, Domain(CHAIN_ID, it.pool.controller), NODE.address, SystemClock())
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{it.port}", auth=auth, timeout=40, trust_env=False)

    async def fund(self, amount: int) -> None:
        await self.transactor.start()
        await (await self.transactor.send_call("approve", self.token.approve(self.escrow.address, amount))).mined()
        await (await self.transactor.send_call("deposit", self.escrow.deposit(self.token.address, amount))).mined()

    async def rent(self, share: int, duration: int = 600) -> LeaseView:
        zero, deadline = ZERO_BYTES32, int(time.time()) + 900
        request = Request(
            *(
                RENTER.address,
                self.it.pool.controller,
                self.token.address,
                zero,
                NODE.address,
                0,
                share,
                128,
                100,
                64,
                8,
            ),
            *(10**6, duration, 60, self.session.address, 0, zero, deadline, secrets.randbits(200)),
        )
        signed = SignedRequest(request, sign(request, self.domain, RENTER.key))
        answer = await self.http.post("/v1/requests", content=wire.write(signed))
        name = answer.json()["request"]
        for _ in range(60):
            seen = (await self.http.get(f"/v1/requests/{name}", params={"wait": "2"})).json()
            if seen["lease"]:
                view = wire.read(LeaseView, (await self.http.get(f"/v1/leases/{seen['lease']}?wait=2")).content)
                if view.state is LeaseState.SERVING:
                    return view
        raise AssertionError(seen)

    async def map(self, lease: LeaseView, count: int) -> list[TaskResult]:
        code = make_block(encode_bytes({"main": "job.py", "files": {"job.py": CODE}}))
        await HttpSource(self.http).put(code)
        job = job_id(secrets.token_bytes(32))
        tasks = tuple(
            TaskSpec(task_id(job, i), i, entry="__mp_main__:double", code=code.cid, args=encode_bytes(((i,), {})))
            for i in range(count)
        )
        await self.http.post(f"/v1/jobs/{job}/tasks", content=wire.write(Submit(job, (lease.lease,), tasks)))
        results: list[TaskResult] = []
        async with self.http.stream("GET", f"/v1/jobs/{job}/results?after=0&follow=1") as stream:
            async for line in stream.aiter_lines():
                if line.strip():
                    results.append(wire.read(TaskResult, line))
                if len(results) == count:
                    break
        return results

    async def pay(self, lease: LeaseView, amount: int) -> None:
        note = VoucherNote(lease.lease, amount, sign(Voucher(lease.lease, amount), self.domain, self.session.key))
        await self.http.post(f"/v1/leases/{lease.lease}/vouchers", content=wire.write(note))

    async def close_lease(self, lease: LeaseView) -> None:
        await (
            await self.transactor.send_call(f"close {lease.lease}", self.controller.close_lease(lease.lease))
        ).mined()

    async def settled(self, lease: LeaseView) -> int:
        for _ in range(100):
            account = await self.escrow.lease_account(self.it.pool.controller, lease.lease)
            if account.isSettled:
                return account.collected
            await asyncio.sleep(0.3)
        raise AssertionError("the lease was not settled")

    async def aclose(self) -> None:
        await self.transactor.stop()
        await self.rpc.close()
        await self.http.aclose()
