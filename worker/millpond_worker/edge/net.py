"""The line to the node: a WebSocket whose upgrade is signed with the operator key."""

from __future__ import annotations

import secrets
from urllib.parse import SplitResult, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from millpond.protocol.envelope import seal
from millpond.protocol.ids import Address
from millpond.protocol.signing import Domain
from millpond.protocol.wire import MAX_MESSAGE_BYTES
from millpond_worker.errors import NodeRefusedError, NodeUnreachableError
from millpond_worker.ports import Clock, Line, NodeRef

PATH = "/v1/worker"
OPEN_TIMEOUT_S = 10.0
PING_S = 10.0
MAX_SHOWN = 500


class WebSocketLine:
    """`Line` over one WebSocket."""

    def __init__(self, socket: ClientConnection, url: str) -> None:
        self._socket, self._url = socket, url

    async def send(self, frame: bytes) -> None:
        try:
            await self._socket.send(frame, text=True)
        except (WebSocketException, OSError) as error:
            raise self._cut(error) from error

    async def receive(self) -> bytes:
        try:
            return await self._socket.recv(decode=False)
        except (WebSocketException, OSError) as error:
            raise self._cut(error) from error

    async def close(self) -> None:
        await self._socket.close()

    def _cut(self, error: Exception) -> NodeUnreachableError:
        return NodeUnreachableError(f"the connection to {self._url} ended: {error}", url=self._url)


class WebSocketNet:
    """`Net` that signs as the operator for the pool's controller."""

    def __init__(self, key: bytes, chain_id: int, controller: Address, clock: Clock) -> None:
        self._key, self._domain, self._clock = key, Domain(chain_id, controller), clock

    async def connect(self, node: NodeRef) -> Line:
        url = socket_url(node.url)
        path = urlsplit(url).path
        nonce = secrets.randbits(256)
        headers = seal(self._key, self._domain, node.address, "GET", path, b"", nonce, self._clock.now())
        try:
            socket = await connect(
                url,
                additional_headers=headers,
                max_size=2 * MAX_MESSAGE_BYTES,
                open_timeout=OPEN_TIMEOUT_S,
                ping_interval=PING_S,
                ping_timeout=2 * PING_S,
                close_timeout=2.0,
                compression=None,
                proxy=None,
            )
        except InvalidStatus as error:
            raise _refused(error, url) from error
        except (WebSocketException, OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise NodeUnreachableError(f"no connection to the node at {url}: {reason}", url=url) from error
        return WebSocketLine(socket, url)


def socket_url(url: str) -> str:
    """`http://host:port/prefix` -> `ws://host:port/prefix/v1/worker`. Raises `NodeUnreachableError` for what is no URL, and for other schemes."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    scheme = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}.get(parts.scheme)
    if scheme is None or not parts.netloc:
        raise NodeUnreachableError(f"{url!r} is no address of a node", url=url, remedy="Write it as http://host:port.")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


def _refused(error: InvalidStatus, url: str) -> NodeRefusedError:
    body = bytes(error.response.body or b"").decode(errors="replace")[:MAX_SHOWN]
    status = error.response.status_code
    return NodeRefusedError(f"the node at {url} answered {status}: {body}", url=url, status=status)
