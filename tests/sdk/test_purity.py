"""What import-linter cannot see: impurity that needs no import."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE = (
    "sdk/millpond/protocol/**/*.py",
    "worker/millpond_worker/machine.py",
    "worker/millpond_worker/machine/**/*.py",
    "node/millpond_node/machine.py",
    "node/millpond_node/machine/**/*.py",
    "node/millpond_node/policy.py",
    "node/millpond_node/policy/**/*.py",
)
# `hash` of a string and `id` differ from process to process.
BANNED_CALLS = {"breakpoint", "exec", "eval", "hash", "id", "input", "open", "print", "__import__"}
BANNED_ATTRIBUTES = {"np.random", "numpy.random"}


def impurities(source: str) -> list[str]:
    """Banned calls and attributes in `source`, with their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            found.append(f"line {node.lineno}: {node.func.id}()")
        if isinstance(node, ast.Attribute) and ast.unparse(node) in BANNED_ATTRIBUTES:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def pure_files() -> list[Path]:
    return sorted({file for pattern in PURE for file in ROOT.glob(pattern)})


@pytest.mark.parametrize("file", pure_files(), ids=lambda file: file.relative_to(ROOT).as_posix())
def test_pure_module_has_no_impure_call(file: Path) -> None:
    assert impurities(file.read_text()) == []


@pytest.mark.parametrize("line", ["open('x')", "hash('x')", "np.random.rand()", "print(1)", "numpy.random"])
def test_impurities_banned_use_is_found(line: str) -> None:
    assert len(impurities(line)) == 1


@pytest.mark.parametrize("line", ["self.open('x')", "np.sum(x)", "store.print()"])
def test_impurities_method_of_the_same_name_is_allowed(line: str) -> None:
    assert impurities(line) == []
