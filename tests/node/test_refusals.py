"""What the node refuses, to whom and with which reason, and the bounds it keeps."""

import asyncio

from millpond.protocol.link import LeasePhase, Refused, Welcome
from millpond_node.chain.port import Refusal


async def test_request_the_contracts_refuse_for_money_is_refused_with_the_reason(kit, node) -> None:
    node.chain.escrow[kit.address_named("poor")] = 0
    signed = kit.make_request(kit.key_of("poor"))
    node.agent.market.learn_funds = lambda renter: asyncio.sleep(0)
    async with node.worker().connected():
        api = node.api("poor")
        await api.post("/v1/requests", signed)
        hash_ = signed.request.struct_hash()
        await kit.wait_for(lambda: node.agent.core.books.requests.records[hash_].state == "refused")
        view = (await api.get(f"/v1/requests/{hash_}")).json()
    assert "EscrowInsufficientFree" in view["message"]
    assert node.agent.core.policy.free_of(node.worker().device) == (1000, 4096)


async def test_request_without_funds_waits_and_says_why(kit, node) -> None:
    node.chain.escrow[kit.address_named("poor")] = 0
    signed = kit.make_request(kit.key_of("poor"))
    api = node.api("poor")
    await api.post("/v1/requests", signed)
    renter = kit.address_named("poor")
    await kit.wait_for(lambda: renter in node.agent.core.policy._state.funds)
    async with node.worker().connected():
        said = (await api.get(f"/v1/why/{signed.request.struct_hash()}")).json()
    assert [item["filter"] for item in said["filters"]] == ["funds"]
    assert "Fund the escrow" in said["message"]


async def test_opening_refused_for_the_offer_goes_back_to_the_queue(kit, node) -> None:
    worker = node.worker()
    signed = kit.make_request(node.api().key)
    offer = worker.hello().offers[0].offer
    lease = kit.lease_id(kit.CHAIN_ID, kit.CONTROLLER, offer.struct_hash(), signed.request.struct_hash())
    node.chain.refuses[f"open:{lease}"] = Refusal(f"open:{lease}", "DevicesShareFullError", "free 0, needed 500")
    worker.offers = (kit.make_offer(worker.device, worker.key, deadline=offer.deadline),)
    async with worker.connected():
        await node.api().post("/v1/requests", signed)
        record = node.agent.core.books.requests.records[signed.request.struct_hash()]
        await kit.wait_for(lambda: record.failures == 1)
        said = (await node.api().get(f"/v1/why/{record.hash}")).json()
    assert record.state == "queued"
    assert said["filters"][0]["filter"] == "refused"


async def test_A10_worker_of_another_version_is_refused(kit, node) -> None:
    worker = node.worker(version="7.0.0")
    await worker.connect()
    assert isinstance(worker.last, Refused)
    assert worker.last.error == "VersionSkewError"
    neighbour = node.worker(version="0.2.9")
    async with neighbour.connected():
        assert isinstance(neighbour.welcome, Welcome)


async def test_second_instance_of_a_connected_worker_is_refused_and_the_same_supersedes(kit, node) -> None:
    async with node.worker(instance="a").connected() as first:
        other = node.worker(instance="b")
        await other.connect()
        assert other.last.error == "WorkerBusyError"
        async with node.worker(instance="a").connected():
            await asyncio.wait_for(first.socket.wait_closed(), 5)


async def test_worker_whose_key_is_no_operator_here_is_refused(kit, node) -> None:
    worker = node.worker()
    node.chain.devices.clear()
    await worker.connect()
    assert worker.last.error == "WorkerRefusedError"


async def test_offer_that_is_not_its_operators_is_not_listed(kit, node) -> None:
    worker = node.worker()
    worker.offers = (
        kit.make_offer(worker.device, kit.key_of("thief")),
        kit.make_offer(worker.device, worker.key, epoch=2),
    )
    async with worker.connected():
        assert (await node.api().get("/v1/offers")).json() == []
    assert node.agent.core.counters["offers_refused"] == 2


async def test_voucher_is_kept_forwarded_and_reported(kit, node) -> None:
    api = node.api("session")
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        voucher = kit.Voucher(rented.lease, 500)
        note = kit.VoucherNote(rented.lease, 500, kit.sign(voucher, kit.ESCROW_DOMAIN, api.key))
        answer = await api.post(f"/v1/leases/{rented.lease}/vouchers", note)
        assert answer.json() == {"cumulative": "500"}
        await worker.until(lambda: len(worker.vouchers) == 1)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].voucher == 500)
        forged = kit.VoucherNote(rented.lease, 900, note.signature)
        assert (await api.post(f"/v1/leases/{rented.lease}/vouchers", forged)).status_code == 401


async def test_lease_closed_on_chain_frees_the_device_and_tells_the_worker(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        await kit.wait_for(lambda: node.agent.core.policy.free_of(worker.device)[0] == 500)
        node.chain.close_lease(rented.lease)
        await worker.until(
            lambda: rented.lease in worker.desired and worker.desired[rented.lease].phase is LeasePhase.CLOSED
        )
        assert node.agent.core.policy.free_of(worker.device)[0] == 1000
        node.chain.mine(3)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "closed")


async def test_O15_open_tasks_are_bounded_and_more_get_429(kit, start) -> None:
    node = await start(limits=kit.Limits(open_tasks=10))
    api = node.api()
    async with node.worker(runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        assert (await api.submit(job, rented.lease, 10)).status_code == 202
        answer = await api.submit(job, rented.lease, 1, first=10)
        assert (answer.status_code, answer.json()["error"]) == (429, "BacklogError")
        assert (await api.submit(job, rented.lease, 10)).json() == {"accepted": 0, "known": 10}


async def test_O15_open_requests_of_a_renter_are_bounded(kit, start) -> None:
    node = await start(limits=kit.Limits(open_requests_per_renter=2))
    api = node.api()
    statuses = [(await api.post("/v1/requests", kit.make_request(api.key))).status_code for _ in range(3)]
    assert statuses == [202, 202, 429]


async def test_request_posted_twice_is_one_request(kit, node) -> None:
    api, signed = node.api(), kit.make_request(kit.key_of("renter"))
    views = [(await api.post("/v1/requests", signed)).json() for _ in range(2)]
    assert views[0] == views[1]
    assert len(node.agent.core.books.requests.records) == 1
