"""Imports stay light, exports stay sorted, generated files stay fresh, artefacts are whole."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import millpond.chain
from millpond.chain import artefacts
from millpond.chain.errors import ArtefactMissingError, CodeMismatchError

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = ("Attestations", "Controller", "Devices", "Escrow", "MockToken", "PoolFactory", "Staking", "Tokens")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    return set(result.stdout.split())


def test_import_of_the_package_loads_no_client() -> None:
    assert not loaded_by("import millpond.chain") & {"httpx", "web3", "eth_account", "eth_abi", "numpy"}


def test_import_of_every_module_but_the_adapter_loads_no_web3() -> None:
    modules = [path.stem for path in (ROOT / "sdk/millpond/chain").glob("*.py") if path.stem != "__init__"]
    statement = "; ".join(f"import millpond.chain.{name}" for name in sorted(modules))
    assert not loaded_by(statement) & {"web3", "eth_account"}


def test_exports_are_sorted_and_all_load() -> None:
    assert millpond.chain.__all__ == sorted(millpond.chain.__all__)
    assert set(millpond.chain.__all__) == set(millpond.chain._MODULE_OF)
    for name in millpond.chain.__all__:
        assert getattr(millpond.chain, name) is not None


def test_unknown_export_raises_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = millpond.chain.Nothing


def test_bindings_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("generate_bindings", ROOT / "scripts/generate_bindings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stale = [name for name, text in module.sources().items() if (module.FOLDER / name).read_text() != text]
    assert stale == [], "run python scripts/generate_bindings.py"


def test_enumerations_equal_the_interfaces() -> None:
    import re

    from millpond.chain.enums import CloseReason, LeaseStatus

    text = (ROOT / "contracts/interfaces/IController.sol").read_text()
    for kind in (LeaseStatus, CloseReason):
        found = re.search(rf"enum {kind.__name__} \{{(.*?)\}}", text, re.DOTALL)
        assert found is not None
        names = [re.sub(r"//.*", "", part).strip() for part in found.group(1).split(",")]
        assert [item.name for item in kind] == [name.upper() for name in names]


@pytest.mark.parametrize("name", CONTRACTS)
def test_artefact_has_code_and_interface(name: str) -> None:
    artefact = artefacts.load(name)
    assert len(artefact.bytecode) > len(artefact.deployed_bytecode) > 1000
    assert artefact.abi.functions
    assert artefact.abi.name == name


def test_load_unknown_contract_raises_with_the_known() -> None:
    with pytest.raises(ArtefactMissingError) as caught:
        artefacts.load("../../etc/passwd")
    assert "Escrow" in caught.value.fields["known"]


def test_matches_ignores_immutables_and_nothing_else() -> None:
    artefact = artefacts.load("Escrow")
    code = bytearray(artefact.deployed_bytecode)
    start, length = artefact.immutables[0]
    code[start : start + length] = b"\x11" * length
    assert artefact.matches(bytes(code))
    place = next(i for i in range(len(code)) if not any(s <= i < s + n for s, n in artefact.immutables))
    code[place] ^= 1
    assert not artefact.matches(bytes(code))


@pytest.mark.parametrize("code", [b"", b"\x60", bytes(30_000)])
def test_check_other_code_raises(code: bytes) -> None:
    with pytest.raises(CodeMismatchError):
        artefacts.load("Escrow").check(code, "0x0")


def test_deployment_addresses_follow_from_release_and_settings_alone() -> None:
    from millpond.chain.address_book import CORE, DeploymentSettings
    from millpond.protocol.ids import Address

    one, other = (DeploymentSettings(Address("0x" + digit * 40)) for digit in "12")
    assert [one.address_of(name) for name in CORE] == [DeploymentSettings(one.owner).address_of(name) for name in CORE]
    assert one.address_of("Escrow") != other.address_of("Escrow")
    assert one.address_of("Devices") == other.address_of("Devices")
