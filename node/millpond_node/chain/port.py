"""The chain's port. What it reports may be taken back until it is final; what it is asked to send is sent once per key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.signed import Offer


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What the chain says of the pool. Ratios in ppm, times in seconds."""

    chain_id: int
    controller: Address
    node: Address
    escrow: Address
    staking: Address
    devices: Address
    attestations: Address
    tokens: Address
    token: Address
    token_symbol: str
    token_decimals: int
    fee_ppm: int
    burn_ppm: int
    deposit_seconds: int
    max_duration: int
    finality: int


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device in this pool, and who signs for it."""

    device: Bytes32
    provider: Address
    operator: Address
    pool: Address
    epoch: int
    memory_mib: int
    is_draining: bool


@dataclass(frozen=True, slots=True)
class LeaseOpenedOn:
    """A lease of the pool is on chain, opened by whomever. Times are Unix seconds."""

    lease: Bytes32
    request: Bytes32
    offer: Bytes32
    terms: Offer
    renter: Address
    opened_at: int
    ends_at: int
    block_hash: str


@dataclass(frozen=True, slots=True)
class LeaseClosedOn:
    lease: Bytes32
    at: int


@dataclass(frozen=True, slots=True)
class ReceiptsPostedOn:
    poster: Address
    root: Bytes32


@dataclass(frozen=True, slots=True)
class DeviceChangedOn:
    """Epoch, operator, pool or draining of a device or of a provider's devices may have changed: read them again."""

    device: Bytes32 | None
    provider: Address | None


ChainFact = LeaseOpenedOn | LeaseClosedOn | ReceiptsPostedOn | DeviceChangedOn


@dataclass(frozen=True, slots=True)
class SeenOn:
    fact: ChainFact


@dataclass(frozen=True, slots=True)
class UndoneOn:
    """The fact's block was replaced."""

    fact: ChainFact


@dataclass(frozen=True, slots=True)
class FinalOn:
    fact: ChainFact


Notice = SeenOn | UndoneOn | FinalOn


@dataclass(frozen=True, slots=True)
class ChainBatch:
    """News in order, and the `cursor` to store with its effects. `time` is the newest block's, Unix seconds."""

    notices: tuple[Notice, ...]
    cursor: str
    head: int
    time: int


@dataclass(frozen=True, slots=True)
class OpenLease:
    """`Controller.openLease`."""

    lease: Bytes32
    offer: Offer
    offer_signature: bytes
    request: object
    request_signature: bytes

    @property
    def key(self) -> str:
        return f"open:{self.lease}"


@dataclass(frozen=True, slots=True)
class CloseLease:
    """`Controller.closeLease`."""

    lease: Bytes32

    @property
    def key(self) -> str:
        return f"close:{self.lease}"


@dataclass(frozen=True, slots=True)
class PostReceipts:
    """`Attestations.postReceipts`."""

    root: Bytes32
    count: int
    data_hash: Bytes32

    @property
    def key(self) -> str:
        return f"post:{self.root}"


@dataclass(frozen=True, slots=True)
class Announce:
    """`Controller.announce` of the node's URL, for `ttl_s` seconds. `turn` tells one renewal from the next."""

    url: str
    ttl_s: int
    turn: int

    @property
    def key(self) -> str:
        return f"announce:{self.turn}:{self.url}"


Intent = OpenLease | CloseLease | PostReceipts | Announce


@dataclass(frozen=True, slots=True)
class Refusal:
    """The contract refuses an intent. `code` is the error's name."""

    key: str
    code: str
    message: str


class Chain(Protocol):
    """Methods raise `ChainError` kinds; what was asked stays asked."""

    async def facts(self) -> PoolFacts: ...

    async def device(self, device: Bytes32) -> DeviceFacts | None:
        """None when unknown."""
        ...

    async def free_escrow(self, renter: Address) -> int:
        """Token base units."""
        ...

    def batches(self, cursor: str) -> AsyncIterator[ChainBatch]:
        """News since `cursor` (empty: since the pool was made), for ever."""
        ...

    async def send(self, intent: Intent) -> Refusal | None:
        """Makes the intent durable and sends it; None once it is mined, or when it goes on by itself. The same key again is the same."""
        ...

    async def aclose(self) -> None: ...
