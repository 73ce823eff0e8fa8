"""The generator of docs/reference: what it reads, and that it notices what has gone stale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SOURCE = """// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

import {X} from "./X.sol";

/// @title A thing.
/// @notice It holds
/// nothing.
interface IThing is IOther, IMore {
    struct Pair {
        uint256 a;
        uint256 b;
    }

    event Moved(
        address indexed by, uint256 amount
    );

    error ThingEmpty(uint256 actual, uint256 bound);

    /* BANNER */

    /// @notice Moves `amount`,
    /// all of it.
    /// @dev Rounds down.
    function move(uint256 amount)
        external
        returns (uint256 moved);
    function total() external view returns (uint256);
}
"""


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import generate_reference  # type: ignore[import-not-found]

    yield generate_reference
    for name in ("generate_reference", "reference.cli", "reference.contracts", "reference.errors", "reference"):
        sys.modules.pop(name, None)


def test_interface_with_long_declarations_keeps_text_and_documentation(reference: Any) -> None:
    found = reference.contracts.parse(SOURCE)
    move = next(item for item in found.declarations if item.name == "move")

    assert (found.name, found.parents) == ("IThing", ("IOther", "IMore"))
    assert found.doc == "A thing.\n\nIt holds nothing."
    assert [item.kind for item in found.declarations] == ["struct", "event", "error", "function", "function"]
    assert move.text == "function move(uint256 amount)\n    external\n    returns (uint256 moved);"
    assert move.doc == "Moves `amount`, all of it.\n\nRounds down."
    assert found.declarations[-1].doc == ""


def test_pages_cover_every_command_error_and_contract(reference: Any) -> None:
    pages = reference.pages()

    assert "\n### millpond-worker doctor\n" in pages["cli.md"]
    assert "\n#### millpond lease close\n" in pages["cli.md"]
    assert "| `JournalFailedError` | 5 |" in pages["error_codes.md"]
    assert "Selector `0x47e7ef24`." in pages["contracts/Escrow.md"]
    assert {f"contracts/{name}.md" for name in ("Controller", "Devices", "Staking")} <= pages.keys()


def test_pages_name_no_path_of_this_machine(reference: Any) -> None:
    assert not [name for name, text in reference.pages().items() if str(Path.home()) + "/" in text]


def test_stale_names_changed_missing_and_left_over_pages_until_written(reference: Any, tmp_path: Path) -> None:
    fresh = {"cli.md": "new", "contracts/A.md": "a", "contracts/B.md": "b"}
    (tmp_path / "contracts").mkdir()
    for name, text in {"cli.md": "old", "contracts/A.md": "a", "contracts/Gone.md": "g"}.items():
        (tmp_path / name).write_text(text)

    stale = [path.relative_to(tmp_path).as_posix() for path in reference.stale(fresh, tmp_path)]
    reference.write(fresh, tmp_path)

    assert stale == ["cli.md", "contracts/B.md", "contracts/Gone.md"]
    assert reference.stale(fresh, tmp_path) == []
    assert not (tmp_path / "contracts/Gone.md").exists()
