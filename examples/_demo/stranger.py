"""Plays the stranger: runs `verify_receipt.py` as a process of its own, on the receipt and on changed copies of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from millpond.protocol import wire
from millpond.protocol.views import ReceiptBundle

SCRIPT = Path(__file__).resolve().parent.parent / "verify_receipt.py"
TIMEOUT_S = 60


def write_bundle(bundle: ReceiptBundle, path: Path) -> None:
    """One field per line, so that people can read what is proven."""
    path.write_text(json.dumps(json.loads(wire.write(bundle)), indent=2) + "\n")


def verify(rpc_url: str, pool: str, path: Path) -> tuple[bool, str]:
    """Whether the script accepts the file, and what it printed. -I: it cannot import what lies beside it."""
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), "--rpc", rpc_url, "--pool", pool, str(path)],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode == 0, done.stdout + done.stderr


def change_byte(text: bytes, after: bytes) -> bytes:
    """Raises the last hex digit of the value that follows the name `after` by one bit."""
    place = text.index(b'"', text.index(b'"' + after + b'": "0x') + len(after) + 5) - 1
    digit = b"0123456789abcdef"[int(text[place : place + 1], 16) ^ 1]
    return text[:place] + bytes([digit]) + text[place + 1 :]


def is_change_noticed(rpc_url: str, pool: str, path: Path) -> bool:
    """Whether a copy with one byte of the result's hash changed is refused."""
    changed = path.with_suffix(".changed.json")
    changed.write_bytes(change_byte(path.read_bytes(), b"resultHash"))
    is_accepted, text = verify(rpc_url, pool, changed)
    return not is_accepted and "FAILED" in text
