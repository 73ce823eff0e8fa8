"""Folders of this machine that containers see: inputs going in read-only, outputs coming out checked.

    <root>/<lease>/rooms/<name>/ctl    the runner's socket        <root>/<lease>/rooms/<name>/in     mounted at /in
    <root>/<lease>/rooms/<name>/out    mounted at /out            <root>/<lease>/sealed/<attempt>    copies no container reaches

A container can change what lies in `out` at any moment. Nothing there is opened through a link, and nothing but copies is handed on.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from millpond.protocol.errors import InputError

from .port import OutputFile

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_DEPTH = 16


class InputPathError(InputError):
    """A path of an input or of code leaves its folder, or its file is not there. Fields: `name`."""

    remedy_text = "Use relative paths without '..', and give files that exist."


@dataclass(frozen=True, slots=True)
class Usage:
    """What lies in a folder. `strange` names the first thing that is neither a regular file nor a folder."""

    size: int = 0
    files: int = 0
    strange: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who the container's processes are. `is_other` is false when they share the worker's own user."""

    uid: int
    gid: int
    is_other: bool


def owner_of(lease: str) -> Owner:
    """A user of its own for each lease when the worker is root; else the worker's own."""
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid(), False)
    number = 700_000 + int.from_bytes(hashlib.sha256(lease.encode()).digest()[:4], "big") % 100_000
    return Owner(number, number, True)


def safe_name(name: str) -> str:
    """`name` when it can be a folder's name, else its hash."""
    return name if _PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:32]


class Room:
    """The folders of one container."""

    def __init__(self, lease_folder: Path, owner: Owner, name: str = "") -> None:
        self.lease_folder = lease_folder
        self.name = name or secrets.token_hex(8)
        self.owner = owner
        self.folder = lease_folder / "rooms" / self.name
        self.ctl, self.inputs, self.outputs = self.folder / "ctl", self.folder / "in", self.folder / "out"

    def furnish(self, inputs: Mapping[str, Path]) -> Room:
        """Makes the folders and copies the container's inputs. Leaves nothing when that fails. Raises `InputPathError`."""
        try:
            self._create()
            self.add_inputs(self.inputs, inputs)
        except BaseException:
            self.remove()
            raise
        return self

    def _create(self) -> None:
        for path in (self.lease_folder.parent, self.lease_folder, self.lease_folder / "rooms", self.folder):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
        for path in (self.ctl, self.inputs):
            path.mkdir(mode=0o755)
        self.outputs.mkdir(mode=0o700)
        self.give(self.outputs)

    def give(self, path: Path) -> None:
        if self.owner.is_other:
            os.chown(path, self.owner.uid, self.owner.gid)

    def add_inputs(self, folder: Path, inputs: Mapping[str, Path]) -> None:
        """Copies files to `folder`, readable and not writable for the container. Raises `InputPathError`."""
        for name, source in inputs.items():
            target = folder / inside(name)
            if not source.is_file():
                raise InputPathError(f"the input {name} has no file", name=name)
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o444)

    def open_task(self, attempt: str, inputs: Mapping[str, Path]) -> None:
        """The folder of one attempt inside `in`, with its inputs."""
        (self.inputs / attempt).mkdir(mode=0o755, exist_ok=True)
        self.add_inputs(self.inputs / attempt, inputs)

    def left(self, name: str) -> Path | None:
        """The folder inside `out` of which the runner says that a task left something there; None when that is no folder."""
        folder = self.outputs / name
        is_folder = _PLAIN.fullmatch(name) and stat.S_ISDIR(_mode(folder))
        return folder if is_folder else None

    def seal(self, attempt: str, folder: Path) -> tuple[OutputFile, ...]:
        """Copies of the regular files in `folder`, out of the container's reach."""
        target = self.lease_folder / "sealed" / attempt
        found = []
        for name, source in _open_files(folder):
            with os.fdopen(source, "rb") as reader:
                path = target / name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with path.open("wb") as writer:
                    shutil.copyfileobj(reader, writer, 1 << 20)
                found.append(OutputFile(name, path, path.stat().st_size))
        return tuple(sorted(found, key=lambda file: file.name))

    def remove(self) -> None:
        remove_tree(self.folder)


def inside(name: str) -> str:
    """The relative path `name` is, when it stays inside its folder. Raises `InputPathError`."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise InputPathError(f"the path {name!r} leaves its folder", name=name)
    return str(path)


def remove_tree(path: Path) -> None:
    """Removes a folder whatever its owner did to the modes inside. Links are not followed."""
    if not path.is_symlink() and not path.exists():
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def is_empty(folder: Path) -> bool:
    """Whether nothing lies in `folder`."""
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def measure(folder: Path) -> Usage:
    """Bytes and files below `folder`; a folder counts as a file, so that empty ones are bounded too."""
    size = files = 0
    strange = ""
    for path, status in _walk(str(folder), 0):
        files += 1
        if stat.S_ISREG(status.st_mode):
            size += max(status.st_size, status.st_blocks * 512)
        elif not stat.S_ISDIR(status.st_mode):
            strange = strange or os.path.relpath(path, folder)
    return Usage(size, files, strange)


def _walk(folder: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status
                if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                    yield from _walk(entry.path, depth + 1)
    except (FileNotFoundError, NotADirectoryError):
        return


def _open_files(folder: Path) -> Iterator[tuple[str, int]]:
    root = os.open(folder, _FOLDER)
    try:
        yield from _open_below(root, "", 0)
    finally:
        os.close(root)


def _open_below(parent: int, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    for name in os.listdir(parent):
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                child = os.open(name, _FOLDER, dir_fd=parent)
                try:
                    yield from _open_below(child, f"{prefix}{name}/", depth + 1)
                finally:
                    os.close(child)
            elif stat.S_ISREG(status.st_mode):
                file = os.open(name, _FILE, dir_fd=parent)
                if stat.S_ISREG(os.fstat(file).st_mode):
                    yield prefix + name, file
                else:
                    os.close(file)
        except OSError:
            continue
