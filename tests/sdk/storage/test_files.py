"""Adding, reading and exporting, with budgets."""

from __future__ import annotations

import io
import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.storage import (
    BlockNotFoundError,
    BlockTamperedError,
    Budget,
    BudgetExceededError,
    Cid,
    Codec,
    DagError,
    LinkRefusedError,
    MemoryStore,
    StoreAccessError,
    UnsafePathError,
    WrongKindError,
    add_bytes,
    add_directory,
    add_file,
    add_stream,
    cid_of_bytes,
    export_directory,
    export_file,
    iter_file,
    list_directory,
    make_block,
    read_bytes,
)
from millpond.storage.budget import Meter
from millpond.storage.dagpb import Link, encode_node
from millpond.storage.unixfs import Layout, encode_file_data

SMALL = Layout(chunk_bytes=4, width=3)
MIB = 1024 * 1024


def folder_with_files(root: Path) -> dict[str, bytes]:
    files = {"a": b"1", "b/c": b"", "b/d/é": b"x" * 100, "b/d/日本": os.urandom(3 * MIB)}
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "void").mkdir()
    return files


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=300), chunk=st.integers(1, 20), width=st.integers(2, 5))
async def test_add_bytes_any_content_and_layout_round_trips(data: bytes, chunk: int, width: int) -> None:
    store, layout = MemoryStore(MIB), Layout(chunk, width)
    cid = await add_bytes(store, data, layout=layout)
    assert await read_bytes(store, cid) == data
    assert cid == cid_of_bytes(data, layout)


async def test_add_file_in_the_embedded_store_round_trips(embedded: Any, tmp_path: Path) -> None:
    data = os.urandom(40 * MIB + 5)
    (tmp_path / "in").write_bytes(data)
    cid = await add_file(embedded, tmp_path / "in")
    assert cid == cid_of_bytes(data)
    await export_file(embedded, cid, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data


async def test_add_stream_with_short_reads_is_the_same_file(memory: MemoryStore) -> None:
    class Drip(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 3))

    assert await add_stream(memory, Drip(b"0123456789" * 3)) == cid_of_bytes(b"0123456789" * 3)


async def test_directory_export_gives_back_every_file(embedded: Any, tmp_path: Path) -> None:
    files = folder_with_files(tmp_path / "in")
    cid = await add_directory(embedded, tmp_path / "in")
    await export_directory(embedded, cid, tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == files
    assert (tmp_path / "out" / "void").is_dir()
    assert await add_directory(embedded, tmp_path / "out") == cid


async def test_directory_export_of_shards_gives_back_every_file(memory: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(300):
        (tmp_path / "in" / f"file-{i}").write_text(str(i))
    cid = await add_directory(memory, tmp_path / "in", layout=Layout(shard_over_bytes=100))
    await export_directory(memory, cid, tmp_path / "out")
    assert {p.name: p.read_text() for p in (tmp_path / "out").iterdir()} == {f"file-{i}": str(i) for i in range(300)}


async def test_O17_read_with_any_one_block_damaged_is_refused(embedded: Any) -> None:
    data = os.urandom(100)
    cid = await add_bytes(embedded, data, layout=SMALL)
    paths = sorted((embedded.core.root / "blocks").glob("*/*"))
    assert len(paths) > 30
    for path in paths:
        good = path.read_bytes()
        path.write_bytes(bytes([good[0] ^ 0x80]) + good[1:])
        with pytest.raises(BlockTamperedError):
            await read_bytes(embedded, cid)
        os.replace(embedded.core.root / "quarantine" / path.name, path)
        path.write_bytes(good)
    assert await read_bytes(embedded, cid) == data


async def test_O17_export_of_a_damaged_file_leaves_nothing(embedded: Any, tmp_path: Path) -> None:
    cid = await add_bytes(embedded, os.urandom(3 * MIB))
    path = next(p for p in (embedded.core.root / "blocks").glob("*/bafkrei*"))
    path.write_bytes(b"other")
    (tmp_path / "here").mkdir()
    with pytest.raises(BlockTamperedError):
        await export_file(embedded, cid, tmp_path / "here" / "out")
    assert list((tmp_path / "here").iterdir()) == []


# -- what cannot be added


@pytest.mark.parametrize("kind", ["link", "dangling", "folder-link", "pipe", "socket"])
async def test_O19_add_directory_with_other_than_regular_files_is_refused(
    kind: str, memory: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "in"
    (root / "below").mkdir(parents=True)
    entry = root / "below" / "entry"
    match kind:
        case "link":
            (root / "target").write_text("x")
            entry.symlink_to(root / "target")
        case "dangling":
            entry.symlink_to("/nowhere")
        case "folder-link":
            entry.symlink_to("/etc")
        case "pipe":
            os.mkfifo(entry)
        case _:
            monkeypatch.chdir(entry.parent)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("entry")
    with pytest.raises(LinkRefusedError):
        await add_directory(memory, root)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
async def test_O19_add_file_of_other_than_a_regular_file_is_refused(
    kind: str, memory: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "entry"
    match kind:
        case "link":
            path.symlink_to("/etc/passwd")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path = Path("/dev/zero")
    with pytest.raises(LinkRefusedError):
        await add_file(memory, path)


async def test_O18_add_directory_with_a_link_cycle_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    with pytest.raises(LinkRefusedError):
        await add_directory(memory, tmp_path / "in")


async def test_add_file_missing_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    with pytest.raises(StoreAccessError):
        await add_file(memory, tmp_path / "nowhere")


async def test_O18_add_over_the_budget_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    folder_with_files(tmp_path / "in")
    for budget in (Budget(max_bytes=MIB), Budget(max_nodes=3), Budget(max_depth=1), Budget(max_seconds=0)):
        with pytest.raises(BudgetExceededError):
            await add_directory(memory, tmp_path / "in", budget=budget)


# -- what cannot be read


async def put_node(store: MemoryStore, links: list[Link], data: bytes) -> Cid:
    return await store.put(make_block(encode_node(links, data), Codec.DAG_PB))


async def bomb(store: MemoryStore, levels: int, fan: int, leaf: bytes) -> tuple[Cid, int]:
    """A file of `fan ** levels` times `leaf` out of `levels + 1` blocks."""
    cid, size = await store.put(make_block(leaf)), len(leaf)
    for _ in range(levels):
        cid = await put_node(store, [Link(cid, "", size)] * fan, encode_file_data(size * fan, [size] * fan))
        size *= fan
    return cid, size


async def test_O18_read_of_a_bomb_is_refused_before_its_first_byte(memory: MemoryStore) -> None:
    cid, size = await bomb(memory, 4, 100, b"x" * 1000)
    assert size == 10**11
    with pytest.raises(BudgetExceededError) as caught:
        await anext(iter_file(memory, cid, budget=Budget(max_bytes=10**9)))
    assert caught.value.fields["what"] == "bytes"


async def test_O18_read_of_a_bomb_of_nothing_runs_out_of_nodes(memory: MemoryStore) -> None:
    cid, _ = await bomb(memory, 6, 100, b"")
    with pytest.raises(BudgetExceededError) as caught:
        await read_bytes(memory, cid, budget=Budget(max_nodes=1000))
    assert caught.value.fields["what"] == "nodes"


async def test_O18_read_of_wide_nodes_is_refused_before_their_links_pile_up() -> None:
    class Counting(MemoryStore):
        reads = 0

        async def get(self, cid: Cid) -> bytes:
            self.reads += 1
            return await super().get(cid)

    store = Counting(64 * MIB)
    cid, _ = await bomb(store, 3, 5000, b"")
    with pytest.raises(BudgetExceededError) as caught:
        await read_bytes(store, cid, budget=Budget(max_nodes=9000))
    assert caught.value.fields["what"] == "nodes"
    assert store.reads == 2


async def test_O18_read_of_a_deep_chain_runs_out_of_depth(memory: MemoryStore) -> None:
    cid, _ = await bomb(memory, 1000, 1, b"x")
    with pytest.raises(BudgetExceededError) as caught:
        await read_bytes(memory, cid)
    assert caught.value.fields["what"] == "depth"


async def test_O18_read_of_a_long_chain_within_its_budget_ends(memory: MemoryStore) -> None:
    cid, _ = await bomb(memory, 5000, 1, b"x")
    assert await read_bytes(memory, cid, budget=Budget(max_depth=10**6)) == b"x"


async def test_O18_read_past_its_time_is_refused(memory: MemoryStore) -> None:
    cid, _ = await bomb(memory, 3, 10, b"x")
    with pytest.raises(BudgetExceededError) as caught:
        await read_bytes(memory, cid, budget=Budget(max_seconds=0))
    assert caught.value.fields["what"] == "seconds"


def test_O18_meter_looks_at_the_clock_on_every_visit() -> None:
    now = [0.0]
    meter = Meter(Budget(max_seconds=5), lambda: now[0])
    meter.visit(0)
    now[0] = 6.0
    with pytest.raises(BudgetExceededError):
        meter.visit(0)


async def test_O18_export_of_a_directory_of_itself_many_times_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    cid = await put_node(memory, [], b"\x08\x01")
    for _ in range(20):
        cid = await put_node(memory, [Link(cid, "a", 1), Link(cid, "b", 1)], b"\x08\x01")
    with pytest.raises(BudgetExceededError):
        await export_directory(memory, cid, tmp_path / "out", budget=Budget(max_nodes=500))
    assert os.listdir(tmp_path) == []


async def test_O18_export_of_a_deep_directory_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    cid = await put_node(memory, [], b"\x08\x01")
    for _ in range(300):
        cid = await put_node(memory, [Link(cid, "a", 1)], b"\x08\x01")
    for budget, error in ((Budget(), BudgetExceededError), (Budget(max_depth=10**6), UnsafePathError)):
        with pytest.raises(error):
            await export_directory(memory, cid, tmp_path / "out", budget=budget)


async def test_read_of_a_file_that_lies_about_its_parts_is_refused(memory: MemoryStore) -> None:
    leaf = await memory.put(make_block(b"12345"))
    cid = await put_node(memory, [Link(leaf, "", 5)], encode_file_data(4, [4]))
    with pytest.raises(DagError):
        await read_bytes(memory, cid)


async def test_read_with_a_block_missing_names_it(memory: MemoryStore) -> None:
    leaf = make_block(b"12345").cid
    cid = await put_node(memory, [Link(leaf, "", 5)], encode_file_data(5, [5]))
    with pytest.raises(BlockNotFoundError) as caught:
        await read_bytes(memory, cid)
    assert caught.value.fields["cid"] == leaf


async def test_read_of_the_wrong_kind_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    directory, file = await add_directory(memory, tmp_path / "in"), await add_bytes(memory, b"x")
    for call in (
        partial(read_bytes, memory, directory),
        partial(list_directory, memory, file),
        partial(export_directory, memory, file, tmp_path / "out"),
        partial(export_file, memory, directory, tmp_path / "out"),
    ):
        with pytest.raises(WrongKindError):
            await call()
    assert not (tmp_path / "out").exists()


async def test_read_of_a_file_with_a_directory_inside_is_refused(memory: MemoryStore) -> None:
    inner = await put_node(memory, [], b"\x08\x01")
    cid = await put_node(memory, [Link(inner, "", 4)], encode_file_data(4, [4]))
    with pytest.raises(WrongKindError):
        await read_bytes(memory, cid)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=120))
async def test_O18_read_of_any_dag_pb_block_is_typed(data: bytes) -> None:
    store = MemoryStore(MIB)
    cid = await store.put(make_block(data, Codec.DAG_PB))
    for call in (read_bytes, list_directory):
        with suppress(DagError, BlockNotFoundError):
            await call(store, cid)
