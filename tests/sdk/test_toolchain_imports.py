import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from scripts.toolchain.import_rules import AllowedImports  # noqa: E402


def found(graph: grimp.ImportGraph, source: str, allowed: list[str]) -> list[tuple[str, str]]:
    contract = AllowedImports("test", {"root_packages": ["ours", "theirs"]}, {"source": source, "allowed": allowed})
    result: list[tuple[str, str]] = contract.check(graph, verbose=False).metadata["found"]
    return result


@pytest.fixture
def graph() -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for module in ("ours", "ours.chain", "ours.chain.rpc", "ours.chains", "ours.protocol", "theirs"):
        graph.add_module(module)
    return graph


def test_allowed_imports_listed_package_and_own_modules_are_kept(graph: grimp.ImportGraph) -> None:
    graph.add_import(importer="ours.chain.rpc", imported="ours.protocol")
    graph.add_import(importer="ours.chain.rpc", imported="ours.chain")
    assert found(graph, "ours.chain", ["ours.protocol"]) == []


@pytest.mark.parametrize("imported", ["theirs", "ours", "ours.chains"])
def test_allowed_imports_anything_else_of_the_project_is_found(graph: grimp.ImportGraph, imported: str) -> None:
    graph.add_import(importer="ours.chain.rpc", imported=imported)
    assert found(graph, "ours.chain", ["ours.protocol"]) == [("ours.chain.rpc", imported)]


def test_allowed_imports_external_package_is_not_its_business(graph: grimp.ImportGraph) -> None:
    graph.add_module("web3", is_squashed=True)
    graph.add_import(importer="ours.chain", imported="web3")
    assert found(graph, "ours.chain", []) == []
