"""Durable files. The one place that writes blocks to a file system, so that tests can make it fail."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millpond.protocol.errors import StorageError
from millpond.storage.blocks import MAX_BLOCK_BYTES
from millpond.storage.errors import BlockTooLargeError, StoreAccessError, StoreFsyncError, StoreFullError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Disk:
    """Plain POSIX calls. Errors come out typed: `StoreFullError`, `StoreFsyncError`, `StoreAccessError`."""

    def write_new(self, folder: Path, data: bytes) -> Path:
        """A new synced file under a random name in `folder`. Nothing is left behind on failure."""
        path = folder / secrets.token_hex(8)
        with typed_os_errors(path):
            fd = os.open(path, _NEW, 0o600)
        try:
            with typed_os_errors(path):
                self.write(fd, data)
            self.sync(fd, path)
        except StorageError:
            self.remove(path)
            raise
        finally:
            os.close(fd)
        return path

    def write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def sync(self, fd: int, path: Path) -> None:
        try:
            self.fsync(fd)
        except OSError as error:
            if error.errno in _FULL:
                raise _full(path) from error
            raise StoreFsyncError(f"fsync of {path} failed: {error}", path=str(path), errno=error.errno) from error

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_folder(self, folder: Path) -> None:
        with typed_os_errors(folder):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(fd, folder)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        with typed_os_errors(target):
            os.rename(source, target)

    def make_folder(self, folder: Path) -> None:
        with typed_os_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        with suppress(FileNotFoundError), typed_os_errors(path):
            os.unlink(path)

    def read(self, path: Path) -> bytes | None:
        """The whole file, or None where there is none. Refuses links and anything above the block limit."""
        try:
            with typed_os_errors(path):
                fd = os.open(path, _READ)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb", buffering=0) as file, typed_os_errors(path):
            size = os.fstat(fd).st_size
            if size > MAX_BLOCK_BYTES:
                raise BlockTooLargeError(f"{path} is larger than any block", path=str(path), size_bytes=size)
            return file.read(MAX_BLOCK_BYTES + 1)


@contextmanager
def typed_os_errors(path: Path | str) -> Iterator[None]:
    """Full disks become `StoreFullError`, all else but a missing file `StoreAccessError`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path) from error
        raise StoreAccessError(f"{path}: {error.strerror}", path=str(path), errno=error.errno) from error


def _full(path: Path | str) -> StoreFullError:
    return StoreFullError(f"no space left on the disk of {path}", path=str(path))
