import copy
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("export_artefacts", ROOT / "scripts/export_artefacts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


export = load()

METADATA = {
    "compiler": {"version": "0.8.30+commit.73712a01"},
    "settings": {"evmVersion": "prague", "optimizer": {"enabled": True, "runs": 1000}},
    "sources": {"contracts/Box.sol": {"keccak256": "0x01"}, "contracts/A.sol": {"keccak256": "0x02"}},
}
CONTRACT: dict[str, Any] = {
    "abi": [{"type": "function", "name": "set"}],
    "metadata": json.dumps(METADATA),
    "evm": {
        "bytecode": {"object": "6001", "linkReferences": {}},
        "deployedBytecode": {
            "object": "6002",
            "immutableReferences": {"99": [{"start": 40, "length": 32}, {"start": 4, "length": 32}]},
        },
    },
}


def changed(**sources: str) -> dict[str, Any]:
    contract = copy.deepcopy(CONTRACT)
    metadata = json.loads(contract["metadata"])
    metadata["sources"].update({name: {"keccak256": value} for name, value in sources.items()})
    contract["metadata"] = json.dumps(metadata)
    return contract


def test_renumbered_orders_immutables_by_place_whatever_the_compiler_calls_them() -> None:
    first, second = [{"start": 80, "length": 32}], [{"start": 9, "length": 32}, {"start": 3, "length": 32}]
    assert export.renumbered({"7": first, "12": second}) == export.renumbered({"301": first, "44": second})
    assert export.renumbered({"7": first, "12": second}) == {
        "0": [{"length": 32, "start": 3}, {"length": 32, "start": 9}],
        "1": [{"length": 32, "start": 80}],
    }


def test_slim_keeps_what_deploying_and_checking_need() -> None:
    artefact = export.slim("Box", "contracts/Box.sol", CONTRACT)
    assert artefact["bytecode"] == "0x6001"
    assert artefact["deployedBytecode"] == "0x6002"
    assert artefact["abi"] == CONTRACT["abi"]
    assert artefact["compiler"]["version"] == "0.8.30+commit.73712a01"
    assert artefact["immutableReferences"] == {"0": [{"length": 32, "start": 4}, {"length": 32, "start": 40}]}


def test_slim_source_hash_follows_every_imported_file() -> None:
    before = export.slim("Box", "contracts/Box.sol", CONTRACT)["sourceHash"]
    assert export.slim("Box", "contracts/Box.sol", changed(**{"contracts/A.sol": "0x03"}))["sourceHash"] != before
    assert export.slim("Box", "contracts/Box.sol", changed(**{"contracts/A.sol": "0x02"}))["sourceHash"] == before


def test_is_shipped_mock_other_than_the_token_is_not() -> None:
    assert export.is_shipped("MockToken", "contracts/mocks/MockToken.sol", CONTRACT)
    assert not export.is_shipped("FeeToken", "contracts/mocks/FeeToken.sol", CONTRACT)


def test_is_shipped_inlined_library_is_not() -> None:
    library = copy.deepcopy(CONTRACT)
    library["evm"]["deployedBytecode"]["object"] = "73" + "00" * 20 + "3014"
    assert export.is_shipped("Lib", "contracts/libraries/Lib.sol", library)
    library["abi"] = [{"type": "error", "name": "LibFailed"}]
    assert not export.is_shipped("Lib", "contracts/libraries/Lib.sol", library)


@pytest.mark.parametrize(("field", "size"), [("deployedBytecode", 24_577), ("bytecode", 49_153)])
def test_check_size_above_the_evm_limit_raises(field: str, size: int) -> None:
    artefact = {"contractName": "Box", "bytecode": "0x", "deployedBytecode": "0x"}
    artefact[field] = "0x" + "00" * (size - 1)
    export.check_size(artefact)
    artefact[field] = "0x" + "00" * size
    with pytest.raises(export.ExportError, match="Box"):
        export.check_size(artefact)


def test_stale_names_missing_superfluous_and_different_artefacts(tmp_path: Path) -> None:
    wanted = {"Same.json": "1", "Missing.json": "1", "Different.json": "1"}
    folder = tmp_path / export.ARTEFACTS
    folder.mkdir(parents=True)
    for name, text in {"Same.json": "1", "Different.json": "2", "Superfluous.json": "1"}.items():
        (folder / name).write_text(text)
    assert export.stale(tmp_path, wanted) == ["Different.json", "Missing.json", "Superfluous.json"]


def test_write_replaces_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / export.ARTEFACTS
    folder.mkdir(parents=True)
    (folder / "Old.json").write_text("{}")
    wanted = {"Box.json": json.dumps(export.slim("Box", "contracts/Box.sol", CONTRACT))}
    export.write(tmp_path, wanted)
    assert export.stale(tmp_path, wanted) == []


def test_compiler_input_has_the_settings_that_brownie_has() -> None:
    settings = export.compiler_input(ROOT)["settings"]
    brownie = (ROOT / "brownie-config.yaml").read_text()
    assert f"evm_version: {settings['evmVersion']}\n" in brownie
    assert f"runs: {settings['optimizer']['runs']}\n" in brownie
    assert [f'- "{remapping}"' in brownie for remapping in settings["remappings"]] == [True]
