"""Who takes part: keys, pool, offers; and the scenario that every run plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.chain.keys import Wallet, wallet_of
from millpond.protocol.ids import ZERO_BYTES32, Address, Bytes32, device_id, device_uuid_hash, job_id, task_id
from millpond.protocol.messages import SignedRequest, TaskSpec
from millpond.protocol.signed import Request
from millpond.protocol.signing import Domain, sign
from millpond.protocol.values import encode_bytes
from millpond.storage.blocks import make_block
from millpond_node.chain.port import PoolFacts as NodePool
from millpond_worker.devices.port import DeviceInfo, DeviceKind
from millpond_worker.ports import PoolFacts as WorkerPool

CHAIN_ID = 31337


def key(number: int) -> Wallet:
    return wallet_of((7000 + number).to_bytes(32, "big"))


NODE, RENTER, SESSION = key(1), key(2), key(3)
CONTROLLER, ESCROW, STAKING, DEVICES, ATTESTATIONS, TOKENS, TOKEN = (key(100 + n).address for n in range(7))
CONTROLLER_DOMAIN, ESCROW_DOMAIN = Domain(CHAIN_ID, CONTROLLER), Domain(CHAIN_ID, ESCROW)
PRICE, TICK, FUNDS = 1000, 10, 10**12
WORKERS = ("worker-1", "worker-2")


@dataclass(frozen=True, slots=True)
class Host:
    """A worker's machine."""

    name: str
    operator: Wallet
    owner: Address
    info: DeviceInfo

    @property
    def device(self) -> Bytes32:
        return device_id(self.owner, device_uuid_hash(self.info.uuid))


def host(name: str) -> Host:
    number = 10 + WORKERS.index(name)
    info = DeviceInfo(f"cpu-{name}", DeviceKind.CPU, "cpu", 4096, "none", cores=4, host_cores=4, host_ram_mib=4096)
    return Host(name, key(number), key(number + 10).address, info)


HOSTS = {name: host(name) for name in WORKERS}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a run plays. Times in seconds. `tasks`: how many in each job; job n runs on `job_leases[n]`."""

    leases: int = 3
    tasks: tuple[int, ...] = (5, 3)
    job_leases: tuple[tuple[int, ...], ...] = ((0, 1), (2,))
    stay: float = 24.0
    claim_window: int = 90
    dispute_window: int = 30
    most: float = 600.0
    delay: tuple[float, float] = (0.002, 0.05)
    loss: float = 0.0
    fsync: float = 0.004
    block: float = 2.0
    restart: float = 2.0


def worker_pool(scenario: Scenario) -> WorkerPool:
    windows = (60, scenario.claim_window, scenario.dispute_window)
    return WorkerPool(CHAIN_ID, CONTROLLER, ESCROW, DEVICES, ATTESTATIONS, TOKEN, *windows, 86_400)


def node_pool() -> NodePool:
    return NodePool(
        CHAIN_ID, CONTROLLER, NODE.address, ESCROW, STAKING, DEVICES, ATTESTATIONS, TOKENS, TOKEN, "USD", 18, 20_000, 10_000, 60,
        86_400, 2,
    )  # fmt: skip


def request(nonce: int, now: int) -> SignedRequest:
    made = Request(
        renter=RENTER.address, controller=CONTROLLER, token=TOKEN, offer=ZERO_BYTES32, submitter=NODE.address, isolation=0,
        share=400, memoryMiB=512, cpuMilli=0, ramMiB=0, diskMiB=0, maxPricePerSecond=PRICE, duration=3000, depositSeconds=60,
        voucherSigner=SESSION.address, verification=0, data=ZERO_BYTES32, deadline=now + 240, nonce=nonce,
    )  # fmt: skip
    return SignedRequest(made, sign(made, ESCROW_DOMAIN, RENTER.key))


SOURCE = b"def double(x):\n    return 2 * x\n"
BUNDLE = encode_bytes({"main": "job.py", "files": {"job.py": SOURCE}})
CODE = str(make_block(BUNDLE).cid)


def job_of(number: int) -> Bytes32:
    return job_id(bytes([number + 1]) * 32)


def specs(number: int, count: int) -> list[TaskSpec]:
    """The tasks of a job. The last of each is a command in a container of its own."""
    job = job_of(number)
    found = [_spec(job, index) for index in range(count - 1)]
    last: dict[str, Any] = {"command": ("true",)}
    return [*found, TaskSpec(task_id(job, count - 1), count - 1, time_limit_s=600.0, max_attempts=9, **last)]


def _spec(job: Bytes32, index: int) -> TaskSpec:
    args = encode_bytes(((index,), {}))
    return TaskSpec(
        task_id(job, index), index, entry="__mp_main__:double", code=CODE, args=args, time_limit_s=600.0, max_attempts=9
    )
