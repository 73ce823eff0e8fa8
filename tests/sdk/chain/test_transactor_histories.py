"""The transactor on a simulated chain that reorganises 1 to 64 deep, forgets its pool and restarts it (O05, O06, O09)."""

from __future__ import annotations

import asyncio
from typing import Any

import rlp
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.chain.errors import RpcResponseError
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox, TxState
from millpond.chain.rpc import Rpc
from millpond.chain.transactions import transaction_hash
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

ALICE = development_wallet(0, 31337)
BOB = Address("0x1111111111111111111111111111111111111111")
BY_HAND = TransactorConfig(poll_s=3600, idle_poll_s=3600, resend_after_s=0.0)


class SimulatedRpc(Rpc):
    """Blocks of transactions of one sender, and a pool. Each block is (salt, hashes)."""

    def __init__(self) -> None:
        self.url = "simulated"
        self.salt = 0
        self.blocks: list[tuple[int, list[str]]] = [(0, [])]
        self.pool: dict[int, str] = {}

    async def connect(self) -> int:
        return 31337

    async def batch_settled(self, calls: Any) -> list[Any]:
        return [self.answer(method, list(params)) for method, params in calls]

    def mine(self, count: int = 1) -> None:
        for _ in range(count):
            self.salt += 1
            first, found = self.mined(), []
            while first + len(found) in self.pool:
                found.append(self.pool.pop(first + len(found)))
            self.blocks.append((self.salt, found))

    def reorganise(self, depth: int, keeps_pool: bool) -> None:
        lost = self.blocks[max(1, len(self.blocks) - depth) :]
        del self.blocks[max(1, len(self.blocks) - depth) :]
        if keeps_pool:
            first = self.mined()
            self.pool |= dict(enumerate((item for _, found in lost for item in found), first))
        for _ in lost:
            self.salt += 1
            self.blocks.append((self.salt, []))

    def mined(self, last: int | None = None) -> int:
        return sum(len(found) for _, found in self.blocks[: None if last is None else last + 1])

    def answer(self, method: str, params: list[Any]) -> Any:
        match method:
            case "eth_blockNumber":
                return hex(len(self.blocks) - 1)
            case "eth_getBlockByNumber":
                return self.block(len(self.blocks) - 1 if params[0] == "latest" else int(params[0], 16))
            case "eth_getTransactionCount":
                return self.count(params[1])
            case "eth_getBalance":
                return hex(10**18)
            case "eth_maxPriorityFeePerGas":
                return "0x1"
            case "eth_estimateGas":
                return hex(21_000)
            case "eth_sendRawTransaction":
                return self.take(bytes.fromhex(params[0][2:]))
        assert method == "eth_getTransactionReceipt"
        return self.receipt(params[0])

    def count(self, block: str) -> str:
        pending = self.mined()
        while block == "pending" and pending in self.pool:
            pending += 1
        return hex(pending if block in {"latest", "pending"} else self.mined(int(block, 16)))

    def take(self, raw: bytes) -> Any:
        nonce, tx_hash = int.from_bytes(rlp.decode(raw[1:])[1], "big"), transaction_hash(raw)
        if nonce < self.mined():
            return RpcResponseError("nonce too low")
        if self.pool.get(nonce) == tx_hash:
            return RpcResponseError("already known")
        self.pool[nonce] = tx_hash
        return tx_hash

    def block(self, number: int) -> dict[str, Any]:
        first = self.mined(number - 1) if number else 0
        salt, found = self.blocks[number]
        sent = [{"from": ALICE.address, "nonce": hex(first + i), "hash": item} for i, item in enumerate(found)]
        word = f"0x{salt:064x}"
        place = {"number": hex(number), "hash": word, "parentHash": word, "timestamp": "0x1", "baseFeePerGas": "0x1"}
        return {**place, "transactions": sent}

    def receipt(self, tx_hash: str) -> Any:
        for number, (salt, found) in enumerate(self.blocks):
            if tx_hash in found:
                return {
                    "transactionHash": tx_hash,
                    "blockNumber": hex(number),
                    "blockHash": f"0x{salt:064x}",
                    "status": "0x1",
                    "gasUsed": hex(21_000),
                    "logs": [],
                }
        return None


STEP = st.one_of(
    st.just(("send",)),
    st.tuples(st.just("mine"), st.integers(1, 40)),
    st.tuples(st.just("reorg"), st.integers(1, 64), st.booleans()),
    st.just(("forget pool",)),
    st.just(("tick",)),
    st.just(("restart",)),
)


async def take_step(rpc: SimulatedRpc, transactor: Transactor, step: Any) -> Transactor:
    match step:
        case ("send",):
            await transactor.send(f"pay {transactor.count}", BOB, b"", transactor.count)
        case ("mine", blocks):
            rpc.mine(blocks)
        case ("reorg", depth, keeps_pool):
            rpc.reorganise(depth, keeps_pool)
        case ("forget pool",):
            rpc.pool.clear()
        case ("tick",):
            await transactor.tick()
        case ("restart",):
            await transactor.stop()
            transactor = Transactor(Eth(rpc), ALICE, transactor._store, BY_HAND)
            await transactor.start()
    return transactor


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEP, max_size=30))
def test_O05_O06_O09_any_history_mines_every_intent_once_in_the_end(steps: list[Any]) -> None:
    async def story() -> None:
        rpc = SimulatedRpc()
        transactor = Transactor(Eth(rpc), ALICE, MemoryOutbox(), BY_HAND)
        await transactor.start()
        for step in [*steps, ("tick",), ("mine", 1), ("tick",), ("mine", 3), ("tick",)]:
            transactor = await take_step(rpc, transactor, step)
        rows = transactor.rows()
        await transactor.stop()
        mined = [item for _, found in rpc.blocks for item in found]
        assert all(row.state is TxState.FINAL for row in rows)
        assert mined == [row.mined_hash for row in sorted(rows, key=lambda row: row.nonce or 0)]

    asyncio.run(story())
