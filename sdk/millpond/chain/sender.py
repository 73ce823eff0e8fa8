"""What the transactor asks the chain about one sender. With several RPC servers, what decides is asked of a majority."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from millpond.chain import rpc_rules
from millpond.chain.agreement import agreed
from millpond.chain.errors import RpcResponseError
from millpond.chain.eth import Eth, TxReceipt, parse_header, parse_receipt
from millpond.chain.nonces import transaction_at
from millpond.chain.outbox import OutboxRow
from millpond.chain.outbox_rules import ChainView, passed, watched
from millpond.chain.reverts import ContractRevertError, from_rpc
from millpond.chain.rpc import quantity
from millpond.protocol.errors import ChainError
from millpond.protocol.ids import Address, Bytes32

DEFAULT_TIP = 10**9
_COUNT = "eth_getTransactionCount"


@dataclass(frozen=True, slots=True)
class Market:
    """What gas costs now, wei per gas, and what the sender has, wei. `time` is the newest block's, Unix seconds."""

    base_fee: int
    tip: int
    balance: int
    time: int


class Sender:
    """Questions about `address`. All methods raise the errors of `Rpc`, and `RpcDisagreementError`."""

    def __init__(self, eth: Eth, address: Address) -> None:
        self.eth = eth
        self.address = address

    async def view(self, rows: Sequence[OutboxRow], finality: int) -> ChainView:
        """One look at the chain: the sender's nonces, and the receipts of what is not final."""
        hashes = watched(rows)
        questions = [("eth_getTransactionReceipt", (item,)) for item in hashes]
        if self.eth.rpc.is_many:
            found = await agreed(self.eth, lambda at: [(_COUNT, (self.address, hex(at.number))), *questions])
            head, latest, answers = found.header.number, found.answers[0], found.answers[1:]
            pending = await self.eth.rpc.call(_COUNT, self.address, "pending")
        else:
            counts = [(_COUNT, (self.address, block)) for block in ("latest", "pending")]
            number, latest, pending = await self.eth.rpc.batch([("eth_blockNumber", ()), *counts])
            head = quantity(number, "eth_blockNumber")
            answers = await self.eth.rpc.batch(questions) if questions else []
        receipts = {receipt.tx_hash: receipt for item in answers if (receipt := parse_receipt(item)) is not None}
        view = ChainView(head, quantity(latest, _COUNT), quantity(pending, _COUNT), receipts)
        nonces = passed(rows, view)
        return replace(view, taken=await self._takers(nonces, head - finality)) if nonces else view

    async def market(self) -> tuple[Market, ChainView]:
        """Prices, funds and nonces now."""
        answers = await self.eth.rpc.batch_settled(
            [
                ("eth_getBlockByNumber", ("latest", False)),
                ("eth_getBalance", (self.address, "latest")),
                (_COUNT, (self.address, "latest")),
                (_COUNT, (self.address, "pending")),
                ("eth_maxPriorityFeePerGas", ()),
            ]
        )
        for answer in answers[:4]:
            if isinstance(answer, RpcResponseError):
                raise answer
        header = parse_header(answers[0])
        if header is None:
            raise RpcResponseError("the RPC knows no latest block", method="eth_getBlockByNumber")
        has_tip = not isinstance(answers[4], RpcResponseError)
        tip = quantity(answers[4], "eth_maxPriorityFeePerGas") if has_tip else DEFAULT_TIP
        market = Market(header.base_fee, tip, quantity(answers[1], "eth_getBalance"), header.timestamp)
        latest = await self._count() if self.eth.rpc.is_many else quantity(answers[2], _COUNT)
        return market, ChainView(header.number, latest, quantity(answers[3], _COUNT))

    async def estimate(self, row: OutboxRow) -> int:
        """Gas the call needs; raises `ContractRevertError` kinds when it would revert, with several servers by a majority's word."""
        try:
            return await self.eth.estimate_gas(self.address, row.to, row.data, row.value, row.label)
        except ContractRevertError:
            if not self.eth.rpc.is_many:
                raise
            found = await self._estimates(row)
            if not found:
                raise
            return max(found)

    async def receipt(self, tx_hash: Bytes32) -> TxReceipt | None:
        if not self.eth.rpc.is_many:
            return await self.eth.receipt(tx_hash)
        found = await agreed(self.eth, lambda _: [("eth_getTransactionReceipt", (tx_hash,))])
        return parse_receipt(found.answers[0])

    async def why_reverted(self, row: OutboxRow, receipt: TxReceipt) -> ContractRevertError:
        """The contract's error behind a mined transaction that failed, as far as the server keeps that block's state."""
        context = row.label or row.key
        try:
            await self.eth.call(row.to, row.data, sender=self.address, block=receipt.block_number - 1, context=context)
        except ContractRevertError as error:
            error.fields["tx_hash"] = receipt.tx_hash
            return error
        except ChainError:
            pass  # the server keeps no state of that block, and so no reason
        return ContractRevertError(f"{context}: reverted on chain", tx_hash=receipt.tx_hash, gas_used=receipt.gas_used)

    async def _count(self) -> int:
        found = await agreed(self.eth, lambda at: [(_COUNT, (self.address, hex(at.number)))])
        return quantity(found.answers[0], _COUNT)

    async def _estimates(self, row: OutboxRow) -> list[int]:
        """Of the servers where the call works; none where a majority says that it reverts."""
        message = {"from": self.address, "to": row.to, "data": "0x" + row.data.hex(), "value": hex(row.value)}
        quorum = rpc_rules.quorum_of(len(self.eth.rpc.urls))
        answers = await self.eth.rpc.ask_all([("eth_estimateGas", (message, "pending"))], quorum)
        reverts = [item for [item] in answers.values() if isinstance(item, RpcResponseError) and from_rpc(item)]
        if len(reverts) >= quorum:
            return []
        return [quantity(item, "eth_estimateGas") for [item] in answers.values() if isinstance(item, str)]

    async def _takers(self, nonces: list[int], last: int) -> dict[int, Bytes32]:
        """The transactions that final blocks hold under our nonces, as far as the server can tell."""
        found = {}
        for nonce in nonces:
            with contextlib.suppress(RpcResponseError):  # the server may keep no state of those blocks
                found[nonce] = await transaction_at(self.eth, self.address, nonce, last)
        return {nonce: tx_hash for nonce, tx_hash in found.items() if tx_hash is not None}
