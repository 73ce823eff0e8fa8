"""Open endpoints and blocks."""

import pytest

from millpond.protocol import wire
from millpond.protocol.views import PoolView
from millpond.storage.blocks import make_block


async def test_health_says_ok_without_a_signature(node) -> None:
    said = (await node.client.get("/v1/health")).json()
    assert set(said) == {"status", "chain_id", "block", "version", "workers", "queue"}
    assert said["status"] == "ok"


async def test_pool_reads_as_a_pool_view(kit, node) -> None:
    view = wire.read(PoolView, (await node.client.get("/v1/pool")).content)
    assert (view.controller, view.node) == (kit.CONTROLLER, kit.address_named("node"))


async def test_block_put_by_a_party_is_read_by_the_leases_parties_only(kit, node) -> None:
    block = make_block(b"code" * 100)
    path = f"/v1/blocks/{block.cid}"
    async with node.worker().connected() as worker:
        await node.api().rent(worker)
        assert (await node.api().send("PUT", path, block.data)).status_code == 201
        assert (await node.api("session").get(path)).content == block.data
        assert (await node.api("operator w1").get(path)).content == block.data
        head = await node.api("operator w1").send("HEAD", path)
        assert (head.status_code, head.headers["content-length"]) == (200, "400")
        assert (await node.api("stranger").get(path)).status_code == 404
        assert (await node.api("stranger").send("HEAD", path)).status_code == 404


async def test_block_put_by_a_stranger_is_refused(kit, node) -> None:
    block = make_block(b"spam")
    answer = await node.api("stranger").send("PUT", f"/v1/blocks/{block.cid}", block.data)
    assert answer.status_code == 403


async def test_O17_block_that_is_not_its_cid_is_refused(kit, node) -> None:
    block = make_block(b"code")
    async with node.worker().connected() as worker:
        await node.api().rent(worker)
        answer = await node.api().send("PUT", f"/v1/blocks/{block.cid}", b"cods")
    assert (answer.status_code, answer.json()["error"]) == (400, "BlockTamperedError")


async def test_block_over_the_callers_quota_is_refused_until_older_ones_expire(kit, start) -> None:
    node = await start(limits=kit.Limits(block_party_mib=1, block_ttl_s=100))
    first, second = make_block(bytes(700_000)), make_block(b"\1" * 700_000)
    async with node.worker().connected() as worker:
        api = node.api()
        await api.rent(worker)
        assert (await api.send("PUT", f"/v1/blocks/{first.cid}", first.data)).status_code == 201
        assert (await api.send("PUT", f"/v1/blocks/{first.cid}", first.data)).status_code == 201
        answer = await api.send("PUT", f"/v1/blocks/{second.cid}", second.data)
        assert (answer.status_code, answer.json()["error"]) == (413, "QuotaError")
        assert await node.agent.blocks.sweep(node.agent.core.now() + 101) == 1
        assert (await api.send("PUT", f"/v1/blocks/{second.cid}", second.data)).status_code == 201
        assert (await api.get(f"/v1/blocks/{first.cid}")).status_code == 404


@pytest.mark.parametrize("path", ["/v1/health", "/v1/pool", "/metrics", "/v1/openapi.json"])
async def test_other_method_on_an_open_path_is_a_typed_405(node, path) -> None:
    answer = await node.client.post(path)
    assert (answer.status_code, answer.json()["error"]) == (405, "MethodNotAllowedError")
    assert answer.headers["allow"] == "GET"
