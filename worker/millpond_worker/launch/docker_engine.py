"""The few calls of Docker's Engine API the launcher makes, with their failures as typed errors. The only module that loads aiodocker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ContainerGoneError, EngineRefusedError, EngineUnavailableError, ImageMissingError

if TYPE_CHECKING:
    from aiodocker import Docker
    from aiodocker.containers import DockerContainer
    from aiohttp import StreamReader

CALL_TIMEOUT_S = 30.0
STATS_TIMEOUT_S = 5.0
PULL_TIMEOUT_S = 1800.0
STREAM_HEADER = struct.Struct(">B3xI")
NOT_FOUND, CONFLICT, NOT_MODIFIED = 404, 409, 304
T = TypeVar("T")


def _load() -> type[Docker]:
    try:
        from aiodocker import Docker
    except ImportError as error:
        raise EngineUnavailableError(
            "the docker launcher needs aiodocker",
            remedy="Install it: pip install 'millpond[worker]'.",
            engine="docker",
            address="",
        ) from error
    return Docker


class DockerEngine:
    """One connection pool to the engine, opened at first use."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address or ""
        self._client: Docker | None = None

    def _docker(self) -> Docker:
        if self._client is None:
            try:
                self._client = _load()(url=self.address or None)
            except ValueError as error:
                raise self._unavailable(error) from error
            except AssertionError as error:  # what aiodocker says where it finds no socket at all
                raise self._unavailable(FileNotFoundError("no socket of an engine was found")) from error
        return self._client

    def _unavailable(self, error: Exception) -> EngineUnavailableError:
        return EngineUnavailableError(f"Docker does not answer: {error}", engine="docker", address=self.address)

    async def _call(self, action: Callable[[Docker], Awaitable[T]], timeout_s: float = CALL_TIMEOUT_S) -> T:
        from aiodocker.exceptions import DockerError
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(timeout_s):
                return await action(self._docker())
        except DockerError as error:
            if error.status >= 900:
                raise self._unavailable(error) from error
            raise EngineRefusedError(
                f"Docker refused: {error.message}", status=error.status, reason=error.message
            ) from error
        except (ClientError, OSError, TimeoutError) as error:
            raise self._unavailable(error) from error

    async def version(self) -> dict[str, Any]:
        return dict(await self._call(lambda docker: docker.version()))

    async def info(self) -> dict[str, Any]:
        return dict(await self._call(lambda docker: docker.system.info()))

    async def image(self, name: str) -> dict[str, Any]:
        """Raises `ImageMissingError`."""
        try:
            return dict(await self._call(lambda docker: docker.images.inspect(name)))
        except EngineRefusedError as error:
            raise ImageMissingError(f"the image {name} is not here", image=name) from error

    async def pull(self, name: str) -> None:
        """Raises `ImageMissingError`."""
        try:
            await self._call(lambda docker: docker.images.pull(name, timeout=PULL_TIMEOUT_S), PULL_TIMEOUT_S)
        except EngineRefusedError as error:
            raise ImageMissingError(
                f"the image {name} cannot be pulled: {error.fields['reason']}", image=name
            ) from error

    async def create(self, config: dict[str, Any], name: str) -> str:
        container = await self._call(lambda docker: docker.containers.create(config, name=name))
        return container.id

    def _container(self, docker: Docker, container: str) -> DockerContainer:
        return docker.containers.container(container)

    async def start(self, container: str) -> None:
        await self._call(lambda docker: self._container(docker, container).start())

    async def wait(self, container: str) -> int:
        """The exit code, once it has ended."""
        found = await self._call(
            lambda docker: self._container(docker, container).wait(timeout=None), 10 * 365 * 86400.0
        )
        return int(found["StatusCode"])

    async def show(self, container: str) -> dict[str, Any]:
        """Raises `ContainerGoneError`."""
        try:
            return await self._call(lambda docker: self._container(docker, container).show())
        except EngineRefusedError as error:
            raise ContainerGoneError("the container is gone", container=container) from error

    async def stats(self, container: str) -> dict[str, Any]:
        """One reading of the engine's figures. Raises `ContainerGoneError`."""
        wanted = {"stream": "false", "one-shot": "true"}
        try:
            found = await self._call(
                lambda docker: docker._query_json(f"containers/{container}/stats", params=wanted), STATS_TIMEOUT_S
            )
        except EngineRefusedError as error:
            raise ContainerGoneError("the container is gone", container=container) from error
        if not isinstance(found, dict):  # the engine says null of a container that ends while it is asked
            raise ContainerGoneError("the container is gone", container=container)
        return found

    async def list(self, label: Mapping[str, str]) -> list[dict[str, Any]]:
        """Summaries of running and ended containers with these labels."""
        import json

        filters = json.dumps({"label": [f"{key}={value}" for key, value in label.items()]})
        found = await self._call(lambda docker: docker.containers.list(all=True, filters=filters))
        return [dict(container._container) for container in found]

    async def kill(self, container: str) -> None:
        await self._quietly(lambda docker: self._container(docker, container).kill())

    async def remove(self, container: str) -> None:
        """Kills and removes, with the container's anonymous volumes."""
        await self._quietly(lambda docker: self._container(docker, container).delete(force=True, v=True))

    async def pause(self, container: str) -> None:
        await self._quietly(lambda docker: self._container(docker, container).pause())

    async def unpause(self, container: str) -> None:
        await self._quietly(lambda docker: self._container(docker, container).unpause())

    async def _quietly(self, action: Callable[[Docker], Awaitable[Any]]) -> None:
        """For calls whose aim is already reached when the engine says so."""
        try:
            await self._call(action)
        except EngineRefusedError as error:
            if error.fields["status"] not in (NOT_FOUND, CONFLICT, NOT_MODIFIED):
                raise

    @asynccontextmanager
    async def streams(self, container: str) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        """What the container writes, from its first byte on: (stream, bytes). Raises `ContainerGoneError`."""
        from aiodocker.exceptions import DockerError
        from aiohttp import ClientTimeout

        wanted = {"stdout": True, "stderr": True, "follow": True}
        timeout = ClientTimeout(total=None, sock_connect=CALL_TIMEOUT_S)
        async with AsyncExitStack() as exits:
            query = self._docker()._query(f"containers/{container}/logs", params=wanted, timeout=timeout)
            try:
                response = await exits.enter_async_context(query)
            except DockerError as error:
                raise ContainerGoneError(f"the container is gone: {error.message}", container=container) from error
            yield _messages(response.content)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


async def _messages(content: StreamReader) -> AsyncIterator[tuple[str, bytes]]:
    """Docker's multiplexed stream taken apart. A frame is one write of the container's, often one line: what has come is joined."""
    rest = b""
    while data := await content.readany():
        found, rest = take_frames(rest + data)
        for message in found:
            yield message


def take_frames(data: bytes) -> tuple[list[tuple[str, bytes]], bytes]:
    """Whole frames, neighbours of one stream joined, and the bytes of the frame that is not whole yet.

    A frame is one byte of stream, three of nothing, four of length, then the bytes.
    """
    parts: list[tuple[str, list[bytes]]] = []
    at = 0
    while at + STREAM_HEADER.size <= len(data):
        number, length = STREAM_HEADER.unpack_from(data, at)
        start = at + STREAM_HEADER.size
        if start + length > len(data):
            break
        stream = "stderr" if number == 2 else "stdout"
        if not parts or parts[-1][0] != stream:
            parts.append((stream, []))
        parts[-1][1].append(data[start : start + length])
        at = start + length
    return [(stream, b"".join(pieces)) for stream, pieces in parts], data[at:]
