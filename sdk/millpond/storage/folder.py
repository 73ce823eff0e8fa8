"""File system access below one folder, by descriptor: no path is ever resolved, no link ever followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from millpond.storage.disk import typed_os_errors
from millpond.storage.errors import LinkRefusedError, StoreAccessError, UnsafePathError
from millpond.storage.names import check_name, check_names

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a folder: a regular file or a folder, nothing else."""

    name: str
    is_folder: bool


class Folder:
    """An open folder. Close it, or use it in `with`."""

    def __init__(self, fd: int, label: str) -> None:
        self._fd, self._label = fd, label

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The folder at `path`, which must not itself be a link."""
        with _refused(path), typed_os_errors(os.fspath(path)):
            return cls(os.open(path, _FOLDER), os.fspath(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def entries(self) -> list[Found]:
        """Sorted by name. Raises `LinkRefusedError` on the first link, device, socket or pipe, `UnsafePathError` on names."""
        with typed_os_errors(self._label), os.scandir(self._fd) as found:
            entries = [_found(entry, self._label) for entry in found]
        check_names(entry.name for entry in entries)
        return sorted(entries, key=lambda entry: entry.name)

    def enter(self, name: str) -> Folder:
        """An existing folder below this one."""
        label = f"{self._label}/{name}"
        with _refused(label), typed_os_errors(label):
            return Folder(os.open(check_name(name), _FOLDER, dir_fd=self._fd), label)

    def make(self, name: str) -> Folder:
        """A new folder; refuses one that is already there."""
        label = f"{self._label}/{name}"
        with _refused(label), typed_os_errors(label):
            os.mkdir(check_name(name), 0o755, dir_fd=self._fd)
        return self.enter(name)

    def open_file(self, name: str) -> int:
        """Descriptor of an existing regular file for reading; the caller closes it."""
        label = f"{self._label}/{name}"
        with _refused(label), typed_os_errors(label):
            return regular(os.open(check_name(name), _READ, dir_fd=self._fd), label)

    def new_file(self, name: str) -> int:
        """Descriptor of a new file for writing; refuses a name that is already there. The caller closes it."""
        label = f"{self._label}/{name}"
        with _refused(label), typed_os_errors(label):
            return os.open(check_name(name), _NEW, 0o644, dir_fd=self._fd)

    def rename(self, name: str, new_name: str) -> None:
        """Give an entry its final name, which must be free."""
        label = f"{self._label}/{new_name}"
        with _refused(label), typed_os_errors(label):
            if self.has(new_name):
                raise FileExistsError(new_name)
            os.rename(name, new_name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def has(self, name: str) -> bool:
        """Whether anything, even a dangling link, has that name."""
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            return True
        return False

    def remove_file(self, name: str) -> None:
        with suppress(FileNotFoundError), typed_os_errors(f"{self._label}/{name}"):
            os.unlink(name, dir_fd=self._fd)


def absolute(path: str | os.PathLike[str]) -> Path:
    """`path` from the root, without touching the disk: a link on the way is left for the kernel to refuse."""
    return Path(os.path.abspath(path))


def open_regular(path: str | os.PathLike[str]) -> int:
    """Descriptor of the regular file at `path`, which must not be a link."""
    with _refused(path), typed_os_errors(os.fspath(path)):
        return regular(os.open(path, _READ), os.fspath(path))


def regular(fd: int, label: str) -> int:
    """`fd` if it is a regular file, else close it and raise `LinkRefusedError`."""
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise LinkRefusedError(f"{label} is not a regular file", path=label)


def _found(entry: os.DirEntry[str], label: str) -> Found:
    if entry.is_symlink() or not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)):
        raise LinkRefusedError(f"{label}/{entry.name} is a link, device, socket or pipe", path=f"{label}/{entry.name}")
    return Found(entry.name, entry.is_dir(follow_symlinks=False))


@contextmanager
def _refused(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the kernel says of links, missing and existing names, in our words."""
    label = os.fspath(path)
    try:
        yield
    except FileNotFoundError as error:
        raise StoreAccessError(f"{label} does not exist", path=label) from error
    except FileExistsError as error:
        raise UnsafePathError(f"{label} already exists", path=label) from error
    except StoreAccessError as error:
        raise _as_refusal(error, label) from error


def _as_refusal(error: StoreAccessError, label: str) -> Exception:
    match error.fields.get("errno"):
        case errno.ELOOP | errno.ENXIO:
            return LinkRefusedError(f"{label} is a link, device, socket or pipe", path=label)
        case errno.EEXIST | errno.ENOTEMPTY:
            return UnsafePathError(f"{label} already exists", path=label)
        case errno.ENOTDIR:
            return LinkRefusedError(f"{label} is not a folder", path=label)
        case _:
            return error
