"""What a caller can send wrong over REST: a typed 4xx that says what, why and what to do, and nothing of it is kept."""

from __future__ import annotations

import time
from dataclasses import replace

import httpx
import pytest

from millpond.protocol import wire
from millpond.protocol.signing import Domain, sign
from millpond.storage.cid import cid_of


def assert_told(answer: httpx.Response, status: int, error: str) -> dict[str, object]:
    body = answer.json()
    assert (answer.status_code, body["error"]) == (status, error), answer.text
    assert body["message"]
    assert body["remedy"]
    return body


def domains(kit) -> dict[str, Domain]:
    return {
        "another chain": Domain(1, kit.ESCROW_DOMAIN.contract),
        "another contract": Domain(kit.CHAIN_ID, kit.contract_named("other escrow")),
    }


@pytest.mark.parametrize("which", ["another chain", "another contract"])
async def test_A05_request_signed_for_another_chain_or_contract_is_refused_and_not_queued(kit, node, which) -> None:
    api, signed = node.api(), kit.make_request(kit.key_of("renter"))
    foreign = replace(signed, signature=sign(signed.request, domains(kit)[which], api.key))

    assert_told(await api.post("/v1/requests", foreign), 401, "SignatureError")
    assert not node.agent.core.books.requests.records
    assert (await api.post("/v1/requests", signed)).status_code == 202


async def test_request_past_its_deadline_is_refused_and_not_queued(kit, node) -> None:
    api = node.api()

    answer = await api.post("/v1/requests", kit.make_request(api.key, deadline=int(time.time()) - 1))

    assert "deadline" in str(assert_told(answer, 422, "RequestRefusedError")["message"])
    assert not node.agent.core.books.requests.records


async def test_request_that_pays_in_a_token_the_pool_does_not_take_is_refused(kit, node) -> None:
    api, token = node.api(), kit.contract_named("other token")

    answer = await api.post("/v1/requests", kit.make_request(api.key, token=token))

    assert token in str(assert_told(answer, 422, "RequestRefusedError")["message"])
    assert not node.agent.core.books.requests.records


async def test_expired_offer_is_not_listed_and_opens_nothing(kit, node) -> None:
    worker = node.worker()
    worker.offers = (kit.make_offer(worker.device, worker.key, deadline=int(time.time()) - 1),)
    async with worker.connected():
        api, signed = node.api(), kit.make_request(kit.key_of("renter"))
        assert (await api.get("/v1/offers")).json() == []
        await api.post("/v1/requests", signed)
        said = (await api.get(f"/v1/why/{signed.request.struct_hash()}")).json()

    assert said["state"] == "queued"
    assert node.agent.core.counters["offers_refused"] == 1
    assert not node.agent.core.books.leases.records


async def test_A02_replayed_request_is_refused_and_makes_one_request(kit, node) -> None:
    api = node.api()
    body = wire.write(kit.make_request(api.key))
    headers = api.headers("POST", "/v1/requests", body)
    first = await api.client.post("/v1/requests", content=body, headers=headers)
    again = await api.client.post("/v1/requests", content=body, headers=headers)

    assert first.status_code == 202
    assert_told(again, 409, "ReplayError")
    assert len(node.agent.core.books.requests.records) == 1


@pytest.mark.parametrize(("size", "error"), [((8 << 20) + 1, "BodyError"), (8 << 20, "WireError")])
async def test_A01_oversized_json_is_refused_unread_and_the_largest_is_read(kit, node, size: int, error: str) -> None:
    answer = await node.api().send("POST", "/v1/requests", b" " * size)

    assert_told(answer, 413 if error == "BodyError" else 400, error)
    assert not node.agent.core.books.requests.records


async def test_A01_deeply_nested_json_is_refused_and_the_node_goes_on(kit, node) -> None:
    nested = b'{"priority":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    assert_told(await node.api().send("POST", "/v1/requests", nested), 400, "WireError")
    assert (await node.client.get("/v1/health")).json()["status"] == "ok"


async def test_block_nobody_has_is_told_missing(node) -> None:
    cid = cid_of(b"nobody ever stored this")

    assert_told(await node.api().get(f"/v1/blocks/{cid}"), 404, "BlockNotFoundError")
