"""One store in front of several sources: local, advertised peers, node, IPFS, in that order."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from millpond.protocol.errors import StorageError
from millpond.storage.blocks import Block
from millpond.storage.cid import Cid
from millpond.storage.errors import BlockNotFoundError, BlockTamperedError, SourceError, StoreFullError
from millpond.storage.port import BlockSource, BlockStore, GcReport, Pin, StoreStat


class LayeredStore:
    """`BlockStore` that reads through to `sources` and keeps what it fetched in `local`.

    A source that fails, is slow (`source_timeout_seconds`) or sends other bytes is passed over; the error says what
    each did. All else (put, pin, gc, stat) is the local store's.
    """

    name = "layered"

    def __init__(
        self, local: BlockStore, sources: Sequence[BlockSource], *, source_timeout_seconds: float = 60.0
    ) -> None:
        self.local, self.sources = local, tuple(sources)
        self._timeout = source_timeout_seconds
        self._fetching: dict[Cid, anyio.Event] = {}

    async def get(self, cid: Cid) -> bytes:
        """Callers who ask for the same block at once share one fetch."""
        while (running := self._fetching.get(cid)) is not None:
            await running.wait()
        failures: dict[str, str] = {}
        data = await self._try(self.local, cid, failures)
        return data if data is not None else await self._fetch(cid, failures)

    async def has(self, cid: Cid) -> bool:
        """Whether it is here now; sources are not asked."""
        return await self.local.has(cid)

    async def put(self, block: Block) -> Cid:
        return await self.local.put(block)

    async def put_many(self, blocks: Sequence[Block]) -> None:
        await self.local.put_many(blocks)

    async def delete(self, cid: Cid) -> bool:
        return await self.local.delete(cid)

    async def pin(self, cid: Cid, owner: str, *, ttl_seconds: float | None = None, recursive: bool = True) -> None:
        await self.local.pin(cid, owner, ttl_seconds=ttl_seconds, recursive=recursive)

    async def unpin(self, cid: Cid, owner: str) -> bool:
        return await self.local.unpin(cid, owner)

    async def pins(self, owner: str | None = None) -> list[Pin]:
        return await self.local.pins(owner)

    async def usage(self, owner: str) -> int:
        return await self.local.usage(owner)

    async def gc(self, *, min_age_seconds: float = 3600.0) -> GcReport:
        return await self.local.gc(min_age_seconds=min_age_seconds)

    async def stat(self) -> StoreStat:
        return await self.local.stat()

    async def aclose(self) -> None:
        for source in (self.local, *self.sources):
            await source.aclose()

    async def _fetch(self, cid: Cid, failures: dict[str, str]) -> bytes:
        if cid in self._fetching:
            return await self.get(cid)
        done = self._fetching[cid] = anyio.Event()
        try:
            return await self._fetch_from_sources(cid, failures)
        finally:
            del self._fetching[cid]
            done.set()

    async def _fetch_from_sources(self, cid: Cid, failures: dict[str, str]) -> bytes:
        for source in self.sources:
            data = await self._try(source, cid, failures)
            if data is not None:
                await self._keep(Block(cid, data))
                return data
        told = "; ".join(f"{name}: {why}" for name, why in failures.items() if name != self.local.name)
        raise BlockNotFoundError(
            f"no source has block {cid}" + (f" ({told})" if told else ""), cid=cid, sources=failures
        )

    async def _try(self, source: BlockSource, cid: Cid, failures: dict[str, str]) -> bytes | None:
        try:
            with anyio.fail_after(self._timeout):
                return await source.get(cid)
        except TimeoutError:
            failures[source.name] = "too slow"
        except (BlockNotFoundError, BlockTamperedError, SourceError) as error:
            failures[source.name] = error.message
        except StorageError as error:
            if source is self.local:
                raise
            failures[source.name] = error.message
        return None

    async def _keep(self, block: Block) -> None:
        """A full local store does not stop a read."""
        try:
            await self.local.put(block)
        except StoreFullError:
            return
