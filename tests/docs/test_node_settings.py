"""docs/reference/node.md lists every key of node.toml with its default."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from millpond_node.config import Limits, NodeConfig

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/node.md"
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*?) ?\|", re.MULTILINE)


def shown(default: Any) -> str:
    if default is MISSING:
        return "needed"
    return f"`{default}`" if default not in ("", None) else ""


@pytest.mark.parametrize("kind", [NodeConfig, Limits])
def test_page_of_settings_lists_every_key_with_its_default(kind: type[Any]) -> None:
    above, below = PAGE.read_text().split("## [limits]")
    listed = dict(ROW.findall(above if kind is NodeConfig else below))

    assert listed == {item.name: shown(item.default) for item in fields(kind) if item.name not in ("home", "limits")}
