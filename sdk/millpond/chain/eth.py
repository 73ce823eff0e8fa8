"""Typed questions to a chain, over `Rpc`. Reverts come back as `ContractRevertError` kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millpond.chain.errors import RpcResponseError
from millpond.chain.reverts import from_rpc
from millpond.chain.rpc import Rpc, hex_bytes, quantity
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Address, Bytes32, address, bytes32

BlockTag = int | str


@dataclass(frozen=True, slots=True)
class Header:
    """What is used of a block. `timestamp` in Unix seconds, `base_fee` in wei per gas."""

    number: int
    hash: Bytes32
    parent: Bytes32
    timestamp: int
    base_fee: int


@dataclass(frozen=True, slots=True)
class Log:
    address: Address
    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_hash: Bytes32
    tx_hash: Bytes32
    log_index: int


@dataclass(frozen=True, slots=True)
class TxReceipt:
    """A mined transaction. `gas_price` is what was paid, wei per gas; `created` the address of a plain deployment."""

    tx_hash: Bytes32
    block_number: int
    block_hash: Bytes32
    is_ok: bool
    gas_used: int
    gas_price: int
    logs: tuple[Log, ...]
    created: Address | None = None

    @property
    def cost(self) -> int:
        """Wei paid for gas."""
        return self.gas_used * self.gas_price


class Eth:
    """A chain seen through its RPC servers. All methods raise the errors of `Rpc`."""

    def __init__(self, rpc: Rpc) -> None:
        self.rpc = rpc

    async def chain_id(self) -> int:
        return await self.rpc.connect()

    async def block_number(self) -> int:
        return quantity(await self.rpc.call("eth_blockNumber"), "eth_blockNumber")

    async def header(self, block: BlockTag = "latest") -> Header | None:
        return parse_header(await self.rpc.call("eth_getBlockByNumber", tag(block), False))

    async def headers(self, first: int, last: int) -> list[Header | None]:
        """Headers of the closed range, None where the server has no such block."""
        calls = [("eth_getBlockByNumber", (tag(number), False)) for number in range(first, last + 1)]
        return [parse_header(item) for item in await self.rpc.batch(calls)]

    async def code(self, account: Address, block: BlockTag = "latest") -> bytes:
        return hex_bytes(await self.rpc.call("eth_getCode", account, tag(block)), "eth_getCode")

    async def balance(self, account: Address) -> int:
        """Wei."""
        return quantity(await self.rpc.call("eth_getBalance", account, "latest"), "eth_getBalance")

    async def nonce(self, account: Address, block: BlockTag = "latest") -> int:
        return quantity(await self.rpc.call("eth_getTransactionCount", account, tag(block)), "eth_getTransactionCount")

    async def call(
        self, to: Address, data: bytes, *, sender: Address | None = None, block: BlockTag = "latest", context: str = ""
    ) -> bytes:
        """Result of a read-only call; raises `ContractRevertError` kinds."""
        try:
            return hex_bytes(await self.rpc.call("eth_call", _message(to, data, sender, 0), tag(block)), "eth_call")
        except RpcResponseError as error:
            raise _revert_or(error, context) from error

    async def estimate_gas(self, sender: Address, to: Address, data: bytes, value: int = 0, context: str = "") -> int:
        """Gas the call needs now; raises `ContractRevertError` kinds when it would revert."""
        try:
            answer = await self.rpc.call("eth_estimateGas", _message(to, data, sender, value), "pending")
        except RpcResponseError as error:
            raise _revert_or(error, context) from error
        return quantity(answer, "eth_estimateGas")

    async def send_raw(self, raw: bytes) -> None:
        """Hands a signed transaction to all servers; its hash is `transactions.transaction_hash(raw)`."""
        await self.rpc.broadcast(raw)

    async def receipt(self, tx_hash: Bytes32) -> TxReceipt | None:
        return parse_receipt(await self.rpc.call("eth_getTransactionReceipt", tx_hash))

    async def receipts(self, hashes: Sequence[Bytes32]) -> list[TxReceipt | None]:
        calls = [("eth_getTransactionReceipt", (item,)) for item in hashes]
        return [parse_receipt(item) for item in await self.rpc.batch(calls)] if calls else []

    async def logs(
        self, first: int, last: int, addresses: Sequence[Address], topics: Sequence[bytes | None] = ()
    ) -> list[Log]:
        """Logs of the closed block range, in chain order. `topics` filter by place, None for any."""
        method, params = logs_query(first, last, addresses, topics)
        return parse_logs(await self.rpc.call(method, *params))


def logs_query(
    first: int, last: int, addresses: Sequence[Address], topics: Sequence[bytes | None] = ()
) -> tuple[str, tuple[dict[str, Any]]]:
    """The call for logs of the closed block range."""
    query: dict[str, Any] = {"fromBlock": hex(first), "toBlock": hex(last), "address": list(addresses)}
    if topics:
        query["topics"] = [None if topic is None else "0x" + topic.hex() for topic in topics]
    return "eth_getLogs", (query,)


def tag(block: BlockTag) -> str:
    return hex(block) if isinstance(block, int) else block


def parse_header(item: Any) -> Header | None:
    if item is None:
        return None
    try:
        return Header(
            number=int(item["number"], 16),
            hash=bytes32(item["hash"]),
            parent=bytes32(item["parentHash"]),
            timestamp=int(item["timestamp"], 16),
            base_fee=int(item.get("baseFeePerGas") or "0x0", 16),
        )
    except (KeyError, TypeError, ValueError, AttributeError, MillpondError) as error:
        raise RpcResponseError(f"the RPC sent a malformed block: {error}", method="eth_getBlockByNumber") from error


def parse_logs(found: Any) -> list[Log]:
    """In chain order; raises `RpcResponseError`."""
    if not isinstance(found, list):
        raise RpcResponseError("the RPC answered eth_getLogs with no list", method="eth_getLogs")
    return sorted((parse_log(item) for item in found), key=lambda log: (log.block_number, log.log_index))


def parse_log(item: Any) -> Log:
    try:
        return Log(
            address=address(item["address"]),
            topics=tuple(bytes.fromhex(topic[2:]) for topic in item["topics"]),
            data=bytes.fromhex(item["data"][2:]),
            block_number=int(item["blockNumber"], 16),
            block_hash=bytes32(item["blockHash"]),
            tx_hash=bytes32(item["transactionHash"]),
            log_index=int(item["logIndex"], 16),
        )
    except (KeyError, TypeError, ValueError, AttributeError, MillpondError) as error:
        raise RpcResponseError(f"the RPC sent a malformed log: {error}", method="eth_getLogs") from error


def parse_receipt(item: Any) -> TxReceipt | None:
    if item is None or (isinstance(item, dict) and item.get("blockHash") is None):
        return None
    try:
        return TxReceipt(
            tx_hash=bytes32(item["transactionHash"]),
            block_number=int(item["blockNumber"], 16),
            block_hash=bytes32(item["blockHash"]),
            is_ok=int(item["status"], 16) == 1,
            gas_used=int(item["gasUsed"], 16),
            gas_price=int(item.get("effectiveGasPrice") or "0x0", 16),
            logs=tuple(parse_log(log) for log in item["logs"]),
            created=address(item["contractAddress"]) if item.get("contractAddress") else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, MillpondError) as error:
        raise RpcResponseError(
            f"the RPC sent a malformed receipt: {error}", method="eth_getTransactionReceipt"
        ) from error


def _message(to: Address, data: bytes, sender: Address | None, value: int) -> dict[str, str]:
    message = {"to": to, "data": "0x" + data.hex()}
    if sender is not None:
        message["from"] = sender
    if value:
        message["value"] = hex(value)
    return message


def _revert_or(error: RpcResponseError, context: str) -> MillpondError:
    return from_rpc(error, context) or error
