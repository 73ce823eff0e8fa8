"""Unpacking tar: regular files and folders only, inside the target only, within a budget."""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import zlib
from contextlib import ExitStack
from typing import BinaryIO, cast

from millpond.storage.budget import Budget, Meter
from millpond.storage.disk import typed_os_errors
from millpond.storage.errors import ArchiveError, BudgetExceededError, LinkRefusedError, UnsafePathError
from millpond.storage.folder import Folder, absolute
from millpond.storage.names import check_name, check_path, collision_key

_PIECE_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_EXTENSIONS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}
_MAX_EXTENSION_BYTES = 64 * 1024


def unpack_tar(source: BinaryIO, target: str | os.PathLike[str], *, budget: Budget | None = None) -> None:
    """Unpack a plain or gzip tar into `target`, which must not exist and appears only when complete.

    Owners, modes and times in the archive are ignored. Blocking; run it in a thread from async code.
    Raises `LinkRefusedError`, `UnsafePathError`, `BudgetExceededError`, `ArchiveError`.
    """
    path = absolute(target)
    meter = Meter(budget or Budget())
    partial_name = f".millpond-{secrets.token_hex(8)}"
    with Folder.open(path.parent) as parent:
        if parent.has(check_name(path.name)):
            raise UnsafePathError(f"{path} already exists", path=str(path))
        try:
            with parent.make(partial_name) as root:
                _unpack(source, root, meter)
            parent.rename(partial_name, path.name)
        except BaseException:
            shutil.rmtree(path.parent / partial_name, ignore_errors=True)
            raise


def _unpack(source: BinaryIO, root: Folder, meter: Meter) -> None:
    tree = _Tree(root)
    head = source.read(len(_GZIP))
    try:
        with _open(head, source) as archive:
            while (member := archive.next()) is not None:
                parts = _member_path(member)
                meter.visit(len(parts))
                meter.expect(member.size)
                _unpack_member(archive, member, parts, tree, meter)
                archive.members = []  # type: ignore[attr-defined]  # or memory grows with the archive
    except (tarfile.TarError, EOFError, ValueError, RecursionError, OverflowError, zlib.error) as error:
        raise ArchiveError(f"the archive cannot be read: {error}") from error


def _open(head: bytes, source: BinaryIO) -> tarfile.TarFile:
    stream = cast(BinaryIO, _Rejoined(head, source))  # a tar that is read as a stream needs nothing but `read`
    if head == _GZIP:
        return tarfile.open(fileobj=stream, mode="r|gz", tarinfo=_PlainInfo, errorlevel=2)
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=_PlainInfo, errorlevel=2)


class _Rejoined:
    """A stream whose first bytes have been looked at."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head + self._rest.read(size - len(head))


class _PlainInfo(tarfile.TarInfo):
    """Headers that tarfile would follow into memory without limit are refused before it reads them."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        if self.type in _EXTENSIONS and self.size > _MAX_EXTENSION_BYTES:
            raise BudgetExceededError(
                "a header of the archive is too long", what="bytes", used=self.size, limit=_MAX_EXTENSION_BYTES
            )
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]

    def _refuse_sparse(self, *_: object) -> None:
        raise LinkRefusedError(f"the archive has a sparse file: {self.name[:80]!r}", path=self.name)

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _member_path(member: tarfile.TarInfo) -> tuple[str, ...]:
    """Components of the member's path; empty for the root itself. A leading `./` and a folder's last `/` are plain tar."""
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise LinkRefusedError(f"the archive has a link, device or sparse file: {member.name[:80]!r}", path=member.name)
    name = member.name.removeprefix("./").removesuffix("/" if member.isdir() else "")
    if member.isdir() and name in ("", "."):
        return ()
    return check_path(name)


def _unpack_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...], tree: _Tree, meter: Meter
) -> None:
    if member.isdir():
        tree.add_folder(parts)
        return
    content = archive.extractfile(member)
    if content is None:
        raise ArchiveError(f"the archive has no content for {member.name!r}")
    left = member.size
    with open(tree.add_file(parts), "wb", buffering=0) as file, typed_os_errors(member.name):
        while piece := content.read(min(_PIECE_BYTES, left)):
            meter.take(len(piece))
            meter.visit(0, 0)
            file.write(piece)
            left -= len(piece)
    if left:
        raise ArchiveError(f"the archive is cut short in {member.name!r}", missing_bytes=left)


class _Tree:
    """What has been unpacked, so that no two members are one file on any system."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._made: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add_folder(self, parts: tuple[str, ...]) -> None:
        with ExitStack() as stack:
            self._enter(parts, stack)

    def add_file(self, parts: tuple[str, ...]) -> int:
        with ExitStack() as stack:
            folder = self._enter(parts[:-1], stack)
            self._claim(parts)
            return folder.new_file(parts[-1])

    def _enter(self, parts: tuple[str, ...], stack: ExitStack) -> Folder:
        folder = self._root
        for depth in range(1, len(parts) + 1):
            fresh = self._claim(parts[:depth])
            name = parts[depth - 1]
            folder = stack.enter_context(folder.make(name) if fresh else folder.enter(name))
        return folder

    def _claim(self, path: tuple[str, ...]) -> bool:
        """Whether `path` is new. Raises `UnsafePathError` where it is another spelling of one that is not."""
        other = self._made.setdefault(tuple(map(collision_key, path)), path)
        if other != path:
            raise UnsafePathError(f"{'/'.join(path)!r} and {'/'.join(other)!r} are one file on some systems")
        return other is path
