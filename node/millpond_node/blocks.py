"""Blocks of the pool's leases: who may put and read them, how much, and for how long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from millpond.protocol.ids import Address
from millpond.storage.add import add_bytes
from millpond.storage.blocks import Block, check_block
from millpond.storage.cid import Cid, cid_to_bytes
from millpond.storage.errors import BlockNotFoundError
from millpond.storage.port import BlockStore
from millpond_node.core import Core
from millpond_node.errors import NotAPartyError, QuotaError

MIB = 1 << 20
NODE = "node"
OWN_TTL_S = 90 * 86_400


@dataclass(slots=True)
class Holding:
    """Who put a block, with the time it may go (Unix seconds, 0 for never)."""

    size: int
    owners: dict[str, int] = field(default_factory=dict)


class Blocks:
    """Rows: `block` (owner, size, expiry). A block is readable by who put it and by whoever shares a lease with them."""

    def __init__(self, core: Core, store: BlockStore) -> None:
        self._core, self.store = core, store
        self._held: dict[Cid, Holding] = {}
        self._used: dict[str, int] = {}

    async def put(self, caller: Address, cid: Cid, data: bytes) -> None:
        """Durable on return. Raises `BlockTamperedError`, `BlockTooLargeError`, `QuotaError`, `NotAPartyError`, `StoreFullError`."""
        block = check_block(cid, data)
        held = self._held.get(cid)
        if held is None or caller not in held.owners:
            self._check_quota(caller, len(data))
        await self.store.put(block)
        self._hold(cid, caller, len(data), self._core.now() + self._core.config.limits.block_ttl_s)
        await self._core.durable.settled()
        self._core.counters["blocks_put"] += 1

    async def get(self, caller: Address, cid: Cid) -> bytes:
        """Raises `BlockNotFoundError`, alike for an absent block and another's."""
        self._check_reader(caller, cid)
        return await self.store.get(cid)

    def has(self, caller: Address, cid: Cid) -> int:
        """Its size; raises `BlockNotFoundError`, alike for an absent block and another's."""
        self._check_reader(caller, cid)
        return self._held[cid].size

    async def add_file(self, data: bytes) -> bytes:
        """Stores a file of the node's own, which every caller may read; the digest in its CID."""
        sink = _Recorder(self.store)
        cid = await add_bytes(sink, data)
        for block in sink.put_blocks:
            self._hold(block.cid, NODE, len(block.data), self._core.now() + OWN_TTL_S)
        return cid_to_bytes(cid)[4:]

    def restore(self) -> None:
        for key, value in self._core.journal.scan("block"):
            cid, _, owner = key.partition("/")
            size, expiry = json.loads(value)
            self._held.setdefault(Cid(cid), Holding(size)).owners[owner] = expiry
            self._used[owner] = self._used.get(owner, 0) + size

    async def sweep(self, now: int) -> int:
        """Removes what is over; how many blocks."""
        removed = 0
        for cid, held in list(self._held.items()):
            for owner in [owner for owner, expiry in held.owners.items() if expiry and expiry <= now]:
                del held.owners[owner]
                self._used[owner] -= held.size
                self._core.durable.batch.delete("block", f"{cid}/{owner}")
            if not held.owners:
                del self._held[cid]
                await self.store.delete(cid)
                removed += 1
        self._core.durable.touch()
        return removed

    def used(self, owner: str) -> int:
        return self._used.get(owner, 0)

    def _hold(self, cid: Cid, owner: str, size: int, expiry: int) -> None:
        held = self._held.setdefault(cid, Holding(size))
        if owner not in held.owners:
            self._used[owner] = self._used.get(owner, 0) + size
        held.owners[owner] = expiry
        self._core.durable.batch.put("block", f"{cid}/{owner}", json.dumps([size, expiry]).encode())
        self._core.durable.touch()

    def _check_quota(self, caller: Address, size: int) -> None:
        quota = self._quota(caller) * MIB
        if not quota:
            raise NotAPartyError(f"{caller} has no lease and no request here", remedy="Open a lease, then put blocks.")
        if self.used(caller) + size > quota:
            raise QuotaError(f"{self.used(caller)} of {quota} bytes are used, {size} more do not fit", quota=quota)

    def _quota(self, caller: Address) -> int:
        books, limits = self._core.books, self._core.config.limits
        leases = {**books.leases.by_party.get(caller, {}), **books.leases.by_worker.get(caller, {})}
        if any(not books.leases.records[lease].is_over for lease in leases):
            return limits.block_party_mib
        live = (books.requests.records[hash_].signed.request for hash_ in books.requests.live)
        if leases or any(caller in (request.renter, request.voucherSigner) for request in live):
            return limits.block_request_mib
        return 0

    def _check_reader(self, caller: Address, cid: Cid) -> None:
        held = self._held.get(cid)
        if held is None or not self._may_read(caller, held):
            raise BlockNotFoundError(f"block {cid} is not here", cid=cid, source="node")

    def _may_read(self, caller: Address, held: Holding) -> bool:
        if caller in held.owners or NODE in held.owners:
            return True
        leases = self._core.books.leases
        mine = {**leases.by_party.get(caller, {}), **leases.by_worker.get(caller, {})}
        records = (leases.records[lease] for lease in mine)
        return any({record.renter, record.voucher_signer, record.worker} & held.owners.keys() for record in records)


class _Recorder:
    """A sink that remembers what went through it."""

    name = "node"

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self.put_blocks: list[Block] = []

    async def get(self, cid: Cid) -> bytes:
        return await self._store.get(cid)

    async def has(self, cid: Cid) -> bool:
        return await self._store.has(cid)

    async def put(self, block: Block) -> Cid:
        self.put_blocks.append(block)
        return await self._store.put(block)

    async def put_many(self, blocks: Sequence[Block]) -> None:
        self.put_blocks += blocks
        await self._store.put_many(blocks)

    async def aclose(self) -> None:
        """The store stays open."""
