"""Follows contract events through reorganisations: each is Seen, then Final, or Undone when its block was replaced.

Several RPC servers must agree by majority on the blocks and their events; where they do not, nothing is told and the poll raises.

The cursor holds the blocks that may still be replaced, with their events, so that after a restart what was seen can be undone. A
development chain may be rolled back to any depth the cursor holds, also behind final blocks; on any other chain that raises
`ChainRollbackError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from millpond.chain.abi import ContractAbi, decode_event
from millpond.chain.agreement import agreed_batch, agreed_header
from millpond.chain.cursor import BlockRef, ChainEvent, Cursor
from millpond.chain.errors import AbiError, ChainRollbackError, RpcResponseError
from millpond.chain.eth import Eth, Header, Log, logs_query, parse_header, parse_logs
from millpond.chain.finality import DEVELOPMENT_FINALITY, LIVE_FINALITY, finality_of
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.protocol.ids import Address

__all__ = [
    "DEVELOPMENT_FINALITY",
    "LIVE_FINALITY",
    "EventBatch",
    "Final",
    "Follower",
    "FollowerConfig",
    "Notice",
    "Seen",
    "Undone",
]


@dataclass(frozen=True, slots=True)
class Seen:
    """The event is in a block."""

    event: ChainEvent


@dataclass(frozen=True, slots=True)
class Undone:
    """The event's block was replaced; it counts no more. It may come again, in another block."""

    event: ChainEvent


@dataclass(frozen=True, slots=True)
class Final:
    """The event's block is as deep as this chain's finality."""

    event: ChainEvent


Notice = Seen | Undone | Final


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one poll found, in order, and the cursor to store with it. `head` is the newest block looked at, `time` its timestamp."""

    notices: tuple[Notice, ...]
    cursor: Cursor
    head: int
    time: int


@dataclass(frozen=True, slots=True)
class FollowerConfig:
    """Blocks: `finality` (None: 2 on the development chain, else 64), `range_blocks` per `eth_getLogs`, `keep_blocks` of history."""

    finality: int | None = None
    range_blocks: int = 1000
    keep_blocks: int = 256
    poll_s: float = 0.25


class Follower:
    """Events of `contracts` (address -> interface) from `cursor` on. Poll it from one task only.

    A batch is delivered at least once: store its effects and its cursor together, and a crash repeats or loses nothing.
    """

    def __init__(
        self,
        eth: Eth,
        contracts: Mapping[Address, ContractAbi],
        cursor: Cursor,
        config: FollowerConfig | None = None,
    ) -> None:
        self.eth = eth
        self.cursor = cursor
        self.config = config or FollowerConfig()
        self._contracts = dict(contracts)

    async def run(self) -> AsyncIterator[EventBatch]:
        """Batches as blocks come, for ever; polls again at once while it is behind. Raises the errors of `poll`."""
        while True:
            batch = await self.poll()
            if batch is None:
                await asyncio.sleep(self.config.poll_s)
                continue
            yield batch
            if batch.cursor.next_block > batch.head:
                await asyncio.sleep(self.config.poll_s)

    async def poll(self) -> EventBatch | None:
        """What is new, or None. Advances the follower's cursor. Raises the errors of `Rpc`, `RpcDisagreementError`, and `ChainRollbackError`."""
        chain_id = await self.eth.chain_id()
        is_development, finality = chain_id == DEVELOPMENT_CHAIN_ID, finality_of(chain_id, self.config.finality)
        head = await agreed_header(self.eth)
        if self.cursor.blocks and self.cursor.blocks[-1].hash == head.hash:
            return None
        kept = await self._common(head, is_development)
        undone = self.cursor.after(kept)
        if not is_development and any(ref.is_final for ref in undone):
            oldest = next(ref for ref in undone if ref.is_final)
            raise ChainRollbackError(
                f"block {oldest.number}, which was final, was replaced", block=oldest.number, hash=oldest.hash
            )
        cursor = self.cursor.rolled_back(kept) if undone else self.cursor
        fresh = await self._fetch(cursor, head, finality)
        if fresh is None:
            return None
        cursor, final = cursor.extended(fresh).finalised(head.number - finality)
        cursor = cursor.pruned(head.number - finality - self.config.keep_blocks, is_development)
        notices: tuple[Notice, ...] = (
            *(Undone(event) for ref in reversed(undone) for event in reversed(ref.events)),
            *(Seen(event) for ref in fresh for event in ref.events),
            *(Final(event) for event in final),
        )
        if not notices and cursor == self.cursor:
            return None
        self.cursor = cursor
        return EventBatch(notices, cursor, head.number, head.timestamp)

    async def _common(self, head: Header, is_development: bool) -> int:
        """How many of the cursor's blocks the chain still has.

        A live server whose head is behind ours is late rather than rolled back: its missing blocks undo nothing.
        """
        refs = self.cursor.blocks
        step, end = 1, len(refs)
        while end > 0:
            start = max(0, end - step)
            known = await self._headers(head, [ref.number for ref in refs[start:end] if ref.number <= head.number])
            for index in range(end - 1, start - 1, -1):
                found = known.get(refs[index].number)
                is_late = found is None and refs[index].number > head.number and not is_development
                if is_late or (found is not None and found.hash == refs[index].hash):
                    return index + 1
            end, step = start, min(4 * step, 64)
        return 0

    async def _headers(self, head: Header, numbers: list[int]) -> dict[int, Header]:
        calls = [("eth_getBlockByNumber", (hex(number), False)) for number in numbers]
        found = [parse_header(item) for item in await agreed_batch(self.eth, head, calls)]
        return {header.number: header for header in found if header is not None}

    async def _fetch(self, cursor: Cursor, head: Header, finality: int) -> list[BlockRef] | None:
        """The next blocks' references, at most `range_blocks`; None when the chain moved under the questions."""
        first = cursor.next_block
        last = min(head.number, first + self.config.range_blocks - 1)
        if first > last:
            return []
        # Headers before logs: a block replaced in between then keeps its old hash here, and the next poll undoes it.
        headers = await self._headers(head, [*range(max(first, head.number - finality - 1), last), last])
        logs = await self._logs(head, first, last)
        if not _fits(cursor, headers, last, logs):
            return None
        hashes = {log.block_number: log.block_hash for log in logs}
        hashes.update((number, header.hash) for number, header in headers.items())
        events = [event for log in logs if (event := self._event(log)) is not None]
        return [
            BlockRef(number, hashes[number], tuple(event for event in events if event.block_number == number))
            for number in sorted(hashes)
        ]

    async def _logs(self, head: Header, first: int, last: int) -> list[Log]:
        if not self._contracts:
            return []
        [found] = await agreed_batch(self.eth, head, [logs_query(first, last, list(self._contracts))])
        return parse_logs(found)

    def _event(self, log: Log) -> ChainEvent | None:
        """None for an event that the interface does not have."""
        abi = self._contracts.get(log.address)
        signature = abi.events.get(log.topics[0]) if abi is not None and log.topics else None
        if abi is None or signature is None:
            return None
        try:
            args = decode_event(signature, log.topics, log.data)
        except AbiError as error:
            raise RpcResponseError(
                f"the RPC sent a malformed {signature.name}: {error}", method="eth_getLogs"
            ) from error
        return ChainEvent(
            abi.name, log.address, signature.name, args, log.block_number, log.block_hash, log.tx_hash, log.log_index
        )


def _fits(cursor: Cursor, headers: Mapping[int, Header], last: int, logs: list[Log]) -> bool:
    """Whether headers and logs are of one chain that goes on from the cursor."""
    if last not in headers:
        return False
    tip = cursor.blocks[-1] if cursor.blocks else None
    for number, header in headers.items():
        before = headers.get(number - 1)
        if before is not None and header.parent != before.hash:
            return False
        if tip is not None and number == tip.number + 1 and header.parent != tip.hash:
            return False
    return all(headers[log.block_number].hash == log.block_hash for log in logs if log.block_number in headers)
