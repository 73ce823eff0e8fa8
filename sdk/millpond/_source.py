"""What a task ships: source files and an entry `module:qualname`. Never pickled code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from millpond.errors import TaskSourceError
from millpond.protocol import values

MAIN_MODULE = "__mp_main__"
MAX_SOURCE_BYTES = 16 << 20
SKIPPED_FOLDERS = frozenset({"__pycache__", ".git", ".venv", "node_modules", ".mypy_cache", ".pytest_cache"})


@dataclass(frozen=True, slots=True)
class Source:
    """Files by their path below the import root; `main` is the script that loads as `__mp_main__`, or empty."""

    entry: str
    main: str
    files: dict[str, bytes]

    def bundle(self) -> bytes:
        """The code block that workers fetch by CID."""
        return values.encode_bytes({"main": self.main, "files": self.files})


def source_of(function: Callable[..., Any]) -> Source:
    """The source a worker needs to call `function`; raises `TaskSourceError` for what cannot be shipped as source."""
    function = inspect.unwrap(function)
    _refuse_unshippable(function)
    module = sys.modules.get(function.__module__)
    path = getattr(module, "__file__", None)
    if path is None:
        raise TaskSourceError(
            f"{function.__qualname__} was typed into an interactive session, so it has no source file",
            remedy="Save the function in a .py file and import it, or run the file as a script.",
        )
    if function.__module__ in ("__main__", MAIN_MODULE):
        return _script(function, Path(path))
    return _module(function, function.__module__, Path(path))


def _refuse_unshippable(function: Callable[..., Any]) -> None:
    if not isinstance(function, FunctionType):
        raise TaskSourceError(f"{function!r} is not a plain function; methods, classes and builtins cannot be tasks")
    if function.__name__ == "<lambda>":
        raise TaskSourceError("a lambda cannot be a task: it has no name to call it by", remedy="Use `def`.")
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise TaskSourceError(
            f"{function.__qualname__} is a closure over {names}; only source travels, not captured values"
        )
    if "<locals>" in function.__qualname__:
        raise TaskSourceError(f"{function.__qualname__} is defined inside a function")


def _script(function: Callable[..., Any], path: Path) -> Source:
    """The script and the modules beside it, so that its local imports work."""
    files = _collect(path.parent, only_top=True)
    files.setdefault(path.name, path.read_bytes())
    return Source(f"{MAIN_MODULE}:{function.__qualname__}", path.name, files)


def _module(function: Callable[..., Any], name: str, path: Path) -> Source:
    """The whole top-level package of the module, or its single file."""
    top = name.partition(".")[0]
    root = path.parents[name.count(".") + (path.name == "__init__.py")]
    folder = root / top
    if not folder.is_dir():
        return Source(f"{name}:{function.__qualname__}", "", {path.name: path.read_bytes()})
    files = {f"{top}/{relative}": body for relative, body in _collect(folder, only_top=False).items()}
    return Source(f"{name}:{function.__qualname__}", "", files)


def _collect(folder: Path, *, only_top: bool) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.glob("*.py") if only_top else folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_symlink() or not path.is_file() or SKIPPED_FOLDERS.intersection(relative.parts):
            continue
        size += path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise TaskSourceError(
                f"the source below {folder} is larger than {MAX_SOURCE_BYTES >> 20} MiB",
                remedy="Move the task to a package of its own; send data by `inputs`, not as files beside the source.",
            )
        files[relative.as_posix()] = path.read_bytes()
    return files
