"""docs/reference/errors.md: the tests it names exist, its errors end with the exit codes it says, no case of bad input is missing."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from millpond import _commands
from millpond.chain import reverts
from millpond.protocol import errors
from millpond.protocol.errors import MillpondError

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/reference/errors.md").read_text()
CASES = (
    "Wrong chain id", "RPC down", "Unfunded account", "Token not allowed", "Expired offer",
    "Signature of another chain or contract", "Replayed request", "Oversized JSON", "Deeply nested JSON", "Unknown CID",
    "Tampered block", "Image missing", "Container out of memory", "Task over time", "Port taken", "Lambda as a task",
    "Docker not running",
)  # fmt: skip
MODULES = (
    "millpond.errors", "millpond._renterchain", "millpond.chain.errors", "millpond.protocol.signing", "millpond.protocol.wire",
    "millpond.storage.errors", "millpond_node.errors", "millpond_worker.errors",
)  # fmt: skip


def rows(title: str) -> list[list[str]]:
    """Cells of the table below the heading."""
    part = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


BAD_INPUT = rows("Bad input")


def kinds_named(name: str) -> list[type[MillpondError]]:
    found = [getattr(import_module(module), name, None) for module in MODULES]
    return [kind for kind in found if kind is not None]


def test_every_case_has_a_row() -> None:
    assert [case for case in CASES if not any(row[0].startswith(case) for row in BAD_INPUT)] == []


@pytest.mark.parametrize("row", BAD_INPUT, ids=lambda row: f"{row[0]} at {row[1]}")
def test_test_of_a_row_exists(row: list[str]) -> None:
    path, _, name = row[5].partition("::")

    assert re.search(rf"(def|function) {re.escape(name)}\(", (ROOT / path).read_text()), row[5]


@pytest.mark.parametrize("row", [row for row in BAD_INPUT if row[2]], ids=lambda row: f"{row[0]} at {row[1]}")
def test_error_of_a_row_ends_with_its_exit_code(row: list[str]) -> None:
    kinds = kinds_named(row[2]) or [getattr(reverts, row[2])]

    assert int(row[3]) in {kind.exit_code for kind in kinds}


def test_exit_codes_are_those_of_the_kinds() -> None:
    listed = {row[1]: int(row[0]) for row in rows("Exit codes") if row[1]}
    kinds = [errors.MillpondError, *errors.MillpondError.__subclasses__()]

    assert listed == {kind.__name__: kind.exit_code for kind in kinds if kind.__module__ == errors.__name__}


def test_exit_codes_without_an_error_are_listed() -> None:
    bare = {int(row[0]) for row in rows("Exit codes") if not row[1]}

    assert bare == {0, _commands.EXIT_INTERRUPTED, _commands.EXIT_BROKEN_PIPE}
