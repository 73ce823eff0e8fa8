from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.protocol.errors import StorageError
from millpond.storage import ArchiveError, Budget, BudgetExceededError, LinkRefusedError, UnsafePathError, unpack_tar


def tar_of(*members: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w") -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            info.mode = 0o4777
            archive.addfile(info, io.BytesIO(member[1]))
    out.seek(0)
    return out


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_unpack_tar_plain_or_gzip_gives_its_files(mode: str, tmp_path: Path) -> None:
    folder = special("b/", tarfile.DIRTYPE)
    root = special("./", tarfile.DIRTYPE)
    unpack_tar(tar_of(root, ("./a", b"1"), folder, ("b/c", b"2"), ("d/e/f", b""), mode=mode), tmp_path / "out")
    assert tree(tmp_path / "out") == {"a": b"1", "b/c": b"2", "d/e/f": b""}


def test_unpack_tar_ignores_modes_of_the_archive(tmp_path: Path) -> None:
    unpack_tar(tar_of(("a", b"1")), tmp_path / "out")
    assert (tmp_path / "out" / "a").stat().st_mode & 0o7133 == 0


@pytest.mark.parametrize(
    "name",
    ["../a", "a/../../b", "/etc/passwd", "//a", "a//b", "a\\b", "C:x", "con", "a/nul.txt", "a.", "..", "x/./y", "a\nb"],
)
def test_O19_unpack_tar_unsafe_path_writes_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafePathError):
        unpack_tar(tar_of(("ok", b"1"), (name, b"2")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "member",
    [
        special("x", tarfile.SYMTYPE, "/etc/passwd"),
        special("x", tarfile.SYMTYPE, "ok"),
        special("x", tarfile.LNKTYPE, "ok"),
        special("x", tarfile.CHRTYPE),
        special("x", tarfile.BLKTYPE),
        special("x", tarfile.FIFOTYPE),
        special("x", tarfile.GNUTYPE_SPARSE),
        special("x", b"Z"),
    ],
    ids=lambda member: repr(member.type),
)
def test_O19_unpack_tar_other_than_files_and_folders_writes_nothing(member: tarfile.TarInfo, tmp_path: Path) -> None:
    with pytest.raises(LinkRefusedError):
        unpack_tar(tar_of(("ok", b"1"), member), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "A"), ("d/x", "D/y"), ("a", "a/b"), ("a/b", "a"), ("é", "e\u0301")], ids=ascii
)
def test_O19_unpack_tar_colliding_names_writes_nothing(names: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises((UnsafePathError, LinkRefusedError)):
        unpack_tar(tar_of(*((name, b"1") for name in names)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_O19_unpack_tar_never_replaces_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UnsafePathError):
        unpack_tar(tar_of(("a", b"1")), tmp_path / "out")
    assert tree(tmp_path) == {}


def test_O18_unpack_tar_of_a_bomb_is_refused(tmp_path: Path) -> None:
    bomb = io.BytesIO(gzip.compress(tar_of(("zeros", bytes(50_000_000))).getvalue()))
    assert len(bomb.getvalue()) < 100_000
    with pytest.raises(BudgetExceededError) as caught:
        unpack_tar(bomb, tmp_path / "out", budget=Budget(max_bytes=10_000_000))
    assert caught.value.fields["what"] == "bytes"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("budget", "what"),
    [(Budget(max_nodes=10), "nodes"), (Budget(max_depth=2), "depth"), (Budget(max_seconds=0), "seconds")],
)
def test_O18_unpack_tar_over_its_budget_is_refused(budget: Budget, what: str, tmp_path: Path) -> None:
    members = [(f"a/b/c/{i}", b"") for i in range(20)]
    with pytest.raises(BudgetExceededError) as caught:
        unpack_tar(tar_of(*members), tmp_path / "out", budget=budget)
    assert caught.value.fields["what"] == what


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_O18_unpack_tar_of_a_huge_header_is_refused_unread(kind: bytes, tmp_path: Path) -> None:
    info = special("x", kind)
    info.size = 8 * 1024**3 - 1
    served = 0

    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal served
            served += size or 0
            return super().read(size).ljust(size or 0, b"n")

    with pytest.raises(BudgetExceededError):
        unpack_tar(Endless(info.tobuf(tarfile.GNU_FORMAT)), tmp_path / "out")
    assert served < 1_000_000


def test_O18_unpack_tar_of_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.size = 8 * 1024**3 - 1
    stream = io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(5_000_000))
    with pytest.raises(BudgetExceededError):
        unpack_tar(stream, tmp_path / "out", budget=Budget(max_bytes=4_000_000))
    assert stream.tell() < 1_000_000


def test_O18_unpack_tar_of_headers_without_end_is_refused(tmp_path: Path) -> None:
    header = special("x", tarfile.GNUTYPE_LONGNAME)
    header.size = 1
    one = header.tobuf(tarfile.GNU_FORMAT) + b"n".ljust(512, b"\0")
    with pytest.raises(ArchiveError):
        unpack_tar(io.BytesIO(one * 20_000), tmp_path / "out")


@pytest.mark.parametrize("version", [{"GNU.sparse.map": "0,1"}, {"GNU.sparse.size": "9"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}])  # fmt: skip
def test_O18_unpack_tar_of_a_sparse_file_is_refused(version: dict[str, str], tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.pax_headers = version
    with pytest.raises(LinkRefusedError):
        unpack_tar(io.BytesIO(info.tobuf(tarfile.PAX_FORMAT) + b"0\n" * 5000), tmp_path / "out")


@pytest.mark.parametrize("cut", [1, 100, 511, 600, 1500])
def test_unpack_tar_cut_short_is_refused(cut: int, tmp_path: Path) -> None:
    whole = tar_of(("a", b"x" * 3000)).getvalue()
    with pytest.raises(ArchiveError):
        unpack_tar(io.BytesIO(whole[:cut]), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_O19_unpack_tar_damaged_anywhere_is_typed(
    data: Any, pack: Callable[[bytes], bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    archive = bytearray(pack(tar_of(("a", b"1"), ("b/c", b"22")).getvalue()))
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, min(len(archive), 1600) - 1))] = data.draw(st.integers(0, 255))
    target = tmp_path_factory.mktemp("x") / "out"
    done = False
    with suppress(StorageError):
        unpack_tar(io.BytesIO(bytes(archive)), target)
        done = True
    assert target.exists() == done
    assert os.listdir(target.parent) == (["out"] if done else [])
