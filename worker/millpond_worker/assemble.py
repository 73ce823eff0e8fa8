"""Puts a worker together from its settings: keys, devices, launcher, offers, ports."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from millpond.chain.address_book import AddressBook
from millpond.chain.bindings import MockToken
from millpond.protocol.ids import Bytes32, device_id, device_uuid_hash
from millpond.protocol.signing import Domain
from millpond.protocol.units import parse_price
from millpond.storage.journal import SqliteJournal
from millpond_worker.agent.parts import Identity, Parts
from millpond_worker.config import OfferConfig, WorkerConfig
from millpond_worker.devices.discover import open_devices
from millpond_worker.devices.port import DeviceInfo, DeviceKind, Gpu
from millpond_worker.devices.slices import SliceLedger, slice_of
from millpond_worker.edge.chain import EvmChain
from millpond_worker.edge.clock import SystemClock
from millpond_worker.edge.net import WebSocketNet
from millpond_worker.edge.store import NodeStore
from millpond_worker.errors import SetupError
from millpond_worker.home import Home
from millpond_worker.keys import open_key
from millpond_worker.launchers import Chosen, choose_launcher
from millpond_worker.machine.policy import Policy, utc_minute
from millpond_worker.offers import OfferBook, OfferTemplate
from millpond_worker.zones import LocalMinute

FALLBACK_VERSION = "0.1.0"


@cache
def own_version() -> str:
    """The installed release."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("millpond")
    except PackageNotFoundError:
        return FALLBACK_VERSION


@dataclass(frozen=True, slots=True)
class Assembled:
    """A worker ready to run, and what a person should hear first."""

    parts: Parts
    gpu: Gpu
    chain: EvmChain
    token_decimals: int
    token_symbol: str
    warning: str
    config: WorkerConfig


def open_gpu(config: WorkerConfig) -> Gpu:
    """Raises `DeviceDriverError`."""
    kind = None if config.device == "auto" else DeviceKind(config.device)
    return open_devices(
        kind, label=config.device_label, cores=config.cores or None, memory_mib=config.memory_mib or None
    )


def chosen_devices(config: WorkerConfig, gpu: Gpu) -> list[DeviceInfo]:
    """The devices of the settings. Raises `SetupError` for one that is not here."""
    found = gpu.list_devices()
    missing = sorted(set(config.uuids) - {info.uuid for info in found})
    if missing or not found:
        here = ", ".join(info.uuid for info in found) or "none"
        raise SetupError(
            f"devices {missing or 'of any kind'} are not on this machine; here are: {here}", missing=missing
        )
    return [info for info in found if not config.uuids or info.uuid in config.uuids]


def device_ids(config: WorkerConfig, infos: list[DeviceInfo]) -> dict[Bytes32, DeviceInfo]:
    return {device_id(config.provider, device_uuid_hash(info.uuid)): info for info in infos}


def open_chain(config: WorkerConfig, home: Home) -> EvmChain:
    """Raises `AddressBookError`, and what `open_key` raises."""
    wallet = open_key(config.key, home, config.chain_id)
    book = AddressBook.load(home.path(config.addresses), config.chain_id)
    return EvmChain(
        config.rpc_url,
        config.chain_id,
        config.controller,
        book.address("Attestations"),
        wallet,
        home.transactions,
        node_url=config.node_url,
        finality=config.finality,
    )


async def assemble(config: WorkerConfig, home: Home) -> Assembled:
    """Everything but the loops. Asks the chain for the pool's rules; raises whatever is wrong with the settings or out of reach."""
    wallet = open_key(config.key, home, config.chain_id)
    gpu = open_gpu(config)
    infos = chosen_devices(config, gpu)
    devices = device_ids(config, infos)
    chain = open_chain(config, home)
    pool = await chain.pool()
    token = MockToken(chain.eth, pool.token)
    decimals, symbol = await token.decimals(), await token.symbol()
    chosen = await choose_launcher(config, home, wallet.address)
    clock = SystemClock()
    templates = templates_of(config, devices, pool.max_duration, decimals)
    policy = policy_of(config, decimals)
    parts = Parts(
        clock=clock,
        chain=chain,
        net=WebSocketNet(wallet.key, config.chain_id, config.controller, clock),
        store=NodeStore(wallet.key, Domain(config.chain_id, config.controller), clock, home.folder / "scratch"),
        journal=SqliteJournal(home.journal),
        launcher=chosen.launcher,
        ledger=SliceLedger(infos),
        offers=OfferBook(templates, config.controller, config.chain_id, wallet.key, chosen.launcher.isolation),
        identity=Identity(wallet, config.provider, secrets.token_hex(8), own_version()),
        pool=pool,
        devices=devices,
        folder=home.folder,
        allow_renters=chosen.allow_renters,
        task_image=config.task_image,
        policy=policy,
    )
    parts.offers.change(templates, policy)
    return Assembled(parts, gpu, chain, decimals, symbol, _warning(chosen, devices), config)


def templates_of(
    config: WorkerConfig, devices: Mapping[Bytes32, DeviceInfo], longest: int, decimals: int
) -> list[OfferTemplate]:
    """Each offer on each device. Raises `SetupError` for a price below the floor, and what `template_of` raises."""
    policy = policy_of(config, decimals)
    found = [
        template_of(offer, device, info, longest, decimals)
        for device, info in devices.items()
        for offer in config.offers
    ]
    check_floor(policy, ((item.price, item.slice.share_per_mille) for item in found))
    return found


def check_floor(policy: Policy, prices: Iterable[tuple[int, int]]) -> None:
    """`prices` are pairs of base units per second and share per mille. Raises `SetupError`."""
    for price, share in prices:
        problem = policy.price_problem(price, share)
        if problem:
            raise SetupError(problem, remedy="Raise the price of the offer in worker.toml, or lower price_floor.")


def policy_of(config: WorkerConfig, decimals: int) -> Policy:
    """Raises `UnitError` for a price floor that is no price."""
    return Policy(
        hours=config.hours,
        time_zone=config.time_zone,
        minute_of=utc_minute if config.time_zone == "UTC" else LocalMinute(config.time_zone),
        price_floor=parse_price(config.price_floor, decimals) if config.price_floor else 0,
        allow_images=config.allow_images,
        refuse_images=config.refuse_images,
        refuse_renters=config.refuse_renters,
    )


def template_of(offer: OfferConfig, device: Bytes32, info: DeviceInfo, longest: int, decimals: int) -> OfferTemplate:
    """`longest` is the pool's longest lease, seconds. Raises `SliceShapeError`, `UnitError`."""
    return OfferTemplate(
        device=device,
        slice=slice_of(info, offer.share, offer.memory_mib, disk_mib=offer.disk_mib),
        price=parse_price(offer.price, decimals),
        max_duration=min(offer.max_duration or longest, longest),
        notice=offer.notice,
        tick=offer.tick,
        cap_per_renter=offer.cap_per_renter,
    )


def _warning(chosen: Chosen, devices: Mapping[Bytes32, DeviceInfo]) -> str:
    cpu = [info.name for info in devices.values() if info.kind is DeviceKind.CPU]
    named = f"no GPU is offered: the device is {cpu[0]}" if cpu else ""
    return "; ".join(text for text in (chosen.warning, named) if text)
