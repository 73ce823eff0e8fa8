"""The port of the data plane. `BlockSource` reads, `BlockStore` keeps; every byte a caller gets has been verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from millpond.storage.blocks import Block
from millpond.storage.cid import Cid


@dataclass(frozen=True, slots=True)
class Pin:
    """Keeps `cid`, and all it links to if `recursive`, for `owner` until `expires_at` (Unix seconds; None: for ever)."""

    cid: Cid
    owner: str
    expires_at: float | None
    recursive: bool


@dataclass(frozen=True, slots=True)
class StoreStat:
    """`max_bytes` is None where only the disk limits."""

    blocks: int
    bytes: int
    pins: int
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class GcReport:
    blocks_removed: int
    bytes_removed: int
    pins_expired: int


@runtime_checkable
class BlockSource(Protocol):
    """Where blocks can be read."""

    @property
    def name(self) -> str:
        """For errors and logs."""
        ...

    async def get(self, cid: Cid) -> bytes:
        """The verified bytes. Raises `BlockNotFoundError`, `BlockTamperedError`, `SourceError`."""
        ...

    async def has(self, cid: Cid) -> bool: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class BlockSink(BlockSource, Protocol):
    """Where blocks can also be put."""

    async def put(self, block: Block) -> Cid:
        """Durable on return. Raises `StoreFullError`, `StoreFsyncError`, `SourceError`."""
        ...

    async def put_many(self, blocks: Sequence[Block]) -> None:
        """All of them, in one durable group where the backend can."""
        ...


@runtime_checkable
class BlockStore(BlockSink, Protocol):
    """A store of one's own."""

    async def delete(self, cid: Cid) -> bool:
        """Whether it was there. Raises `BlockPinnedError`."""
        ...

    async def pin(self, cid: Cid, owner: str, *, ttl_seconds: float | None = None, recursive: bool = True) -> None:
        """Pin or renew. A pin may come before its blocks."""
        ...

    async def unpin(self, cid: Cid, owner: str) -> bool:
        """Whether the pin was there."""
        ...

    async def pins(self, owner: str | None = None) -> list[Pin]:
        """Pins that have not expired, of one owner or of all."""
        ...

    async def usage(self, owner: str) -> int:
        """Bytes of the blocks that `owner` pins by name (not those only reached from them): the figure for a quota."""
        ...

    async def gc(self, *, min_age_seconds: float = 3600.0) -> GcReport:
        """Remove what no pin reaches and nobody put within `min_age_seconds` (an add in progress has no pin yet)."""
        ...

    async def stat(self) -> StoreStat: ...
