"""The `Launcher` port: containers of leases, warm and cold, and what came of each task.

A warm container runs the runner and serves many tasks of one (lease, image). A cold container runs one command of its image.
What a renter's code does is told by `TaskOutcome`, never by an exception; what stops a launcher raises a `LaunchError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

DEFAULT_TIME_LIMIT_S = 3600.0
MAX_RESULT_BYTES = 64 << 20
MAX_LOG_BYTES = 16 << 20


class TaskStatus(StrEnum):
    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT = "output"  # wrote more, or other things, to /out than allowed
    CANCELLED = "cancelled"
    LOST = "lost"  # the container or its runner ended under the task; run it again


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check. `level` is ok, warn or fail; a launcher with a `fail` must not be used."""

    level: str
    subject: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use. `cpu_milli` are thousandths of a core; the rest MiB and counts."""

    cpu_milli: int
    memory_mib: int
    tmp_mib: int = 64
    out_mib: int = 256
    out_files: int = 4096
    pids: int = 256


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container to start. `inputs` maps names under /in to files of this machine; `task` and `attempt` are set for cold ones only.

    `gpus` are CDI device names; `image` a name the engine knows or a digest.
    """

    lease: str
    renter: str
    image: str
    limits: Limits
    task: str = ""
    attempt: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Path] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunnerFacts:
    """What the runner's first frame says about the Python of the image."""

    python: tuple[int, int, int]
    has_numpy: bool
    pid: int
    protocol: int


@dataclass(frozen=True, slots=True)
class Container:
    """A running warm container."""

    id: str
    lease: str
    image_digest: str
    runner: RunnerFacts
    limits: Limits


@dataclass(frozen=True, slots=True)
class CodeBundle:
    """Source a task needs: relative paths and bytes. `main` names the file that loads as `__mp_main__`, if one does."""

    files: Mapping[str, bytes]
    main: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted files, hexadecimal: the executor is kept while it stays the same."""
        digest = hashlib.sha256(self.main.encode() + b"\0")
        for path in sorted(self.files):
            body = self.files[path]
            digest.update(f"{len(path.encode())}:{path}:{len(body)}:".encode() + body)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class TaskFrame:
    """One attempt. `args` is the encoded value `(positional tuple, keyword dict)`; `entry` is `module:qualname`.

    `inputs` appear read-only in the folder that the task finds in `MILLPOND_IN`; what it writes to `MILLPOND_OUT` comes back in the outcome.
    """

    task: str
    attempt: int
    code: CodeBundle
    entry: str
    args: bytes
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    inputs: Mapping[str, Path] = field(default_factory=dict)
    max_result_bytes: int = MAX_RESULT_BYTES
    max_log_bytes: int = MAX_LOG_BYTES


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes a task wrote. `offset` counts from the attempt's start, per stream; a gap means bytes were dropped."""

    task: str
    attempt: int
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What the renter's code, or the limit it met, says."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A regular file a task left in /out: its name there, and the copy on this machine that the container cannot reach."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of one attempt. Durations are seconds of a monotonic clock; `log_tail` is the last part of both streams."""

    task: str
    attempt: int
    status: TaskStatus
    value: bytes | None = None
    failure: TaskFailure | None = None
    exit_code: int | None = None
    queued_s: float = 0.0
    run_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    log_tail: bytes = b""
    log_bytes: int = 0
    outputs: tuple[OutputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnedContainer:
    """A container of this worker that the engine knows, running or not. `kind` is warm or cold."""

    id: str
    kind: str
    lease: str
    task: str
    attempt: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """What a container uses now; `cpu_ms` since it started. None: the engine does not say."""

    cpu_ms: int
    memory_bytes: int
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None


OnLog = Callable[[LogChunk], None]


def drop_log(chunk: LogChunk) -> None:
    """An `OnLog` that keeps nothing."""


class Launcher(Protocol):
    """Starts, feeds and removes containers. `kind` is docker, process or fake; `isolation` its class (0 advisory ... 3 hardware)."""

    @property
    def kind(self) -> str: ...

    @property
    def isolation(self) -> int: ...

    async def check(self) -> list[Finding]:
        """What is right and wrong with the engine. Never raises."""
        ...

    async def pull(self, image: str) -> str:
        """Makes the image present and returns its digest. Raises `ImageMissingError`, `EngineUnavailableError`."""
        ...

    async def image_digest(self, image: str) -> str:
        """The 64 hexadecimal digits of the image's sha256 id. Raises `ImageMissingError`, `EngineUnavailableError`."""
        ...

    async def start(self, spec: ContainerSpec) -> Container:
        """Starts a warm container and waits for its runner. Raises `LaunchError` kinds; leaves nothing behind when it does."""
        ...

    async def execute(self, container: Container, frame: TaskFrame, on_log: OnLog = drop_log) -> TaskOutcome:
        """Runs one attempt. Callers may overlap calls: attempts of one container run in order of the calls. Cancelling the call cancels the attempt."""
        ...

    async def cancel(self, container: Container, task: str, attempt: int) -> None:
        """Ends a queued or running attempt; its `execute` returns `CANCELLED`. Unknown attempts are ignored."""
        ...

    async def run_cold(
        self,
        spec: ContainerSpec,
        command: Sequence[str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        on_log: OnLog = drop_log,
    ) -> TaskOutcome:
        """Runs one command in its own container, /in and /out mounted, to the end. An empty command runs the image's own."""
        ...

    async def adopt(
        self, owned: OwnedContainer, time_limit_s: float = DEFAULT_TIME_LIMIT_S, on_log: OnLog = drop_log
    ) -> TaskOutcome:
        """Waits for a cold container that outlived the worker's last run. Raises `ContainerGoneError` when there is none."""
        ...

    async def pause(self, container: Container) -> None:
        """Freezes a warm container. Time limits stand still meanwhile."""
        ...

    async def unpause(self, container: Container) -> None:
        """Lets a frozen container go on."""
        ...

    async def pause_cold(self, lease: str) -> None:
        """Freezes the lease's cold containers, and each that starts until `unpause_cold`. Their time limits stand still."""
        ...

    async def unpause_cold(self, lease: str) -> None:
        """Lets the lease's cold containers go on. Nothing happens where none is frozen."""
        ...

    async def stop(self, container: Container) -> None:
        """Kills and removes the container; running attempts return `LOST`. Stopping twice does nothing."""
        ...

    async def list_owned(self) -> list[OwnedContainer]:
        """Every container that carries this worker's label. Raises `EngineUnavailableError`."""
        ...

    async def measure(self, owned: OwnedContainer) -> Measured:
        """What the container uses. Raises `ContainerGoneError`, `EngineUnavailableError`."""
        ...

    async def remove(self, owned: OwnedContainer) -> None:
        """Kills and removes one owned container, whoever started it. Nothing happens when it is gone."""
        ...

    async def wipe(self, lease: str) -> None:
        """Leaves nothing of a lease on this machine: containers, mounts, folders, outputs."""
        ...

    async def close(self) -> None:
        """Lets go of the engine. Containers of cold tasks keep running; runners end by themselves."""
        ...
