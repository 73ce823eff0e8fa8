"""What the worker needs of the world: time, chain, node, data plane. Each has a real version in `edge` and a simulated one beside it.

Launcher and Gpu are in `launch.port` and `devices.port`; the Journal is `millpond.storage.journal.Journal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from millpond.protocol.ids import Address, Bytes32
from millpond_worker.machine.commands import SendTx
from millpond_worker.machine.events import LeaseFact


class Clock(Protocol):
    def now(self) -> int:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class NodeRef:
    """Where the pool's node is, and the key it is known by."""

    address: Address
    url: str


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What a pool fixes for its workers. Windows and grace in seconds."""

    chain_id: int
    controller: Address
    escrow: Address
    devices: Address
    attestations: Address
    token: Address
    grace: int
    claim_window: int
    dispute_window: int
    max_duration: int
    exposure_ppm: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block; `time` in Unix seconds."""

    number: int
    time: int


class Chain(Protocol):
    """The worker's own view of the chain. Every method raises `ChainError` kinds when there is no answer in time."""

    async def start(self) -> None:
        """Checks the chain id and takes up transactions that an earlier run left."""
        ...

    async def pool(self) -> PoolFacts: ...

    async def node(self) -> NodeRef:
        """The pool's node, as announced on chain. Raises `NodeUnknownError`."""
        ...

    async def head(self) -> Head: ...

    async def facts(self, leases: Sequence[Bytes32]) -> list[LeaseFact]:
        """In the order asked; a lease the chain does not have is `NONE`."""
        ...

    async def offer_epoch(self, device: Bytes32) -> int:
        """The epoch that offers of the device must carry."""
        ...

    async def cancel_offers(self, device: Bytes32, epoch: int) -> None:
        """Ends every offer of the device signed with `epoch`, and returns when that is mined; nothing where it is over already."""
        ...

    async def unreserved(self, provider: Address) -> int:
        """Stake of the provider in this pool that no lease has reserved, base units."""
        ...

    async def send(self, command: SendTx) -> None:
        """Makes the transaction durable, and returns when it is mined. Raises `ChainError` kinds when it never will be."""
        ...

    async def close(self) -> None: ...


class Line(Protocol):
    """One open connection to a node. Text frames; every method raises `NodeUnreachableError` once it is cut."""

    async def send(self, frame: bytes) -> None: ...

    async def receive(self) -> bytes: ...

    async def close(self) -> None: ...


class Net(Protocol):
    async def connect(self, node: NodeRef) -> Line:
        """Opens the signed connection. Raises `NodeUnreachableError`, `NodeRefusedError`."""
        ...


class Store(Protocol):
    """The data plane as tasks need it. What is read for a lease is kept until `forget`. Raises `StorageError` kinds."""

    def use(self, node: NodeRef) -> None:
        """Reads from and writes to this node from now on."""
        ...

    async def read(self, lease: Bytes32, cid: str, max_bytes: int) -> bytes:
        """A whole file, verified."""
        ...

    async def export(self, lease: Bytes32, cid: str, target: Path, max_bytes: int) -> None:
        """A file, verified, to `target`, which must not exist."""
        ...

    async def put(self, data: bytes) -> str:
        """Stores a file at the node and returns its CID."""
        ...

    async def put_folder(self, files: Mapping[str, Path]) -> str:
        """Stores a directory at the node, by names that may have folders in them, and returns its CID."""
        ...

    def forget(self, lease: Bytes32) -> None:
        """Lets go of what was read for the lease."""
        ...

    async def close(self) -> None: ...
