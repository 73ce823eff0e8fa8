"""The chain's news become events of the machines; what is taken back is undone."""

from __future__ import annotations

from millpond.protocol.views import LeaseState
from millpond_node.chain.port import (
    ChainBatch,
    ChainFact,
    DeviceChangedOn,
    FinalOn,
    LeaseClosedOn,
    LeaseOpenedOn,
    ReceiptsPostedOn,
    SeenOn,
    UndoneOn,
)
from millpond_node.core import Core
from millpond_node.machine.leases import (
    CloseFinal,
    CloseSeen,
    CloseUndone,
    LeaseFinal,
    LeaseSeen,
    LeaseUndone,
)
from millpond_node.machine.requests import Opened, OpenUndone
from millpond_node.market import Market, new_lease
from millpond_node.policy.port import SliceFreed, SliceTaken
from millpond_node.settle import Settlement


class News:
    """`take` applies a batch and stores its cursor with the effects, so that a crash repeats or loses nothing."""

    def __init__(self, core: Core, market: Market, settlement: Settlement) -> None:
        self._core, self._market, self._settlement = core, market, settlement
        self.changed_devices: list[DeviceChangedOn] = []

    def take(self, batch: ChainBatch) -> None:
        self._core.head, self._core.head_time = batch.head, batch.time
        for notice in batch.notices:
            match notice:
                case SeenOn(fact=fact):
                    self._seen(fact)
                case UndoneOn(fact=fact):
                    self._undone(fact)
                case FinalOn(fact=fact):
                    self._final(fact)
        self._core.durable.batch.put("meta", "cursor", batch.cursor.encode())
        self._core.durable.touch()

    def _seen(self, fact: ChainFact) -> None:
        match fact:
            case LeaseOpenedOn():
                self._opened(fact)
            case LeaseClosedOn(lease=lease, at=at):
                if lease in self._core.books.leases.records:
                    self._core.on_lease(CloseSeen(lease, at))
                else:
                    self._core.tell(SliceFreed(lease))
                self._market.wake.set()
            case ReceiptsPostedOn(poster=poster, root=root):
                self._settlement.seen(poster, root)
            case DeviceChangedOn():
                self.changed_devices.append(fact)

    def _opened(self, fact: LeaseOpenedOn) -> None:
        core = self._core
        self._adopt(fact)
        core.tell(SliceTaken(fact.lease, fact.terms.device, fact.terms.share, fact.terms.memoryMiB, fact.renter))
        core.on_lease(LeaseSeen(fact.lease, fact.opened_at, fact.ends_at, fact.block_hash))
        core.on_request(Opened(fact.request, fact.lease))

    def _adopt(self, fact: LeaseOpenedOn) -> None:
        """A lease that somebody else opened for a request this node knows, of an offer it has."""
        books = self._core.books
        record, offered = books.requests.records.get(fact.request), books.offers.get(fact.offer)
        if fact.lease in books.leases.records or record is None or offered is None:
            return
        if (
            record.lease is not None
            and (old := books.leases.records.get(record.lease)) is not None
            and old.state is LeaseState.OPENING
        ):
            return
        lease = new_lease(fact.lease, record, offered)
        lease.is_ours = False
        books.leases.adopt(lease)

    def _undone(self, fact: ChainFact) -> None:
        core = self._core
        match fact:
            case LeaseOpenedOn():
                is_ours = fact.lease in core.books.leases.records
                core.on_lease(LeaseUndone(fact.lease))
                core.on_request(OpenUndone(fact.request))
                if not is_ours:
                    core.tell(SliceFreed(fact.lease))
            case LeaseClosedOn(lease=lease):
                core.on_lease(CloseUndone(lease))
            case ReceiptsPostedOn(poster=poster, root=root):
                self._settlement.undone(poster, root)
            case DeviceChangedOn():
                self.changed_devices.append(fact)

    def _final(self, fact: ChainFact) -> None:
        match fact:
            case LeaseOpenedOn(lease=lease):
                self._core.on_lease(LeaseFinal(lease))
            case LeaseClosedOn(lease=lease):
                self._core.on_lease(CloseFinal(lease))
            case ReceiptsPostedOn(poster=poster, root=root):
                self._settlement.final(poster, root)
            case DeviceChangedOn():
                pass
