"""The executor: the forked child that loads a renter's code and runs its tasks, one after the other."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import resource
import signal
import socket
import sys
import traceback
import types
from typing import Any, Callable, Dict, List, Sequence, TextIO, Tuple

from millpond.protocol.errors import MillpondError
from millpond.protocol.values import decode, encode

from .frames import Header, pack, receive_blocking

MAIN_MODULE = "__mp_main__"
MAX_TRACEBACK = 32 << 10
MAX_MESSAGE = 4 << 10


def become_executor(channel: socket.socket, stdout: int, stderr: int) -> None:
    """Called in the child after the fork: own session, own streams, first to die when memory runs out."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prefer_for_oom_kill()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
    _close_others(channel.fileno())
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.FileIO(0)), _line_writer(1), _line_writer(2)
    channel.setblocking(True)


def _line_writer(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _prefer_for_oom_kill() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        return


def _close_others(keep: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != keep:
            try:
                os.close(int(name))
            except OSError:
                continue


class Loader:
    """Finds a task's function: `module:qualname`, in the code folder. What was loaded once stays."""

    def __init__(self, folder: str, main: str) -> None:
        self._folder = folder
        self._main = main
        self._entries: Dict[str, Callable[..., Any]] = {}
        sys.path.insert(0, folder)

    def find(self, entry: str) -> Callable[..., Any]:
        if entry not in self._entries:
            self._entries[entry] = self._load(entry)
        return self._entries[entry]

    def _load(self, entry: str) -> Callable[..., Any]:
        name, _, path = entry.partition(":")
        found: Any = self._load_main() if name == MAIN_MODULE else importlib.import_module(name)
        for part in path.split("."):
            found = getattr(found, part)
        if not isinstance(found, (types.FunctionType, type)) and callable(getattr(found, "local", None)):
            found = found.local
        if not callable(found):
            raise TypeError("%s is not callable" % entry)
        return found  # type: ignore[no-any-return]

    def _load_main(self) -> types.ModuleType:
        if MAIN_MODULE in sys.modules:
            return sys.modules[MAIN_MODULE]
        path = os.path.join(self._folder, self._main)
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(MAIN_MODULE, path)
        if not self._main or spec is None or spec.loader is None:
            raise ImportError("the code has no main script")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MAIN_MODULE] = sys.modules["__main__"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN_MODULE]
            raise
        return module


def run_task(loader: Loader, header: Header, body: bytearray) -> Tuple[Header, Sequence[Any]]:
    """Runs one task to its result frame; whatever the renter's code raises becomes a failure."""
    os.environ["MILLPOND_IN"], os.environ["MILLPOND_OUT"] = header["input"], header["output"]
    os.environ["MILLPOND_TASK"], os.environ["MILLPOND_ATTEMPT"] = header["task"], str(header["attempt"])
    before = _cpu_seconds()
    try:
        args, kwargs = decode(body)
        value = loader.find(header["entry"])(*args, **kwargs)
        if isinstance(value, types.CoroutineType):
            value = _run_coroutine(value)
        pieces = encode(value)
        _check_result(pieces, header["max_result"])
        result: Header = {"kind": "result", "status": "ok", "error": None}
    except BaseException as error:
        pieces = []
        result = {"kind": "result", "status": _status_of(error), "error": describe(error)}
    _flush_streams()
    result["cpu_s"] = _cpu_seconds() - before
    result["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result, pieces


def _run_coroutine(value: Any) -> Any:
    import asyncio

    return asyncio.run(value)


def _check_result(pieces: Sequence[Any], bound: int) -> None:
    size = sum(len(piece) for piece in pieces)
    if size > bound:
        raise ValueError(
            "the result has %d bytes, more than the %d allowed: write it to the folder named by MILLPOND_OUT"
            % (size, bound)
        )


def _status_of(error: BaseException) -> str:
    return "oom" if isinstance(error, MemoryError) else "failed"


def describe(error: BaseException) -> List[str]:
    """Type, message and traceback of a failure, without this file's own frames, cut to bounds."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    message = str(error)
    if isinstance(error, MillpondError) and error.remedy:
        message = "%s. %s" % (message, error.remedy)
    return [type(error).__name__, message[:MAX_MESSAGE], text[-MAX_TRACEBACK:]]


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


def _cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def serve(channel: socket.socket, folder: str, main: str) -> None:
    """Runs tasks from the channel until it closes."""
    loader = Loader(folder, main)
    while True:
        try:
            header, body = receive_blocking(channel)
        except EOFError:
            return
        result, pieces = run_task(loader, header, body)
        channel.sendall(pack(result, sum(len(piece) for piece in pieces)))
        for piece in pieces:
            channel.sendall(piece)
