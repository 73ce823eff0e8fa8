"""A chain in memory that knows what a deployment does: transfers, the proxy, CREATE2, the allow-list. And a knife that kills its users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import rlp
from coincurve import PublicKey

from millpond.chain import artefacts
from millpond.chain.address_book import DeploymentSettings
from millpond.chain.deploy import proxy
from millpond.chain.deploy.journal import DeployJournal, Record
from millpond.chain.deploy.planner import Goal
from millpond.chain.errors import RpcResponseError
from millpond.chain.keys import new_wallet
from millpond.chain.outbox import MemoryOutbox, OutboxRow
from millpond.chain.rpc import Rpc
from millpond.chain.transactions import create2_address, transaction_hash
from millpond.protocol.hashing import keccak256, to_checksum_address
from millpond.protocol.ids import Address

CHAIN_ID = 424242
DEPLOYER = new_wallet()
GOAL = Goal(DeploymentSettings(DEPLOYER.address), has_test_token=True)
COIN = 10**18
TOKENS_ABI = artefacts.load("Tokens").abi
LIST, IS_LISTED, OWNER = (keccak256(text)[:4] for text in (b"list(address)", b"isListed(address)", b"owner()"))


class Killed(BaseException):
    """The process is gone: nothing may catch it."""


@dataclass
class Knife:
    """Counts the points it passes, and kills at point number `at`; then everything the dead process still tries fails too."""

    at: int = 0
    count: int = 0

    def cut(self) -> None:
        self.count += 1
        if self.at and self.count >= self.at:
            raise Killed

    def around(self, act: Callable[[], Any]) -> Any:
        self.cut()
        result = act()
        self.cut()
        return result


@dataclass
class KnifedJournal:
    inner: DeployJournal
    knife: Knife

    def records(self) -> list[Record]:
        return self.inner.records()

    def append(self, record: Record) -> None:
        self.knife.around(lambda: self.inner.append(record))


class KnifedOutbox(MemoryOutbox):
    """The rows of `inner`, written under the knife."""

    def __init__(self, inner: MemoryOutbox, knife: Knife) -> None:
        self._rows, self._retired, self._knife = inner._rows, inner._retired, knife

    async def put(self, row: OutboxRow) -> None:
        self._knife.cut()
        await super().put(row)
        self._knife.cut()

    async def retire(self, row: OutboxRow) -> None:
        self._knife.cut()
        await super().retire(row)
        self._knife.cut()


@dataclass
class Tx:
    raw: bytes
    sender: Address
    nonce: int
    to: Address
    value: int
    data: bytes

    @property
    def hash(self) -> str:
        return transaction_hash(self.raw)


@dataclass
class SimChain:
    """State, and a pool whose transactions enter a block when somebody asks for the head."""

    has_proxy: bool = False
    head: int = 5
    code: dict[str, bytes] = field(default_factory=dict)
    balances: Counter[str] = field(default_factory=Counter)
    nonces: Counter[str] = field(default_factory=Counter)
    listed: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    reverted: list[str] = field(default_factory=list)
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict)
    pool: list[Tx] = field(default_factory=list)
    presigned: int = 0
    tokens_owner: Address = DEPLOYER.address
    is_mining: bool = True

    def __post_init__(self) -> None:
        self.balances[DEPLOYER.address] = COIN
        if self.has_proxy:
            self.code[proxy.CREATE2_DEPLOYER] = proxy.CODE

    def accept(self, raw: bytes) -> None:
        if raw == proxy.TRANSACTION:
            if self.nonces[proxy.SIGNER] or self.balances[proxy.SIGNER] < proxy.COST:
                raise RpcResponseError("insufficient funds or nonce too low")
            self.nonces[proxy.SIGNER] += 1
            self.presigned += 1
            self.code[proxy.CREATE2_DEPLOYER] = proxy.CODE
            return
        tx = _decode(raw)
        if tx.nonce < self.nonces[tx.sender]:
            raise RpcResponseError("nonce too low")
        if any(tx.hash == known.hash for known in self.pool):
            raise RpcResponseError("already known")
        self.pool.append(tx)

    def mine(self) -> None:
        self.head += 1
        if not self.is_mining:
            return
        for tx in sorted(self.pool, key=lambda tx: tx.nonce):
            if tx.nonce == self.nonces[tx.sender]:
                self.pool.remove(tx)
                self.nonces[tx.sender] += 1
                self._execute(tx)

    def _execute(self, tx: Tx) -> None:
        is_ok = self.would_succeed(tx.to, tx.data, tx.sender)
        if is_ok:
            self._apply(tx)
        else:
            self.reverted.append(tx.hash)
        place = {"blockNumber": hex(self.head), "blockHash": block_hash(self.head)}
        price = {"gasUsed": hex(21_000), "effectiveGasPrice": "0x1"}
        self.receipts[tx.hash] = {"transactionHash": tx.hash, "status": hex(is_ok), "logs": [], **place, **price}

    def _apply(self, tx: Tx) -> None:
        if tx.to == proxy.CREATE2_DEPLOYER:
            where = create2_address(tx.to, tx.data[:32], tx.data[32:])
            self.code[where] = _deployed(tx.data[32:])
            self.effects[f"deploy {where}"] += 1
        elif tx.data[:4] == LIST:
            self.listed[_address(tx.data[4:])] += 1
        else:
            self.balances[tx.sender] -= tx.value
            self.balances[tx.to] += tx.value
            self.effects[f"pay {tx.to}"] += 1

    def would_succeed(self, to: str, data: bytes, sender: str) -> bool:
        if to == proxy.CREATE2_DEPLOYER:
            return create2_address(proxy.CREATE2_DEPLOYER, data[:32], data[32:]) not in self.code
        if data[:4] == LIST:
            return sender == self.tokens_owner and to in self.code and not self.listed[_address(data[4:])]
        return True


class SimRpc(Rpc):
    """The chain as one process reaches it."""

    def __init__(self, chain: SimChain, knife: Knife | None = None) -> None:
        self.url = "sim"
        self.chain = chain
        self.knife = knife or Knife()

    async def connect(self) -> int:
        return CHAIN_ID

    async def close(self) -> None:
        pass

    async def batch_settled(self, calls: Any) -> list[Any]:
        return [self.settled(method, list(params)) for method, params in calls]

    def settled(self, method: str, params: list[Any]) -> Any:
        try:
            return self.answer(method, params)
        except RpcResponseError as error:
            return error

    def answer(self, method: str, params: list[Any]) -> Any:
        chain = self.chain
        match method:
            case "eth_blockNumber":
                chain.mine()
                return hex(chain.head)
            case "eth_getBlockByNumber":
                number = 0 if params[0] == "0x0" else chain.head
                return _block(number)
            case "eth_getCode":
                return "0x" + chain.code.get(params[0], b"").hex()
            case "eth_getBalance":
                return hex(chain.balances[params[0]])
            case "eth_getTransactionCount":
                waiting = sum(tx.sender == params[0] for tx in chain.pool) if params[1] == "pending" else 0
                return hex(chain.nonces[params[0]] + waiting)
            case "eth_maxPriorityFeePerGas":
                return hex(10**9)
            case "eth_estimateGas":
                return self.estimate(params[0])
            case "eth_call":
                return self.call_result(params[0])
            case "eth_getTransactionReceipt":
                return chain.receipts.get(params[0])
        assert method == "eth_sendRawTransaction", method
        return self.knife.around(lambda: chain.accept(bytes.fromhex(params[0][2:])))

    def estimate(self, message: dict[str, str]) -> str:
        if not self.chain.would_succeed(message["to"], bytes.fromhex(message["data"][2:]), message["from"]):
            raise RpcResponseError("execution reverted", code=3, data="0x")
        return hex(1_000_000)

    def call_result(self, message: dict[str, str]) -> str:
        data = bytes.fromhex(message["data"][2:])
        if data[:4] == OWNER:
            return "0x" + self.chain.tokens_owner[2:].rjust(64, "0")
        if data[:4] != IS_LISTED:  # why a transaction reverted
            self.estimate(message)
            return "0x"
        return hex(self.chain.listed[_address(data[4:])]).replace("0x", "0x" + "0" * 63)


def block_hash(number: int) -> str:
    return "0x" + f"{number:064x}"


def _block(number: int) -> dict[str, Any]:
    place = {"number": hex(number), "hash": block_hash(number), "parentHash": block_hash(max(0, number - 1))}
    return {**place, "timestamp": "0x1", "baseFeePerGas": hex(10**9), "transactions": []}


def _deployed(init_code: bytes) -> bytes:
    """The longest bytecode that the init code starts with tells the contract."""
    known = [artefacts.load(name) for name in artefacts.names()]
    return next(item.deployed_bytecode for item in known if item.bytecode and init_code.startswith(item.bytecode))


def _address(word: bytes) -> str:
    return to_checksum_address("0x" + word[12:32].hex())


def _decode(raw: bytes) -> Tx:
    fields = rlp.decode(raw[1:])
    digest = keccak256(b"\x02" + rlp.encode(fields[:9]))
    signature = fields[10].rjust(32, b"\0") + fields[11].rjust(32, b"\0") + (fields[9] or b"\0")
    public = PublicKey.from_signature_and_message(signature, digest, hasher=None).format(compressed=False)
    sender, to = (Address(to_checksum_address("0x" + item.hex())) for item in (keccak256(public[1:])[12:], fields[5]))
    return Tx(raw, sender, int.from_bytes(fields[1], "big"), to, int.from_bytes(fields[6], "big"), fields[7])
