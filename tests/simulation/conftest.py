"""Makes the simulator's parts importable: `sim_...`."""

import logging
import sys
from pathlib import Path

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
