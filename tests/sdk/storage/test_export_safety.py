"""O19: no name, however written, may leave the target, replace what is there, or be two files in one."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.storage import (
    Cid,
    Codec,
    LinkRefusedError,
    MemoryStore,
    UnsafePathError,
    export_directory,
    export_file,
    make_block,
)
from millpond.storage._protobuf import bytes_field, varint_field
from millpond.storage.dagpb import Link, encode_node
from millpond.storage.names import check_name, check_names, check_path, collision_key

SEPARATED = [
    prefix + middle + suffix
    for prefix in ("", "/", "./", "../", "a/", "..\\", "\\", "C:\\", "\\\\host\\share\\")
    for middle in ("..", "../..", "..\\..", "etc/passwd", "a/../../b", ".//x", "\\..\\x")
    for suffix in ("", "/", "/x")
]
CONTROL = [f"a{chr(code)}b" for code in [*range(32), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066]]
DEVICES = [
    name + end
    for name in ("CON", "con", "PRN", "AUX", "NUL", "nul", "COM1", "COM9", "LPT1", "lpt9", "COM¹", "CONIN$", "CONOUT$")
    for end in ("", ".txt", ".tar.gz", " .txt")
]
ENDS = ["a.", "a ", "a. ", " ", "...", ". .", "a\u200b.", "\u200b", "\ufeff", "\u200d\u200d", "\ufe0f"]
DRIVES = ["C:", "c:x", "Z:file", "a:b"]
LONG = ["x" * 256, "é" * 128, "語" * 86]
EMPTY = ["", ".", ".."]
CORPUS = sorted(
    {name for group in (SEPARATED, CONTROL, DEVICES, ENDS, DRIVES, LONG, EMPTY) for name in group if name != "a/x"}
)

COLLISIONS = [
    ("a", "A"),
    ("readme", "README"),
    ("é", "e\u0301"),
    ("É", "e\u0301"),
    ("ſ", "s"),
    ("ß", "ss"),
    ("K", "k"),
    ("Å", "å"),
    (".git", ".g\u200cit"),
    ("a", "a\ufeff"),
    ("ﬁ", "fi"),
    ("İ", "i̇"),
]


async def directory(store: MemoryStore, names: list[str], child: Cid | None = None) -> Cid:
    leaf = child or await store.put(make_block(b"owned"))
    return await store.put(make_block(encode_node([Link(leaf, name, 5) for name in names], b"\x08\x01"), Codec.DAG_PB))


def everything_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_O19_corpus_has_at_least_200_names() -> None:
    assert len(CORPUS) >= 200


@pytest.mark.parametrize("name", CORPUS, ids=lambda name: ascii(name)[:40])
async def test_O19_export_of_an_unsafe_name_writes_nothing(name: str, memory: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "jail").mkdir()
    for cid in (await directory(memory, [name]), await directory(memory, ["ok", name])):
        with pytest.raises(UnsafePathError):
            await export_directory(memory, cid, tmp_path / "jail" / "out")
    assert everything_below(tmp_path) == {"jail"}


@pytest.mark.parametrize("name", ["../x", "CON", "a\0b", "", "a."])
async def test_O19_export_of_an_unsafe_folder_writes_nothing(name: str, memory: MemoryStore, tmp_path: Path) -> None:
    inner = await directory(memory, ["x"])
    with pytest.raises(UnsafePathError):
        await export_directory(memory, await directory(memory, [name], inner), tmp_path / "out")
    assert everything_below(tmp_path) == set()


@pytest.mark.parametrize(("one", "other"), COLLISIONS, ids=ascii)
async def test_O19_export_of_colliding_names_writes_nothing(
    one: str, other: str, memory: MemoryStore, tmp_path: Path
) -> None:
    with pytest.raises(UnsafePathError):
        await export_directory(memory, await directory(memory, [one, other]), tmp_path / "out")
    assert everything_below(tmp_path) == set()


@pytest.mark.parametrize("name", ["a", ".hidden", "with space", "a.b.c", "日本語", "😀", "-rf", "~", "$HOME", "a'b", "x" * 255, "12:30", "console", "..a", "a..b"])  # fmt: skip
async def test_export_of_a_plain_name_writes_it(name: str, memory: MemoryStore, tmp_path: Path) -> None:
    await export_directory(memory, await directory(memory, [name]), tmp_path / "out")
    assert everything_below(tmp_path / "out") == {name}
    assert (tmp_path / "out" / name).stat().st_mode & 0o777 == 0o644 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


async def test_O19_export_of_a_unixfs_link_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    data = varint_field(1, 4) + bytes_field(2, b"/etc/passwd")
    link = await memory.put(make_block(encode_node([], data), Codec.DAG_PB))
    with pytest.raises(LinkRefusedError):
        await export_directory(memory, await directory(memory, ["x"], link), tmp_path / "out")
    assert everything_below(tmp_path) == set()


@pytest.mark.parametrize("kind", ["file", "folder", "empty", "link", "dangling"])
async def test_O19_export_never_replaces_what_is_there(kind: str, memory: MemoryStore, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    match kind:
        case "file":
            target.write_text("mine")
        case "folder":
            target.mkdir()
            (target / "mine").touch()
        case "empty":
            target.mkdir()
        case "link":
            target.symlink_to(elsewhere)
        case _:
            target.symlink_to(tmp_path / "nowhere")
    before = everything_below(tmp_path)
    leaf = await memory.put(make_block(b"owned"))
    with pytest.raises(UnsafePathError):
        await export_directory(memory, await directory(memory, ["x"]), target)
    with pytest.raises(UnsafePathError):
        await export_file(memory, leaf, target)
    assert everything_below(tmp_path) == before


async def test_O19_export_below_a_link_is_refused(memory: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(LinkRefusedError):
        await export_directory(memory, await directory(memory, ["x"]), tmp_path / "link" / "out")
    assert everything_below(tmp_path) == {"real", "link"}


@given(st.text(max_size=30))
def test_O19_check_name_any_text_is_safe_or_refused(name: str) -> None:
    try:
        check_name(name)
    except UnsafePathError:
        return
    joined = os.path.normpath(os.path.join("/jail", name))
    assert os.path.dirname(joined) == "/jail"
    assert joined != "/jail"


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=10))
def test_O19_collision_key_ignores_unicode_form_and_case(name: str) -> None:
    assert collision_key(unicodedata.normalize("NFD", name)) == collision_key(unicodedata.normalize("NFC", name))
    assert collision_key(collision_key(name)) == collision_key(name)


def test_check_names_same_name_twice_is_refused() -> None:
    with pytest.raises(UnsafePathError):
        check_names(["ab", "ab"])


@pytest.mark.parametrize("path", ["/a", "a//b", "a/", "a/../b", "./a", "", "/".join("a" * 200)])
def test_O19_check_path_unsafe_is_refused(path: str) -> None:
    with pytest.raises(UnsafePathError):
        check_path(path)
