"""Makes the simulator's parts importable, `sim_...`, and adds up what its campaigns counted."""

import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401 - loaded here, since loading it late, deep in a report, trips Python 3.11.7
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _quiet() -> object:
    """Hundreds of crashes write what crashes write."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Points, seeds, faults, violations and defects of all parts of this run, however many processes ran them."""
    total: Counter[str] = Counter()
    for report in [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]:
        total.update({name: count for name, count in report.user_properties if name.startswith("crash ")})
    if total:
        counted = ", ".join(f"{count} {name.removeprefix('crash ')}" for name, count in total.items())
        terminalreporter.write_line(f"crash safety: {counted}")
