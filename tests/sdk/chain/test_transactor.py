"""The transactor against a server that answers nonsense: nothing is lost, nothing stops the loop (O04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from millpond.chain.calls import Call, contract
from millpond.chain.errors import RpcResponseError, RpcUnreachableError
from millpond.chain.eth import Eth
from millpond.chain.keys import development_wallet
from millpond.chain.outbox import MemoryOutbox, TxState
from millpond.chain.reverts import EmptyRevertError
from millpond.chain.rpc import Rpc
from millpond.chain.transactions import transaction_hash
from millpond.chain.transactor import Transactor, TransactorConfig
from millpond.protocol.ids import Address

ALICE = development_wallet(0, 31337)
BOB = Address("0x1111111111111111111111111111111111111111")
WORD = "0x" + "00" * 32


class FakeRpc(Rpc):
    """A chain that mines what it is sent in its next block, until `lies` replaces an answer."""

    def __init__(self) -> None:
        self.url = "fake"
        self.head = 5
        self.mined: dict[str, int] = {}
        self.lies: dict[str, Any] = {}
        self.grows = False

    async def connect(self) -> int:
        return 31337

    async def batch_settled(self, calls: Any) -> list[Any]:
        return [self.answer(method, list(params)) for method, params in calls]

    def answer(self, method: str, params: list[Any]) -> Any:
        self.head += self.grows
        if method in self.lies:
            lie = self.lies[method]
            if isinstance(lie, RpcUnreachableError):
                raise lie
            return lie
        count = hex(self.count(params[1])) if method == "eth_getTransactionCount" else ""
        match method:
            case "eth_getBlockByNumber":
                return self.block()
            case "eth_blockNumber":
                return hex(self.head)
            case "eth_getTransactionCount":
                return count
            case "eth_getBalance":
                return hex(10**18)
            case "eth_maxPriorityFeePerGas":
                return RpcResponseError("no such method")
            case "eth_estimateGas":
                return hex(21_000)
            case "eth_sendRawTransaction":
                self.head += 1
                self.mined[transaction_hash(bytes.fromhex(params[0][2:]))] = self.head
                return "not even the hash"
        assert method == "eth_getTransactionReceipt"
        return self.receipt(params[0])

    def count(self, block: str) -> int:
        last = self.head if block in {"latest", "pending"} else int(block, 16)
        return sum(1 for number in self.mined.values() if number <= last)

    def block(self) -> dict[str, Any]:
        sent = [
            {"from": ALICE.address.lower(), "nonce": hex(nonce), "hash": tx_hash}
            for nonce, tx_hash in enumerate(self.mined)
        ]
        place = {"number": hex(self.head), "hash": WORD, "parentHash": WORD, "timestamp": "0x1", "baseFeePerGas": "0x1"}
        return {**place, "transactions": sent}

    def receipt(self, tx_hash: str) -> Any:
        if tx_hash not in self.mined:
            return None
        return {
            "transactionHash": tx_hash,
            "blockNumber": hex(self.mined[tx_hash]),
            "blockHash": WORD,
            "status": "0x1",
            "gasUsed": hex(21_000),
            "effectiveGasPrice": "0x1",
            "logs": [],
        }


@pytest.fixture
def rpc() -> FakeRpc:
    return FakeRpc()


@pytest.fixture
async def transactor(rpc: FakeRpc) -> AsyncIterator[Transactor]:
    config = TransactorConfig(poll_s=0.01, idle_poll_s=0.05, resend_after_s=0.02)
    async with Transactor(Eth(rpc), ALICE, MemoryOutbox(), config) as made:
        yield made


LIES = [
    ("eth_sendRawTransaction", RpcResponseError("eth_sendRawTransaction: internal error", code=-32603)),
    ("eth_getTransactionReceipt", {"transactionHash": "0x12"}),
    ("eth_getTransactionReceipt", "garbage"),
    ("eth_getTransactionReceipt", None),
    ("eth_blockNumber", None),
    ("eth_getTransactionCount", "-0x1"),
    ("eth_getTransactionCount", 7),
    ("eth_getBlockByNumber", []),
    ("eth_estimateGas", {}),
    ("eth_getBalance", "0xzz"),
    ("eth_blockNumber", RpcUnreachableError("down")),
]


@pytest.mark.parametrize(("method", "lie"), LIES)
async def test_O04_queue_survives_any_nonsense_and_goes_on(
    rpc: FakeRpc, transactor: Transactor, method: str, lie: Any
) -> None:
    rpc.lies[method] = lie
    rpc.grows = True
    handle = await transactor.enqueue("pay", Call(BOB, b"", "pay", 1))
    await asyncio.sleep(0.15)
    assert handle.row.state is not TxState.FINAL
    rpc.lies.clear()
    await handle.mined(7)
    assert len(rpc.mined) == 1


async def test_O10_rpc_gone_after_broadcast_is_waited_out(rpc: FakeRpc, transactor: Transactor) -> None:
    handle = await transactor.send("pay", BOB, b"", 1)
    rpc.lies["eth_getTransactionReceipt"] = RpcUnreachableError("down")
    waiting = asyncio.create_task(handle.mined(9))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    rpc.lies.clear()
    assert (await waiting).gas_used == 21_000


async def test_loop_that_died_of_a_broken_store_tells_who_waits(rpc: FakeRpc, transactor: Transactor) -> None:
    async def broken(row: Any) -> None:
        raise OSError("disk full")

    handle = await transactor.enqueue("pay", Call(BOB, b"", "pay", 1))
    transactor._store.put = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        await handle.mined(5)
    with pytest.raises(OSError, match="disk full"):
        await transactor.stop()


async def test_read_where_there_is_no_contract_says_so(rpc: FakeRpc) -> None:
    rpc.lies["eth_call"] = "0x"
    with pytest.raises(EmptyRevertError, match="no contract at 0x1111"):
        await contract(Eth(rpc), "Escrow", BOB).read("free", BOB, BOB)


async def test_read_with_a_malformed_answer_raises_response_error(rpc: FakeRpc) -> None:
    rpc.lies["eth_call"] = "0x1234"
    with pytest.raises(RpcResponseError, match="no such result"):
        await contract(Eth(rpc), "Escrow", BOB).read("free", BOB, BOB)
