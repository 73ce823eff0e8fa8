"""What an agent is made of: the ports, the keys it signs with, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millpond.chain.keys import Wallet
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.messages import DeviceEntry
from millpond.protocol.signed import Offer
from millpond.storage.journal import Journal
from millpond_worker.devices.port import DeviceInfo, DeviceKind, SliceMode, SliceSpec
from millpond_worker.devices.slices import SliceLedger
from millpond_worker.launch.port import Launcher, Limits
from millpond_worker.machine.policy import ANY, Policy
from millpond_worker.offers import OfferBook
from millpond_worker.ports import Chain, Clock, Net, PoolFacts, Store

TMP_MIB = 64
MODES = {0: SliceMode.CPU, 1: SliceMode.TIMESLICE, 2: SliceMode.MPS, 3: SliceMode.MIG, 5: SliceMode.WHOLE}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the worker is: `wallet` holds the operator key, `instance` is new with each start."""

    wallet: Wallet
    provider: Address
    instance: str
    version: str


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between the agent's rounds, and how long it waits. Tests shorten them."""

    tick: float = 1.0
    beat: float = 2.0
    reconcile: float = 3.0
    status: float = 2.0
    offers: float = 60.0
    retry_first: float = 0.5
    retry_most: float = 15.0
    store_patience: float = 600.0
    welcome: float = 15.0


@dataclass(frozen=True, slots=True)
class Parts:
    """All an agent needs. `devices` maps ids on chain to devices here; `folder` is the worker's home."""

    clock: Clock
    chain: Chain
    net: Net
    store: Store
    journal: Journal
    launcher: Launcher
    ledger: SliceLedger
    offers: OfferBook
    identity: Identity
    pool: PoolFacts
    devices: Mapping[Bytes32, DeviceInfo]
    folder: Path
    allow_renters: frozenset[Address] | None = None
    task_image: str = "millpond-task:1"
    policy: Policy = ANY
    pace: Pace = field(default_factory=Pace)

    def entries(self) -> tuple[DeviceEntry, ...]:
        return tuple(
            DeviceEntry(device, info.uuid, info.kind.value, info.name, info.memory_mib, info.cores or info.host_cores)
            for device, info in self.devices.items()
        )

    def slice_of(self, offer: Offer) -> SliceSpec:
        """The slice of this machine's device that an offer means."""
        return SliceSpec(
            device=self.devices[offer.device].uuid,
            share_per_mille=offer.share,
            memory_mib=offer.memoryMiB,
            cpu_milli=offer.cpuMilli,
            ram_mib=offer.ramMiB,
            disk_mib=offer.diskMiB,
            mode=MODES.get(offer.mode, SliceMode.WHOLE),
            isolation=offer.isolation,
        )

    def limits_of(self, offer: Offer) -> Limits:
        tmp = max(1, min(TMP_MIB, offer.diskMiB))
        return Limits(offer.cpuMilli, offer.ramMiB, tmp_mib=tmp, out_mib=max(1, offer.diskMiB))

    def gpus_of(self, offer: Offer) -> tuple[str, ...]:
        """CDI names of what the slice may reach."""
        info = self.devices[offer.device]
        return (f"nvidia.com/gpu={info.uuid}",) if info.kind is DeviceKind.NVIDIA else ()
