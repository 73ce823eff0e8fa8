"""Digests of the deployed contracts against eth-account, and against the vectors that Python and forge read."""

import json
from pathlib import Path
from typing import Any

import pytest
from system import SCHEMA, System, digest_of, struct_hash

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/eip712.json").read_text())["cases"]


def values(name: str, case: dict[str, Any]) -> dict[str, Any]:
    kinds = {field: kind for kind, field, _ in SCHEMA[name]["fields"]}
    return {field: int(value) if kinds[field].startswith("uint") else value for field, value in case["values"].items()}


@pytest.mark.parametrize("name", sorted(SCHEMA))
def test_C28_vectors_everyCase_equalEthAccount(name: str) -> None:
    assert all(struct_hash(name, values(name, case)) == case["structHash"] for case in VECTORS[name])


@pytest.mark.parametrize("case", range(3))
def test_C28_digests_deployedContracts_equalEthAccount(system: System, case: int) -> None:
    offer, request, voucher = (values(name, VECTORS[name][case]) for name in ("Offer", "Request", "Voucher"))
    assert system.pool.offerDigest(tuple(offer.values())) == digest_of("Offer", offer, system.pool.address)
    expected = digest_of("Request", request, system.escrow.address)
    assert system.escrow.requestDigest(tuple(request.values())) == expected
    expected = digest_of("Voucher", voucher, system.escrow.address)
    assert system.escrow.voucherDigest(*voucher.values()) == expected


def test_C27_offerDigest_otherPool_differs(system: System) -> None:
    offer = tuple(system.offer().values())
    assert system.pool.offerDigest(offer) != system.create_pool("other").offerDigest(offer)
