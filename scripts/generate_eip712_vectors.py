"""Writes tests/vectors/eip712.json: random values of every signed type, with the hashes that all implementations must give.

    python scripts/generate_eip712_vectors.py            write
    python scripts/generate_eip712_vectors.py --check    exit 1 when the file is stale

Each hash is computed twice, by `millpond.protocol` and by eth-account from the schema alone; they must agree before anything is written.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from eth_abi.abi import encode
from eth_account.messages import encode_typed_data
from eth_utils.address import to_checksum_address

from millpond.protocol import signed
from millpond.protocol.ids import Address
from millpond.protocol.signing import Domain, digest, domain_separator

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "sdk/millpond/protocol/eip712.json"
VECTORS = ROOT / "tests/vectors/eip712.json"
DOMAIN = Domain(chain_id=31337, contract=Address("0x5FbDB2315678afecb367f032d93F642f64180aa3"))
CASES = 16
SEED = 712
TEXT = "GET /v1/offers?price=é€"


def random_value(kind: str, draw: random.Random) -> Any:
    if kind == "string":
        return "".join(draw.choice(TEXT) for _ in range(draw.randrange(40)))
    if kind == "address":
        return to_checksum_address(draw.randbytes(20))
    if kind == "bytes32":
        return "0x" + draw.randbytes(32).hex()
    return draw.getrandbits(int(kind.removeprefix("uint")))


def edge_value(kind: str, is_high: bool) -> Any:
    byte = b"\xff" if is_high else b"\0"
    if kind == "string":
        return TEXT if is_high else ""
    if kind == "address":
        return to_checksum_address(byte * 20)
    if kind == "bytes32":
        return "0x" + (byte * 32).hex()
    return 2 ** int(kind.removeprefix("uint")) - 1 if is_high else 0


def third_party(name: str, fields: list[list[str]], values: dict[str, Any]) -> tuple[bytes, bytes]:
    """Domain separator and struct hash by eth-account."""
    message = encode_typed_data(
        domain_data={
            "name": "Millpond",
            "version": "1",
            "chainId": DOMAIN.chain_id,
            "verifyingContract": DOMAIN.contract,
        },
        message_types={name: [{"type": kind, "name": field} for kind, field, _ in fields]},
        message_data=values,
    )
    return message.header, message.body


def vector(name: str, fields: list[list[str]], values: dict[str, Any]) -> dict[str, Any]:
    ours = getattr(signed, name)(**values)
    separator, body = third_party(name, fields, values)
    if separator != domain_separator(DOMAIN) or "0x" + body.hex() != ours.struct_hash():
        raise SystemExit(f"millpond.protocol and eth-account disagree on {name}: {values}")
    kinds = [kind for kind, _, _ in fields]
    words = [bytes.fromhex(v[2:]) if k == "bytes32" else v for k, v in zip(kinds, values.values(), strict=True)]
    return {
        "values": {field: str(value) if isinstance(value, int) else value for field, value in values.items()},
        "encoded": "0x" + encode(kinds, words).hex(),
        "structHash": ours.struct_hash(),
        "digest": "0x" + digest(ours, DOMAIN).hex(),
    }


def vectors(name: str, fields: list[list[str]], draw: random.Random) -> list[dict[str, Any]]:
    drawn = [{field: random_value(kind, draw) for kind, field, _ in fields} for _ in range(CASES)]
    edges = [{field: edge_value(kind, is_high) for kind, field, _ in fields} for is_high in (False, True)]
    return [vector(name, fields, values) for values in edges + drawn]


def document() -> str:
    draw = random.Random(SEED)
    types = json.loads(SCHEMA.read_text())["types"]
    content = {
        "chainId": DOMAIN.chain_id,
        "contract": DOMAIN.contract,
        "domainSeparator": "0x" + domain_separator(DOMAIN).hex(),
        "count": CASES + 2,
        "typeHashes": {name: "0x" + getattr(signed, name).TYPE_HASH.hex() for name in types},
        "cases": {name: vectors(name, spec["fields"], draw) for name, spec in types.items()},
    }
    return json.dumps(content, indent=1, ensure_ascii=True) + "\n"


def main() -> int:
    text = document()
    if "--check" in sys.argv:
        is_fresh = VECTORS.exists() and VECTORS.read_text() == text
        if not is_fresh:
            print("stale: tests/vectors/eip712.json; run python scripts/generate_eip712_vectors.py", file=sys.stderr)
        return 0 if is_fresh else 1
    VECTORS.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
