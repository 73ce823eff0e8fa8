"""What the simple policy knows: offers, the ledger of slices, the queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.units import SHARE_FULL
from millpond_node.policy.port import Listing, RequestQueued, SliceTaken


@dataclass(slots=True)
class Ledger:
    """Slices taken, per device and per (renter, device)."""

    slices: dict[Bytes32, SliceTaken] = field(default_factory=dict)
    used: dict[Bytes32, tuple[int, int]] = field(default_factory=dict)
    live: dict[tuple[Address, Bytes32], int] = field(default_factory=dict)

    def take(self, entry: SliceTaken) -> None:
        if entry.lease not in self.slices:
            self.slices[entry.lease] = entry
            self._move(entry, 1)

    def free(self, lease: Bytes32) -> bool:
        entry = self.slices.pop(lease, None)
        if entry is not None:
            self._move(entry, -1)
        return entry is not None

    def _move(self, entry: SliceTaken, sign: int) -> None:
        share, memory = self.used.get(entry.device, (0, 0))
        self.used[entry.device] = (share + sign * entry.share, memory + sign * entry.memory_mib)
        key = (entry.renter, entry.device)
        self.live[key] = self.live.get(key, 0) + sign
        if not self.live[key]:
            del self.live[key]


@dataclass(slots=True)
class State:
    """`version` grows with every change that may let a waiting request fit; `tried` is the version at which one last did not."""

    offers: dict[Bytes32, Listing] = field(default_factory=dict)
    of_worker: dict[Address, tuple[Bytes32, ...]] = field(default_factory=dict)
    online: set[Address] = field(default_factory=set)
    memory: dict[Bytes32, int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    queue: dict[Bytes32, RequestQueued] = field(default_factory=dict)
    avoided: dict[tuple[Bytes32, Bytes32], int] = field(default_factory=dict)
    funds: dict[Address, int] = field(default_factory=dict)
    tried: dict[Bytes32, int] = field(default_factory=dict)
    version: int = 1

    def free_of(self, device: Bytes32) -> tuple[int, int]:
        if device not in self.memory:
            return 0, 0
        share, memory = self.ledger.used.get(device, (0, 0))
        return max(0, SHARE_FULL - share), max(0, self.memory[device] - memory)


def ordered(queue: dict[Bytes32, RequestQueued]) -> list[RequestQueued]:
    """Places in the queue go by submission; each renter fills its places by its own priorities. So nobody overtakes another's request."""
    by_order = sorted(queue.values(), key=lambda item: (item.order, item.hash))
    wishes: dict[Address, list[RequestQueued]] = {}
    for item in by_order:
        wishes.setdefault(item.request.renter, []).append(item)
    for items in wishes.values():
        items.sort(key=lambda item: (item.priority, -item.order))  # the next one is popped from the end
    return [wishes[item.request.renter].pop() for item in by_order]
