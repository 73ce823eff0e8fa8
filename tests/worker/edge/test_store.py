"""The worker's data plane: what holds over real HTTP and in memory alike, and what only a node that is away or lies can do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from worker_world import CHAIN_ID, CONTROLLER, NODE, OPERATOR, some32

from millpond.protocol.envelope import open_envelope
from millpond.protocol.errors import StorageError
from millpond.protocol.ids import Address
from millpond.protocol.signing import Domain
from millpond.storage.blocks import MAX_BLOCK_BYTES, Block
from millpond.storage.cid import cid_of, parse_cid
from millpond.storage.errors import (
    BlockNotFoundError,
    BudgetExceededError,
    CidError,
    SourceError,
    StoreAccessError,
    StoreFullError,
)
from millpond.storage.files import export_directory
from millpond.storage.memory import MemoryStore
from millpond_worker.edge.clock import SystemClock
from millpond_worker.edge.simulated import SimStore
from millpond_worker.edge.store import NodeStore
from millpond_worker.ports import NodeRef

DOMAIN = Domain(CHAIN_ID, CONTROLLER)
LEASE, OTHER = some32(1), some32(2)
LARGE = bytes(range(256)) * 12_000


@dataclass
class BlockNode:
    """A node's `/v1/blocks` on the loopback. `altered` holds lies by CID, `status` what every call answers."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(64 << 20))
    altered: dict[str, bytes] = field(default_factory=dict)
    status: int = 0
    signers: list[Address] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    url: str = ""
    server: Any = None

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        caller = open_envelope(
            request.headers, DOMAIN, NODE.address, request.method, request.url.path, body, SystemClock().now()
        )
        self.signers.append(caller.signer)
        if self.status:
            return Response(status_code=self.status)
        cid = parse_cid(request.path_params["cid"])
        if request.method == "PUT":
            await self.store.put(Block(cid, body))
            return Response(status_code=201)
        self.gets.append(cid)
        try:
            return Response(self.altered.get(cid) or await self.store.get(cid))
        except BlockNotFoundError:
            return Response(status_code=404)

    async def start(self) -> None:
        app = Starlette(routes=[Route("/v1/blocks/{cid}", self.answer, methods=["GET", "PUT"])])
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        self.task = asyncio.create_task(self.server.serve(sockets=[listener]))
        while not self.server.started:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.server.should_exit = True
        await self.task

    def ref(self) -> NodeRef:
        return NodeRef(NODE.address, self.url)


@pytest.fixture
async def node() -> AsyncIterator[BlockNode]:
    made = BlockNode()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def store(node: BlockNode, tmp_path: Path) -> AsyncIterator[NodeStore]:
    made = NodeStore(OPERATOR.key, DOMAIN, SystemClock(), tmp_path / "scratch")
    made.use(node.ref())
    yield made
    await made.close()


@pytest.fixture(params=["node", "simulated"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("store") if request.param == "node" else SimStore()


# THE PORT


async def test_put_small_file_reads_back_and_has_its_cid(either: Any) -> None:
    cid = await either.put(b"hello")

    assert cid == cid_of(b"hello")
    assert await either.read(LEASE, cid, 5) == b"hello"


async def test_put_file_of_several_blocks_reads_back(either: Any) -> None:
    assert len(LARGE) > MAX_BLOCK_BYTES
    assert await either.read(LEASE, await either.put(LARGE), len(LARGE)) == LARGE


async def test_put_nothing_reads_back_as_nothing(either: Any) -> None:
    assert await either.read(LEASE, await either.put(b""), 0) == b""


async def test_read_over_its_budget_is_refused(either: Any) -> None:
    cid = await either.put(b"123456")

    with pytest.raises(BudgetExceededError) as caught:
        await either.read(LEASE, cid, 5)
    assert caught.value.remedy


async def test_read_of_what_nobody_stored_is_refused_by_its_cid(either: Any) -> None:
    missing = cid_of(b"nobody has it")

    with pytest.raises(BlockNotFoundError) as caught:
        await either.read(LEASE, missing, 100)
    assert missing in caught.value.message


async def test_read_of_what_is_no_cid_is_refused(either: Any) -> None:
    with pytest.raises(CidError):
        await either.read(LEASE, "bafy", 100)


async def test_export_writes_the_file(either: Any, tmp_path: Path) -> None:
    await either.export(LEASE, await either.put(LARGE), tmp_path / "out", len(LARGE))

    assert (tmp_path / "out").read_bytes() == LARGE


async def test_export_over_its_budget_leaves_no_file(either: Any, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError):
        await either.export(LEASE, await either.put(LARGE), tmp_path / "out", len(LARGE) - 1)
    assert not list(tmp_path.glob("out*"))


async def test_put_folder_has_one_cid_for_equal_content(either: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a")
    second.write_bytes(b"b")

    cid = await either.put_folder({"a": first, "sub/b": second})
    assert await either.put_folder({"sub/b": second, "a": first}) == cid
    assert await either.put_folder({"a": second, "sub/b": second}) != cid


async def test_forget_of_an_unknown_lease_does_not_disturb_another(either: Any) -> None:
    cid = await either.put(b"x")
    either.forget(OTHER)

    assert await either.read(LEASE, cid, 1) == b"x"


# OVER HTTP


async def test_every_request_is_signed_by_the_operator(store: NodeStore, node: BlockNode) -> None:
    await store.read(LEASE, await store.put(LARGE), len(LARGE))

    assert len(node.signers) > 4
    assert set(node.signers) == {OPERATOR.address}


async def test_put_folder_is_the_folder_and_its_scratch_is_gone(
    store: NodeStore, node: BlockNode, tmp_path: Path
) -> None:
    source = tmp_path / "made"
    source.write_bytes(b"result")
    cid = await store.put_folder({"sub/b": source})

    await export_directory(node.store, parse_cid(cid), tmp_path / "out")
    assert (tmp_path / "out" / "sub" / "b").read_bytes() == b"result"
    assert list((tmp_path / "scratch").iterdir()) == []
    assert source.read_bytes() == b"result"


async def test_O19_put_folder_with_a_name_that_leaves_it_is_refused_and_writes_nothing(
    store: NodeStore, node: BlockNode, tmp_path: Path
) -> None:
    source = tmp_path / "made"
    source.write_bytes(b"x")

    with pytest.raises(StoreAccessError):
        await store.put_folder({"../../escaped": source})
    assert not (tmp_path / "escaped").exists()
    assert node.signers == []


@pytest.mark.parametrize("lie", [b"hellp", b"hell", b"hello!", b"x" * (MAX_BLOCK_BYTES + 1)])
async def test_O17_tampered_block_is_refused_and_not_kept(store: NodeStore, node: BlockNode, lie: bytes) -> None:
    cid = await store.put(b"hello")
    node.altered[cid] = lie
    with pytest.raises(StorageError) as caught:
        await store.read(LEASE, cid, 100)
    assert caught.value.remedy

    node.altered.clear()
    assert await store.read(LEASE, cid, 100) == b"hello"


async def test_O17_tampered_block_is_told_with_its_source_and_leaves_no_file(
    store: NodeStore, node: BlockNode, tmp_path: Path
) -> None:
    cid = await store.put(b"hello")
    node.altered[cid] = b"hellp"

    with pytest.raises(BlockNotFoundError, match=r"node: the bytes given for \w+ do not hash to it"):
        await store.export(LEASE, cid, tmp_path / "out", 100)
    assert not list(tmp_path.glob("out*"))


async def test_second_read_for_a_lease_asks_the_node_no_more_until_forgotten(store: NodeStore, node: BlockNode) -> None:
    cid = await store.put(b"hello")
    for _ in range(3):
        await store.read(LEASE, cid, 5)
    assert node.gets == [cid]

    store.forget(LEASE)
    await store.read(LEASE, cid, 5)
    assert node.gets == [cid, cid]


async def test_lease_does_not_see_what_another_read(store: NodeStore, node: BlockNode) -> None:
    cid = await store.put(b"hello")
    await store.read(LEASE, cid, 5)
    await store.read(OTHER, cid, 5)

    assert node.gets == [cid, cid]


@pytest.mark.parametrize(("status", "error"), [(507, StoreFullError), (429, SourceError), (500, SourceError)])
async def test_node_that_refuses_is_a_typed_error(
    store: NodeStore, node: BlockNode, status: int, error: type[StorageError]
) -> None:
    node.status = status

    with pytest.raises(error) as caught:
        await store.put(b"x")
    assert caught.value.remedy


async def test_store_before_any_node_is_a_typed_error(tmp_path: Path) -> None:
    store = NodeStore(OPERATOR.key, DOMAIN, SystemClock(), tmp_path)

    for call in (lambda: store.put(b"x"), lambda: store.read(LEASE, cid_of(b"x"), 1)):
        with pytest.raises(SourceError, match="no connection"):
            await call()
    await store.close()


async def test_node_away_is_a_typed_error_and_what_a_lease_read_stays(store: NodeStore, node: BlockNode) -> None:
    cid = await store.put(b"hello")
    await store.read(LEASE, cid, 5)
    await node.stop()

    with pytest.raises(SourceError):
        await store.put(b"x")
    assert await store.read(LEASE, cid, 5) == b"hello"


async def test_node_that_moved_is_used_at_its_new_address(store: NodeStore, node: BlockNode) -> None:
    old = await store.put(b"old")
    moved = BlockNode()
    await moved.start()
    store.use(moved.ref())
    store.use(moved.ref())
    new = await store.put(b"new")

    assert await moved.store.has(parse_cid(new))
    assert not await node.store.has(parse_cid(new))
    with pytest.raises(BlockNotFoundError):
        await store.read(LEASE, old, 10)
    await store.close()
    await moved.stop()
