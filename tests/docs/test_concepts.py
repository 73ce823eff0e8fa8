"""The tables of docs/concepts: every row that names a test names one that exists, and every other says that there is none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NAMED = re.compile(r"`((?:test|invariant)\w*_\w+)`")
DEFINED = re.compile(r"(?:def|function) ((?:test|invariant)\w*_\w+)")
LINK = re.compile(r"\]\(([^)#\s]+\.md)?(#[\w-]+)?\)")
TABLES = ("trust.md", "failures.md")


@cache
def known_tests() -> frozenset[str]:
    files = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".sol")]
    return frozenset(name for path in files for name in DEFINED.findall(path.read_text()))


def anchors(text: str) -> set[str]:
    """As GitHub makes them from headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted((DOCS / "concepts").glob("*.md")), ids=lambda path: path.name)
def test_concept_names_only_tests_that_exist(page: Path) -> None:
    assert set(NAMED.findall(page.read_text())) - known_tests() == set()


@pytest.mark.parametrize("name", TABLES)
def test_row_of_a_table_names_a_test_or_says_there_is_none(name: str) -> None:
    rows = [line for line in (DOCS / "concepts" / name).read_text().splitlines() if line.startswith("| ")]
    heads = [row for row in rows if row.endswith("| Tests |")]
    bare = [
        row for row in rows if row not in heads and not (NAMED.search(row) or re.search(r"not (tested|built)", row))
    ]

    assert len(rows) > 25
    assert bare == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in DOCS.rglob("*.md"):
        for target, anchor in LINK.findall(page.read_text()):
            found = (page.parent / target).resolve() if target else page
            if not found.exists() or (anchor and anchor[1:] not in anchors(found.read_text())):
                broken.append(f"{page.relative_to(ROOT)}: {target}{anchor}")
    assert broken == []
