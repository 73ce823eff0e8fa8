"""How far a follower has come, as a value that can be stored. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millpond.chain.errors import CursorError
from millpond.protocol.ids import Address, Bytes32


@dataclass(frozen=True, slots=True)
class ChainEvent:
    """A contract's event. `args` by the interface's names; structs are dicts, integers `int`, bytes32 hexadecimal text."""

    contract: str
    address: Address
    name: str
    args: dict[str, Any]
    block_number: int
    block_hash: Bytes32
    tx_hash: Bytes32
    log_index: int

    @property
    def id(self) -> str:
        """Unique over reorganisations: the same log in another block is another event."""
        return f"{self.block_hash}:{self.log_index}"


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block the follower has read, and its events."""

    number: int
    hash: Bytes32
    events: tuple[ChainEvent, ...] = ()
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Cursor:
    """`start` is the first block that matters; `blocks` those read that may be replaced, oldest first, gaps allowed."""

    start: int
    blocks: tuple[BlockRef, ...] = ()

    @property
    def next_block(self) -> int:
        return self.blocks[-1].number + 1 if self.blocks else self.start

    def after(self, kept: int) -> tuple[BlockRef, ...]:
        return self.blocks[kept:]

    def rolled_back(self, kept: int) -> Cursor:
        return dataclasses.replace(self, blocks=self.blocks[:kept])

    def extended(self, fresh: Sequence[BlockRef]) -> Cursor:
        return dataclasses.replace(self, blocks=(*self.blocks, *fresh))

    def finalised(self, last: int) -> tuple[Cursor, list[ChainEvent]]:
        """Marks blocks up to `last` final, and returns the events that became so."""
        events = [event for ref in self.blocks if not ref.is_final and ref.number <= last for event in ref.events]
        blocks = tuple(
            dataclasses.replace(ref, is_final=True) if not ref.is_final and ref.number <= last else ref
            for ref in self.blocks
        )
        return dataclasses.replace(self, blocks=blocks), events

    def pruned(self, oldest: int, keeps_events: bool) -> Cursor:
        """Without final blocks below `oldest`, except the newest, and except those with events where `keeps_events`."""
        blocks = tuple(
            ref
            for ref in self.blocks
            if ref.number >= oldest or not ref.is_final or (keeps_events and ref.events) or ref is self.blocks[-1]
        )
        return dataclasses.replace(self, blocks=blocks) if len(blocks) != len(self.blocks) else self

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"), default=_plain)

    @staticmethod
    def from_json(text: str) -> Cursor:
        """Raises `CursorError` when `text` is no cursor."""
        try:
            data = json.loads(text, object_hook=_unplain)
            return Cursor(data["start"], tuple(_ref(item) for item in data["blocks"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CursorError(f"the stored cursor is malformed: {error}") from error


def _ref(data: dict[str, Any]) -> BlockRef:
    events = tuple(ChainEvent(**event) for event in data["events"])
    return BlockRef(data["number"], data["hash"], events, data["is_final"])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"0x": value.hex()}
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _unplain(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["0x"]) if list(value) == ["0x"] else value
