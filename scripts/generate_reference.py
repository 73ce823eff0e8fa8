"""Writes docs/reference: cli.md, error_codes.md and contracts/*.md, from the commands, the exceptions and the interfaces.

python scripts/generate_reference.py            write them
python scripts/generate_reference.py --check    exit 1 when any is stale, and name it
"""

from __future__ import annotations

import sys
from pathlib import Path

from reference import cli, contracts, errors

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/reference"


def pages() -> dict[str, str]:
    """Every generated page, by its path below docs/reference."""
    return {"cli.md": cli.page(), "error_codes.md": errors.page(), **contracts.pages(ROOT / "contracts")}


def stale(fresh: dict[str, str], target: Path) -> list[Path]:
    """Pages that differ from `fresh`, and pages of contracts that are no more."""
    changed = [target / name for name, text in fresh.items() if _text(target / name) != text]
    return changed + [
        path for path in sorted((target / "contracts").glob("*.md")) if f"contracts/{path.name}" not in fresh
    ]


def write(fresh: dict[str, str], target: Path) -> None:
    for path in stale(fresh, target):
        name = path.relative_to(target).as_posix()
        if name in fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fresh[name])
        else:
            path.unlink()


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def main() -> int:
    fresh = pages()
    if "--check" not in sys.argv[1:]:
        write(fresh, TARGET)
        return 0
    found = stale(fresh, TARGET)
    for path in found:
        print(f"stale: {path.relative_to(ROOT)}; run python scripts/generate_reference.py", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
