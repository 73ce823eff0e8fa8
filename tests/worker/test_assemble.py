"""Putting a worker together: devices, templates and ids of the settings, and what stops it before it starts."""

from __future__ import annotations

import dataclasses
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from millpond.chain.address_book import AddressBook, DeploymentSettings
from millpond.chain.errors import AddressBookError, DevelopmentKeyError, KeystoreError, RpcUnreachableError
from millpond.protocol.ids import ZERO_BYTES32, bytes32, device_id, device_uuid_hash
from millpond.protocol.units import UnitError
from millpond_worker import assemble as assemble_module
from millpond_worker.assemble import (
    FALLBACK_VERSION,
    assemble,
    chosen_devices,
    device_ids,
    open_chain,
    open_gpu,
    own_version,
    template_of,
)
from millpond_worker.config import KeyConfig, OfferConfig, WorkerConfig, parse_config
from millpond_worker.devices.errors import DeviceDriverError, SliceShapeError
from millpond_worker.devices.fake import FakeDevice, FakeNvml
from millpond_worker.devices.nvml import NvmlGpu
from millpond_worker.devices.port import DeviceInfo, DeviceKind, SliceMode
from millpond_worker.errors import SetupError
from millpond_worker.home import Home
from millpond_worker.launch.fake import FakeLauncher
from millpond_worker.launchers import Chosen

OFFER = {"share": 600, "memory": "1GiB", "price": "0.36/h", "max_duration": "2h", "cap_per_renter": 3}
CONFIG = parse_config(
    {
        "rpc_url": "http://127.0.0.1:1",
        "chain_id": 31337,
        "controller": "0x" + "11" * 20,
        "addresses": "addresses.json",
        "provider": "0x" + "22" * 20,
        "dev_key": 11,
        "device": "cpu",
        "launcher": "process",
        "offers": [OFFER],
    }
)
DEVICE = bytes32(b"\1" * 32)
GPU = DeviceInfo("GPU-1", DeviceKind.NVIDIA, "H100", 81920, "570", host_cores=16, host_ram_mib=65536)


def changed(**changes: Any) -> WorkerConfig:
    return dataclasses.replace(CONFIG, **changes)


def offer(**changes: Any) -> OfferConfig:
    return dataclasses.replace(CONFIG.offers[0], **changes)


def two_cards() -> NvmlGpu:
    return NvmlGpu(FakeNvml([FakeDevice("GPU-a"), FakeDevice("GPU-b")]))


# DEVICES


def test_own_version_is_the_installed_one_or_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> str:
        raise metadata.PackageNotFoundError

    own_version.cache_clear()
    assert own_version() == metadata.version("millpond")
    own_version.cache_clear()
    monkeypatch.setattr(metadata, "version", nothing)
    assert own_version() == FALLBACK_VERSION
    own_version.cache_clear()


def test_open_gpu_passes_the_settings_of_the_cpu_device_on() -> None:
    [first] = open_gpu(changed(device_label="a", cores=1, memory_mib=128)).list_devices()
    [second] = open_gpu(changed(device_label="b", cores=1, memory_mib=128)).list_devices()
    assert (first.kind, first.cores, first.memory_mib) == (DeviceKind.CPU, 1, 128)
    assert first.uuid != second.uuid


def test_open_gpu_that_insists_on_nvidia_without_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DeviceDriverError):
        open_gpu(changed(device="nvidia"))


def test_chosen_devices_are_all_without_uuids_and_those_named_with() -> None:
    assert [info.uuid for info in chosen_devices(CONFIG, two_cards())] == ["GPU-a", "GPU-b"]
    assert [info.uuid for info in chosen_devices(changed(uuids=("GPU-b",)), two_cards())] == ["GPU-b"]


def test_chosen_device_that_is_not_here_is_named_beside_those_that_are() -> None:
    with pytest.raises(SetupError) as caught:
        chosen_devices(changed(uuids=("GPU-b", "GPU-z")), two_cards())
    assert caught.value.fields["missing"] == ["GPU-z"]
    assert "GPU-a, GPU-b" in caught.value.message
    assert caught.value.remedy


def test_machine_without_any_device_is_refused() -> None:
    with pytest.raises(SetupError, match="here are: none"):
        chosen_devices(CONFIG, NvmlGpu(FakeNvml([])))


def test_device_ids_are_the_providers_own() -> None:
    found = device_ids(CONFIG, [GPU])
    assert found == {device_id(CONFIG.provider, device_uuid_hash("GPU-1")): GPU}
    other = dataclasses.replace(CONFIG, provider=CONFIG.controller)
    assert set(device_ids(other, [GPU])).isdisjoint(found)


# TEMPLATES


def test_template_takes_what_the_settings_say() -> None:
    made = template_of(offer(), DEVICE, GPU, 86_400, 6)
    assert (made.device, made.price, made.max_duration, made.cap_per_renter) == (DEVICE, 100, 7200, 3)
    assert (made.slice.share_per_mille, made.slice.memory_mib, made.slice.mode) == (600, 1024, SliceMode.TIMESLICE)
    assert (made.notice, made.tick) == (CONFIG.offers[0].notice, CONFIG.offers[0].tick)


@pytest.mark.parametrize(("wanted", "longest", "given"), [(0, 500, 500), (7200, 500, 500), (100, 500, 100)])
def test_template_never_lasts_longer_than_the_pool_allows(wanted: int, longest: int, given: int) -> None:
    assert template_of(offer(max_duration=wanted), DEVICE, GPU, longest, 6).max_duration == given


def test_template_larger_than_the_device_or_of_no_price_is_refused() -> None:
    with pytest.raises(SliceShapeError):
        template_of(offer(memory_mib=81_921), DEVICE, GPU, 500, 6)
    with pytest.raises(UnitError):
        template_of(offer(price="free"), DEVICE, GPU, 500, 6)


# ALL OF IT


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"chain_id": 1}, DevelopmentKeyError),
        ({"key": KeyConfig(keystore="none.json", password_file="p")}, KeystoreError),
        ({"uuids": ("GPU-z",)}, SetupError),
        ({}, AddressBookError),
    ],
)
async def test_assemble_with_a_wrong_setting_is_refused_and_leaves_no_file(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    (tmp_path / "p").touch(0o600)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error) as caught:
        await assemble(changed(**changes), Home(tmp_path))
    assert caught.value.remedy  # type: ignore[attr-defined]
    assert sorted(tmp_path.iterdir()) == before


def write_book(folder: Path, chain_id: int = 31337, name: str = "Attestations") -> None:
    settings = DeploymentSettings(CONFIG.provider)
    AddressBook(chain_id, ZERO_BYTES32, 0, settings, {name: CONFIG.controller}).save(folder / "addresses.json")


async def test_open_chain_with_the_chains_own_book_opens_and_keeps_its_outbox_in_the_home(tmp_path: Path) -> None:
    write_book(tmp_path)
    chain = open_chain(CONFIG, Home(tmp_path))
    await chain.close()

    assert chain.chain_id == 31337
    assert Home(tmp_path).transactions.exists()


@pytest.mark.parametrize(
    ("book", "said"), [({"chain_id": 1}, "is of chain 1, not of 31337"), ({"name": "Escrow"}, "has no Attestations")]
)
def test_open_chain_with_the_book_of_another_chain_or_without_a_contract_is_refused(
    tmp_path: Path, book: dict[str, Any], said: str
) -> None:
    write_book(tmp_path, **book)

    with pytest.raises(AddressBookError, match=said) as caught:
        open_chain(CONFIG, Home(tmp_path))
    assert caught.value.remedy
    assert not Home(tmp_path).transactions.exists()


async def test_assemble_with_the_rpc_down_says_so_and_opens_no_journal(tmp_path: Path) -> None:
    write_book(tmp_path)

    with pytest.raises(RpcUnreachableError) as caught:
        await assemble(CONFIG, Home(tmp_path))
    assert (caught.value.exit_code, "nothing was lost" in caught.value.remedy) == (4, True)
    assert not Home(tmp_path).journal.exists()


async def test_launcher_warning_and_missing_gpu_are_both_told() -> None:
    cpu = open_gpu(CONFIG).list_devices()
    chosen = Chosen(FakeLauncher(), None, "no isolation")
    said = assemble_module._warning(chosen, {DEVICE: cpu[0]})
    assert said == f"no isolation; no GPU is offered: the device is {cpu[0].name}"
    assert assemble_module._warning(Chosen(FakeLauncher(), None), {DEVICE: GPU}) == ""
