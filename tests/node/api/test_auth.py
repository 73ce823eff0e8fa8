"""Who calls: A01-A06, A09."""

import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.protocol import wire
from millpond.protocol.envelope import HEADER_AUDIENCE, HEADER_EXPIRY, HEADER_NONCE, HEADER_SIGNATURE
from millpond.protocol.signing import Domain
from millpond_node.api import app

PARTS = dict.fromkeys(("hash", "lease", "job", "task"), "0x" + "11" * 32)
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
SIGNED = [(method, path.format(**PARTS, attempt=1, cid=CID)) for method, path, _ in app.SIGNED]
WRITES = [item for item in SIGNED if item[0] in ("POST", "PUT")]


@pytest.mark.parametrize(("method", "path"), SIGNED)
async def test_A04_request_without_a_signature_is_refused(node, method, path) -> None:
    answer = await node.client.request(method, path, headers={"authorization": "Bearer x", "x-user": "admin"})
    assert answer.status_code == 401
    assert set(answer.json()) == {"error", "message", "remedy", "fields"}


async def test_signed_request_passes(kit, node) -> None:
    assert (await node.api().get("/v1/offers")).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda api, kit: replace(api, audience=kit.address_named("other node")),
        lambda api, kit: replace(api, domain=Domain(1, api.domain.contract)),
        lambda api, kit: replace(api, domain=Domain(api.domain.chain_id, kit.contract_named("other pool"))),
    ],
)
async def test_A05_signature_for_another_node_chain_or_pool_is_no_identity(kit, node, change) -> None:
    """Another domain recovers to another signer: what it asks for is not that caller's."""
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        answer = await change(node.api(), kit).get(f"/v1/leases/{rented.lease}")
    assert answer.status_code in (401, 404)


@pytest.mark.parametrize("what", ["method", "path", "query", "body"])
async def test_A05_signature_over_another_method_path_query_or_body_is_no_identity(kit, node, what) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        path = f"/v1/leases/{rented.lease}"
        signed_for = {
            "method": ("POST", path, b""),
            "path": ("GET", "/v1/leases", b""),
            "query": ("GET", path + "?wait=1", b""),
        }
        headers = api.headers(*signed_for.get(what, ("GET", path, b"other")))
        answer = await api.client.get(path, headers=headers)
    assert answer.status_code == 404


async def test_A02_request_replayed_is_refused_also_after_a_restart(kit, node, start) -> None:
    api = node.api()
    headers = api.headers("GET", "/v1/offers")
    assert (await api.client.get("/v1/offers", headers=headers)).status_code == 200
    assert (await api.client.get("/v1/offers", headers=headers)).status_code == 409
    await kit.wait_for(lambda: node.journal.count("nonce") > 0)
    again = await start(journal=kit.MemoryJournal(node.journal.image()), chain=node.chain)
    answer = await again.client.get("/v1/offers", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (409, "ReplayError")


async def test_A02_nonces_are_forgotten_only_after_their_expiry(kit, node) -> None:
    api = node.api()
    await api.get("/v1/offers")
    nonces = node.agent.gate.nonces
    nonces.sweep(int(time.time()) + 30)
    assert len(nonces) == 1
    nonces.sweep(int(time.time()) + 200)
    assert len(nonces) == 0


async def test_A03_garbage_with_a_callers_nonce_does_not_burn_it(kit, node) -> None:
    api = node.api()
    headers = api.headers("GET", "/v1/offers", nonce=7)
    for garbage in ("0x" + "00" * 65, "0x1234", "zz", "0x" + "11" * 64 + "1b"):
        await api.client.get("/v1/offers", headers={**headers, HEADER_SIGNATURE: garbage})
    assert (await api.client.get("/v1/offers", headers=headers)).status_code == 200


@pytest.mark.parametrize("ahead", [-61, 121])
async def test_signature_whose_expiry_is_past_or_too_far_is_refused(kit, node, ahead) -> None:
    api = node.api()
    answer = await api.send("GET", "/v1/offers", now=int(time.time()) + ahead)
    assert (answer.status_code, answer.json()["error"]) == (401, "EnvelopeError")


async def test_A06_caller_above_its_rate_gets_429_and_others_do_not(kit, start) -> None:
    node = await start(limits=kit.Limits(rate_per_signer=0.001, burst_per_signer=3))
    api = node.api()
    statuses = [(await api.get("/v1/offers")).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert (await node.api("somebody else").get("/v1/offers")).status_code == 200


async def test_A06_global_rate_is_checked_before_the_signature(kit, start) -> None:
    node = await start(limits=kit.Limits(rate_global=0.001, burst_global=2))
    statuses = [(await node.client.get("/v1/leases")).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    answer = await node.client.get("/v1/health")
    assert answer.headers["retry-after"]


async def test_A09_foreign_and_unknown_ids_answer_alike(kit, node) -> None:
    api, stranger = node.api(), node.api("stranger")
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 1)
        task = (await api.results(job))[0]["task"]
        unknown = "0x" + "99" * 32
        for known in (
            f"/v1/leases/{rented.lease}", f"/v1/leases/{rented.lease}/usage", f"/v1/jobs/{job}/tasks/{task}", f"/v1/requests/{rented.request}", f"/v1/why/{rented.request}", f"/v1/jobs/{job}",
            f"/v1/jobs/{job}/results", f"/v1/receipts/{task}/1",
        ):  # fmt: skip
            mine, foreign = await api.get(known), await stranger.get(known)
            missing = await stranger.get(
                known.replace(rented.lease, unknown).replace(rented.request, unknown).replace(job, unknown)
            )
            assert mine.status_code in (200, 404), known
            assert (
                (foreign.status_code, set(foreign.json()))
                == (missing.status_code, set(missing.json()))
                == (404, {"error", "message", "remedy", "fields"})
            )
        answer = await stranger.submit(job, rented.lease, 1)
    assert answer.status_code == 404


async def test_leases_of_a_stranger_are_none(kit, node) -> None:
    async with node.worker().connected() as worker:
        await node.api().rent(worker)
        assert (await node.api("stranger").get("/v1/leases")).json() == []
        assert len((await node.api("session").get("/v1/leases")).json()) == 1


JUNK = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(str.encode),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=20,
    ).map(lambda value: wire.write(value, object)),
    st.integers(1, 3000).map(lambda depth: b"[" * depth),
    st.just(b'{"request":' * 500),
    st.just(b'{"nonce": NaN, "x": 1e999, "y": ' + b"9" * 5000 + b"}"),
)


async def test_A01_malformed_bodies_and_paths_get_4xx_and_never_5xx(kit, node) -> None:
    api = node.api()
    for index, body in enumerate(junk()):
        method, path = WRITES[index % len(WRITES)]
        answer = await api.send(method, path, body)
        assert 400 <= answer.status_code < 500, (path, body, answer.text)
    for path in (
        "/v1/leases/x",
        "/v1/leases/0x" + "zz" * 32,
        "/v1/blocks/nope",
        "/v1/jobs/%00",
        "/v1/nothing",
        "/v1/jobs/0x12/results?after=-1",
    ):
        assert 400 <= (await api.get(path)).status_code < 500
    assert node.agent.core.counters["errors"] == 0


def junk() -> list[bytes]:
    """300 bodies, the same in every run."""
    found: list[bytes] = []

    @settings(max_examples=300, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(JUNK)
    def draw(body: bytes) -> None:
        found.append(body)

    draw()
    return found


async def test_A01_body_over_the_limit_is_refused_unread(kit, node) -> None:
    api = node.api()
    answer = await api.send("POST", "/v1/requests", b" " * ((8 << 20) + 1))
    assert (answer.status_code, answer.json()["error"]) == (413, "BodyError")


async def test_A08_secrets_and_line_breaks_do_not_reach_the_log(kit, node, caplog) -> None:
    caplog.set_level("DEBUG", logger="millpond.node")
    api = node.api()
    headers = api.headers("POST", "/v1/requests", b"canary\nforged line")
    await api.client.post("/v1/requests", content=b"canary\nforged line", headers=headers)
    await api.client.get("/v1/leases/evil%0aline", headers=api.headers("GET", "/v1/leases/evil%0aline"))
    text = "\n".join(record.getMessage() for record in caplog.records)
    for secret in ("canary", "forged", headers[HEADER_SIGNATURE], headers[HEADER_NONCE], api.key.hex()):
        assert secret not in text


def test_headers_are_the_four_of_the_envelope(kit) -> None:
    headers = kit.Api(None, kit.key_of("renter"), kit.address_named("node")).headers("GET", "/v1/x")
    assert set(headers) == {HEADER_AUDIENCE, HEADER_NONCE, HEADER_EXPIRY, HEADER_SIGNATURE}
