"""The node's block store as a source and sink of the data plane, with signed requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from millpond._nodeapi import NodeApi
from millpond._together import together
from millpond.errors import NodeRefusedError
from millpond.storage.blocks import Block, check_block
from millpond.storage.cid import Cid
from millpond.storage.errors import BlockNotFoundError

PUTS_IN_FLIGHT = 4


class NodeBlocks:
    """Every block that comes back is verified against its CID."""

    name = "node"

    def __init__(self, api: NodeApi) -> None:
        self._api = api
        self._sent: set[str] = set()

    async def get(self, cid: Cid) -> bytes:
        try:
            return check_block(cid, await self._api.get_block(cid)).data
        except NodeRefusedError as error:
            if error.fields.get("status") == 404:
                raise BlockNotFoundError(f"the node has no block {cid}", cid=cid) from error
            raise

    async def has(self, cid: Cid) -> bool:
        return await self._api.has_block(cid)

    async def put(self, block: Block) -> Cid:
        if block.cid not in self._sent:
            await self._api.put_block(block.cid, block.data)
            self._sent.add(block.cid)
        return block.cid

    async def put_many(self, blocks: Sequence[Block]) -> None:
        gate = asyncio.Semaphore(PUTS_IN_FLIGHT)

        async def send(block: Block) -> None:
            async with gate:
                await self.put(block)

        await together(send(block) for block in blocks)

    async def aclose(self) -> None:
        """The API belongs to its client."""
