"""The stranger's script against receipts on a real Anvil: it accepts what holds, and notices every changed byte."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import verify_receipt
from _demo import stranger
from millpond.protocol import wire
from millpond.protocol.views import ReceiptBundle

pytestmark = pytest.mark.anvil


def said(url: str, text: bytes, pool: str = "") -> tuple[bool, str]:
    lines: list[str] = []
    return verify_receipt.verify(url, text, pool, lines.append), "\n".join(lines)


def test_script_accepts_a_receipt_as_the_node_sends_it(pool: Any, bundle: ReceiptBundle) -> None:
    is_valid, text = said(pool.url, wire.write(bundle), pool.controller)
    assert is_valid, text
    assert text.count("  ok ") == 9
    assert "is closed" in text


def test_script_notices_every_changed_byte(pool: Any, bundle: ReceiptBundle, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    stranger.write_bundle(bundle, path)
    text = path.read_bytes()
    accepted = []
    for place, byte in enumerate(text):
        if byte in b" \n":
            continue
        changed = text[:place] + bytes([byte ^ 1]) + text[place + 1 :]
        if said(pool.url, changed)[0]:
            accepted.append((place, changed[place - 20 : place + 20]))
    assert not accepted
    assert said(pool.url, text)[0]


@pytest.mark.parametrize(
    ("path", "value", "check"),
    [
        (("chain_id",), 1, "chain"),
        (("escrow",), "0x2222222222222222222222222222222222222222", "pool"),
        (("signed", "receipt", "status"), 1, "signature"),
        (("signed", "worker"), "0x2222222222222222222222222222222222222222", "signature"),
        (("signed", "input_cid"), "", "content"),
        (("signed", "log_cid"), "bafy", "content"),
        (("index",), 1, "proof"),
        (("proof",), [], "proof"),
        (("poster",), "0x2222222222222222222222222222222222222222", "batch"),
        (("signed", "receipt", "attempt"), "1", "form"),
        (("extra",), 1, "form"),
    ],
)
def test_script_names_the_check_that_fails(
    pool: Any, bundle: ReceiptBundle, path: tuple[str, ...], value: Any, check: str
) -> None:
    data = json.loads(wire.write(bundle))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    is_valid, text = said(pool.url, json.dumps(data).encode())
    assert not is_valid
    assert text.splitlines()[-1].startswith(f"  FAILED  {check} ")


def test_script_refuses_a_receipt_of_another_pool_than_the_trusted(pool: Any, bundle: ReceiptBundle) -> None:
    is_valid, text = said(pool.url, wire.write(bundle), "0x" + "11" * 20)
    assert not is_valid
    assert "FAILED  pool" in text


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000, b'{"a": 1, "a": 1}', b" " * (2 << 20)]
)
def test_script_answers_whatever_the_bytes_are(text: bytes) -> None:
    is_valid, lines = said("http://127.0.0.1:9", text)
    assert not is_valid
    assert "FAILED" in lines


def test_script_without_an_rpc_fails_at_the_chain(bundle: ReceiptBundle) -> None:
    is_valid, text = said("http://127.0.0.1:9", wire.write(bundle))
    assert not is_valid
    assert "FAILED  chain" in text


def test_process_exits_with_0_and_1(pool: Any, bundle: ReceiptBundle, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    stranger.write_bundle(bundle, path)
    is_accepted, text = stranger.verify(pool.url, pool.controller, path)
    assert is_accepted, text
    assert text.endswith("valid\n")
    assert stranger.is_change_noticed(pool.url, pool.controller, path)


def test_script_imports_nothing_of_millpond() -> None:
    tree = ast.parse(stranger.SCRIPT.read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert imported - set(sys.stdlib_module_names) == {"eth_abi", "eth_keys", "eth_utils"}
