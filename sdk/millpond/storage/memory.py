"""The memory tier: a store with a byte budget that drops what was used longest ago.

Blocks are verified when they are made, and memory is trusted after that.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millpond.storage.blocks import Block
from millpond.storage.cid import Cid
from millpond.storage.errors import BlockNotFoundError, BlockPinnedError, StoreFullError
from millpond.storage.port import GcReport, Pin, StoreStat
from millpond.storage.reach import reachable


@dataclass(slots=True)
class _Held:
    data: bytes
    added_at: float


class MemoryStore:
    """`BlockStore` in memory. `max_bytes` bounds the blocks; a block pinned by name is not dropped to make room."""

    name = "memory"

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self._max_bytes, self._clock = max_bytes, clock
        self._held: OrderedDict[Cid, _Held] = OrderedDict()
        self._pins: dict[tuple[Cid, str], Pin] = {}
        self._bytes = 0

    async def get(self, cid: Cid) -> bytes:
        self._held_or_raise(cid)
        self._held.move_to_end(cid)
        return self._held[cid].data

    async def has(self, cid: Cid) -> bool:
        return cid in self._held

    async def put(self, block: Block) -> Cid:
        await self.put_many([block])
        return block.cid

    async def put_many(self, blocks: Sequence[Block]) -> None:
        unique = {block.cid: block.data for block in blocks}
        self._make_room(sum(len(data) for cid, data in unique.items() if cid not in self._held), set(unique))
        for cid, data in unique.items():
            if cid not in self._held:
                self._bytes += len(data)
            self._held[cid] = _Held(data, self._clock())
            self._held.move_to_end(cid)

    async def delete(self, cid: Cid) -> bool:
        if any(pin.cid == cid for pin in self._live()):
            raise BlockPinnedError(f"block {cid} is pinned", cid=cid)
        there = cid in self._held
        self._drop(cid)
        return there

    async def pin(self, cid: Cid, owner: str, *, ttl_seconds: float | None = None, recursive: bool = True) -> None:
        expires = None if ttl_seconds is None else self._clock() + ttl_seconds
        self._pins[cid, owner] = Pin(cid, owner, expires, recursive)

    async def unpin(self, cid: Cid, owner: str) -> bool:
        return self._pins.pop((cid, owner), None) is not None

    async def pins(self, owner: str | None = None) -> list[Pin]:
        return [pin for pin in self._live() if owner in (None, pin.owner)]

    async def usage(self, owner: str) -> int:
        return sum(
            len(self._held[pin.cid].data) for pin in self._live() if pin.owner == owner and pin.cid in self._held
        )

    async def gc(self, *, min_age_seconds: float = 3600.0) -> GcReport:
        now = self._clock()
        expired = [key for key, pin in self._pins.items() if pin.expires_at is not None and pin.expires_at <= now]
        for key in expired:
            del self._pins[key]
        kept = reachable(self._pins.values(), lambda cid: self._held_or_raise(cid).data)
        loose = [cid for cid, held in self._held.items() if cid not in kept and held.added_at < now - min_age_seconds]
        freed = sum(self._drop(cid) for cid in loose)
        return GcReport(len(loose), freed, len(expired))

    async def stat(self) -> StoreStat:
        return StoreStat(len(self._held), self._bytes, len(self._live()), self._max_bytes)

    async def aclose(self) -> None:
        self._held.clear()
        self._bytes = 0

    def _live(self) -> list[Pin]:
        now = self._clock()
        return [pin for pin in self._pins.values() if pin.expires_at is None or pin.expires_at > now]

    def _held_or_raise(self, cid: Cid) -> _Held:
        if cid not in self._held:
            raise BlockNotFoundError(f"block {cid} is not in memory", cid=cid, source=self.name)
        return self._held[cid]

    def _make_room(self, incoming: int, keep: set[Cid]) -> None:
        """Drop the oldest until `incoming` bytes fit; nothing is dropped when they cannot fit at all."""
        over = self._bytes + incoming - self._max_bytes
        if over <= 0:
            return
        keep = keep | {pin.cid for pin in self._live()}
        victims: list[Cid] = []
        for cid, held in self._held.items():
            if over <= 0:
                break
            if cid not in keep:
                victims.append(cid)
                over -= len(held.data)
        if over > 0:
            raise StoreFullError(
                f"{incoming} more bytes do not fit in a memory tier of {self._max_bytes}",
                incoming_bytes=incoming, used_bytes=self._bytes, max_bytes=self._max_bytes,
            )  # fmt: skip
        for cid in victims:
            self._drop(cid)

    def _drop(self, cid: Cid) -> int:
        held = self._held.pop(cid, None)
        size = len(held.data) if held else 0
        self._bytes -= size
        return size
