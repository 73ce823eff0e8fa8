"""Gas of the core operations on a real Anvil: none above its ceiling, none over 2 % above `tests/contracts/gas.json`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.anvil

ROOT = Path(__file__).resolve().parents[2]


def test_gas_of_every_operation_stays_below_ceiling_and_file() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/contracts/gas.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
