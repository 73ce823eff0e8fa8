"""CIDs against those that Helia's importer made (tests/vectors/unixfs.json)."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from millpond.storage import MemoryStore, add_bytes, add_directory, cid_of, cid_of_bytes, list_directory, make_block
from millpond.storage.add import add_links
from millpond.storage.dagpb import Link
from millpond.storage.tree import FileTree, leaf_of
from millpond.storage.unixfs import PROFILE, Layout, Part
from millpond.storage.writer import write_blocks

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "unixfs.json").read_text())
MIB = 1024 * 1024


def content(rule: str, size: int) -> bytes:
    if rule == "zeros":
        return bytes(size)
    words = -(-size // 4)
    return b"".join(i.to_bytes(4, "little") for i in range(words))[:size]


@cache
def zero_leaf(size: int) -> Part:
    return leaf_of(make_block(bytes(size)))


def tree_of_zeros(size: int) -> Part:
    tree = FileTree(PROFILE)
    sizes = [MIB] * (size // MIB) + ([size % MIB] if size % MIB else [])
    for leaf in sizes:
        list(tree.push(zero_leaf(leaf)))
    list(tree.finish())
    return tree.root


def write_tree(root: Path, entries: dict[str, str | None]) -> None:
    root.mkdir()
    for name, text in entries.items():
        path = root / name
        if text is None:
            path.mkdir()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("case", [c for c in VECTORS["files"] if c["rule"] == "counter"], ids=lambda c: str(c["size"]))
def test_cid_of_bytes_counter_content_equals_vector(case: dict[str, Any]) -> None:
    assert cid_of_bytes(content("counter", case["size"])) == case["cid"]


@pytest.mark.parametrize("case", [c for c in VECTORS["files"] if c["rule"] == "zeros"], ids=lambda c: str(c["size"]))
def test_file_tree_over_1024_chunks_equals_vector(case: dict[str, Any]) -> None:
    root = tree_of_zeros(case["size"])
    assert (root.link.cid, root.link.dag_bytes, root.content_bytes) == (case["cid"], case["dag_bytes"], case["size"])


@pytest.mark.parametrize("case", VECTORS["layouts"], ids=lambda c: f"{c['size']}-{c['chunk']}-{c['width']}")
def test_add_bytes_deep_layout_equals_vector(case: dict[str, Any]) -> None:
    layout = Layout(chunk_bytes=case["chunk"], width=case["width"])
    data = content("counter", case["size"])
    assert anyio.run(partial(add_bytes, MemoryStore(10 * MIB), data, layout=layout)) == case["cid"]


@pytest.mark.parametrize("case", VECTORS["directories"], ids=lambda c: c["name"])
def test_add_directory_equals_vector(case: dict[str, Any], tmp_path: Path) -> None:
    write_tree(tmp_path / "root", case["entries"])
    assert anyio.run(add_directory, MemoryStore(10 * MIB), tmp_path / "root") == case["cid"]


@pytest.mark.parametrize("case", VECTORS["large_directories"], ids=lambda c: f"{c['count']}-{c['pad']}")
def test_directory_of_many_entries_equals_vector_and_lists_all(case: dict[str, Any]) -> None:
    names = [f"entry-{i:0{case['pad']}d}" for i in range(case["count"])]
    links = [Link(cid_of(str(i).encode()), name, len(str(i))) for i, name in enumerate(names)]
    store = MemoryStore(100 * MIB)
    root = anyio.run(write_blocks, store, lambda writer: add_links(writer, links))
    assert (root.cid, root.dag_bytes) == (case["cid"], case["dag_bytes"])
    assert [link.name for link in anyio.run(list_directory, store, root.cid)] == names
