"""Writes docs/reference/attacks.md: which tests carry the id of which attack or failure case in their names.

python scripts/list_attacks.py            write it
python scripts/list_attacks.py --check    exit 1 when it is stale
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/reference/attacks.md"
AREAS = {
    "C": (46, "contracts"),
    "E": (12, "economics"),
    "O": (22, "off chain"),
    "A": (10, "API"),
    "S": (18, "sandbox"),
    "D": (18, "found in design review"),
}
NAME = re.compile(r"(?:def|function) (test_?(?:Fuzz)?_?((?:[CEOASD]\d\d_)+)\w+)")
SUFFIXES = (".py", ".sol")


def tests_by_case() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        for name, cases in NAME.findall(path.read_text()):
            for case in cases.strip("_").split("_"):
                found[case].append(f"`{path.relative_to(ROOT)}` {name}")
    return found


def page() -> str:
    found = tests_by_case()
    total = sum(count for count, _ in AREAS.values())
    lines = [
        "# Attack and failure cases",
        "",
        "Written by `scripts/list_attacks.py` from the names of the tests; a case without a row has no test yet.",
        "",
        f"{len(found)} of {total} cases have a test.",
    ]
    for letter, (count, title) in AREAS.items():
        cases = [case for case in (f"{letter}{number:02d}" for number in range(1, count + 1)) if case in found]
        lines += ["", f"## {letter}: {title} ({len(cases)} of {count})", ""]
        lines += [f"- **{case}**: " + "; ".join(found[case]) for case in cases]
    return "\n".join(lines) + "\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"stale: {TARGET.relative_to(ROOT)}; run python scripts/list_attacks.py", file=sys.stderr)
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
