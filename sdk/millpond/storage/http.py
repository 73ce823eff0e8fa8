"""Blocks over HTTP from a node's `/v1/blocks/{cid}`. Nothing a server says is believed before it is hashed."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import httpx

from millpond.storage.blocks import MAX_BLOCK_BYTES, Block, check_block
from millpond.storage.cid import Cid
from millpond.storage.errors import BlockNotFoundError, BlockTooLargeError, SourceError, StoreFullError

_FULL = {413, 507}
_ABSENT = {404, 410}
_MEDIA = "application/vnd.ipld.raw"
NODE_PATH = "/v1/blocks/{cid}"
GATEWAY_PATH = "/ipfs/{cid}?format=raw"
"""What a trustless IPFS gateway serves; such a source only reads."""


class HttpSource:
    """`BlockSink` over a node. GET returns the raw bytes of one block, PUT stores one, HEAD says whether it is there.

    `client` carries the base URL, the signing `auth` and the limits of its connections; it belongs to the caller
    unless made by `connect`. `path` may be `GATEWAY_PATH`. `timeout_seconds` bounds each whole exchange, however slowly the bytes drip.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        name: str = "node",
        path: str = NODE_PATH,
        timeout_seconds: float = 30.0,
        owns: bool = False,
    ) -> None:
        self.name = name
        self._client, self._timeout, self._path, self._owns = client, timeout_seconds, path, owns

    @classmethod
    def connect(
        cls,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        name: str = "node",
        path: str = NODE_PATH,
        timeout_seconds: float = 30.0,
    ) -> HttpSource:
        """A source with a client of its own. Redirects are not followed."""
        client = httpx.AsyncClient(base_url=base_url, auth=auth, timeout=timeout_seconds, follow_redirects=False)
        return cls(client, name=name, path=path, timeout_seconds=timeout_seconds, owns=True)

    async def get(self, cid: Cid) -> bytes:
        request = self._client.build_request(
            "GET", self._url(cid), headers={"accept": _MEDIA, "accept-encoding": "identity"}
        )
        response = await self._exchange(request, cid)
        return check_block(cid, response).data

    async def has(self, cid: Cid) -> bool:
        try:
            await self._exchange(self._client.build_request("HEAD", self._url(cid)), cid)
        except BlockNotFoundError:
            return False
        return True

    async def put(self, block: Block) -> Cid:
        request = self._client.build_request(
            "PUT", self._url(block.cid), content=block.data, headers={"content-type": _MEDIA}
        )
        await self._exchange(request, block.cid)
        return block.cid

    async def put_many(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            await self.put(block)

    async def aclose(self) -> None:
        if self._owns:
            await self._client.aclose()

    def _url(self, cid: Cid) -> str:
        return self._path.format(cid=cid)

    async def _exchange(self, request: httpx.Request, cid: Cid) -> bytes:
        try:
            with anyio.fail_after(self._timeout):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                try:
                    self._check_status(response.status_code, cid)
                    return await self._body(response, cid)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TimeoutException) as error:
            raise SourceError(
                f"{self.name} did not answer within {self._timeout} s", source=self.name, cid=cid
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise SourceError(f"{self.name} could not be reached: {error}", source=self.name, cid=cid) from error

    def _check_status(self, status: int, cid: Cid) -> None:
        if status in _ABSENT:
            raise BlockNotFoundError(f"{self.name} does not have block {cid}", cid=cid, source=self.name)
        if status in _FULL:
            raise StoreFullError(f"{self.name} has no room for block {cid}", cid=cid, source=self.name, status=status)
        if not 200 <= status < 300:
            raise SourceError(
                f"{self.name} answered {status} for block {cid}", cid=cid, source=self.name, status=status
            )

    async def _body(self, response: httpx.Response, cid: Cid) -> bytes:
        """Bytes as they came over the wire (never inflated), cut off at the limit."""
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MAX_BLOCK_BYTES:
                raise BlockTooLargeError(f"{self.name} sends more than a block for {cid}", cid=cid, source=self.name)
        return bytes(body)
