"""What an attempt reads: its code bundle, arguments and input files, by CID, verified."""

from __future__ import annotations

import asyncio
import shutil
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from millpond.protocol.errors import InputError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import TaskSpec
from millpond.protocol.receipts import input_manifest
from millpond.protocol.values import decode
from millpond.storage.cid import Cid, cid_of
from millpond.storage.errors import BudgetExceededError, CidError, DagError
from millpond_worker.errors import BadTaskError
from millpond_worker.launch.port import CodeBundle
from millpond_worker.machine.model import Attempt, AttemptKey
from millpond_worker.ports import Store

MAX_CODE_BYTES = 64 << 20
MAX_ARGS_BYTES = 1 << 30
BUNDLES_KEPT = 64
RENTERS_FAULT = (InputError, CidError, DagError, BudgetExceededError)
"""What a renter's own task is to blame for: running it elsewhere would not help."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything an attempt needs, on this machine. `files` maps names under /in to paths."""

    code: CodeBundle
    args: bytes
    files: Mapping[str, Path] = field(default_factory=dict)


class InputDesk:
    """Fetches inputs; code bundles are kept decoded, since thousands of tasks share one."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._bundles: OrderedDict[tuple[Bytes32, str], CodeBundle] = OrderedDict()
        self._fetching: dict[tuple[Bytes32, str], asyncio.Task[CodeBundle]] = {}

    def at_hand(self, attempt: Attempt) -> Inputs | None:
        """The inputs, where nothing has to be fetched."""
        spec = attempt.spec
        if spec.inputs or spec.args_cid:
            return None
        if not spec.code:
            return Inputs(CodeBundle({}), spec.args)
        bundle = self._bundles.get((attempt.key.lease, spec.code))
        return Inputs(bundle, spec.args) if bundle is not None else None

    async def fetch(self, attempt: Attempt, disk_mib: int) -> Inputs:
        """Raises one of `RENTERS_FAULT` for a task that can run nowhere, `StorageError` kinds where content is out of reach."""
        spec, lease = attempt.spec, attempt.key.lease
        check_spec(spec)
        code = await self._bundle(lease, spec.code) if spec.code else CodeBundle({})
        args = await self._store.read(lease, spec.args_cid, MAX_ARGS_BYTES) if spec.args_cid else spec.args
        folder = self._folder_of(attempt.key)
        files: dict[str, Path] = {}
        if spec.inputs:
            await asyncio.to_thread(_fresh, folder)
        for number, (name, cid) in enumerate(sorted(spec.inputs.items())):
            files[name] = folder / str(number)
            await self._store.export(lease, cid, files[name], disk_mib << 20)
        return Inputs(code, args, files)

    async def drop(self, key: AttemptKey) -> None:
        """Removes the input files of an attempt."""
        await asyncio.to_thread(shutil.rmtree, self._folder_of(key), True)

    def forget(self, lease: Bytes32) -> None:
        for name in [name for name in self._bundles if name[0] == lease]:
            del self._bundles[name]

    def _folder_of(self, key: AttemptKey) -> Path:
        return self._folder / key.lease / f"{key.task}-{key.attempt}"

    async def _bundle(self, lease: Bytes32, cid: str) -> CodeBundle:
        """Callers who need the same bundle at once share one fetch."""
        name = (lease, cid)
        if name in self._bundles:
            return self._bundles[name]
        if name not in self._fetching:
            self._fetching[name] = asyncio.create_task(self._read_bundle(lease, cid))
            self._fetching[name].add_done_callback(lambda _: self._fetching.pop(name, None))
        return await asyncio.shield(self._fetching[name])

    async def _read_bundle(self, lease: Bytes32, cid: str) -> CodeBundle:
        bundle = code_bundle(decode(await self._store.read(lease, cid, MAX_CODE_BYTES)))
        self._bundles[lease, cid] = bundle
        if len(self._bundles) > BUNDLES_KEPT:
            self._bundles.popitem(last=False)
        return bundle


def code_bundle(value: Any) -> CodeBundle:
    """`{"main": str, "files": {path: bytes}}` as a bundle; raises `BadTaskError` for anything else."""
    files = value.get("files") if isinstance(value, dict) else None
    main = value.get("main", "") if isinstance(value, dict) else None
    if not isinstance(files, dict) or not isinstance(main, str):
        raise BadTaskError("the code is no bundle of files")
    for path, body in files.items():
        if not isinstance(path, str) or not isinstance(body, bytes) or not _is_inside(path):
            raise BadTaskError(f"the code bundle has a bad entry: {str(path)[:80]!r}", path=str(path)[:80])
    if main and main not in files:
        raise BadTaskError(f"the code bundle lacks its main file {main!r}", path=main[:80])
    return CodeBundle(files, main)


def check_spec(spec: TaskSpec) -> None:
    """Raises `BadTaskError` for a task that no worker can run."""
    if bool(spec.entry) == bool(spec.command):
        raise BadTaskError("a task has either an entry or a command", entry=spec.entry, command=list(spec.command))
    if spec.entry and not spec.code:
        raise BadTaskError(f"the task's entry {spec.entry!r} comes without code")
    for name in spec.inputs:
        if not _is_inside(name) or "/" in name:
            raise BadTaskError(f"{name[:80]!r} is no name of an input file", name=name[:80])
    if not 0 < spec.time_limit_s < 10**9:
        raise BadTaskError(f"the time limit is {spec.time_limit_s} s", time_limit_s=spec.time_limit_s)


def input_cid(spec: TaskSpec) -> Cid:
    """The CID the receipt's `input` names: of the manifest, with inline arguments as their own block."""
    if spec.args and not spec.args_cid:
        spec = replace(spec, args_cid=cid_of(spec.args))
    return cid_of(input_manifest(spec))


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\0" not in path


def _fresh(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
