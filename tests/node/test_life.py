"""The life of a lease and its tasks through the whole node."""

from millpond.protocol import wire
from millpond.protocol.receipts import check_bundle
from millpond.protocol.views import ReceiptBundle


async def test_request_with_a_fitting_offer_becomes_a_serving_lease(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "serving")
        view = (await node.api().get(f"/v1/leases/{rented.lease}")).json()
    assert view["state"] == "serving"
    assert view["ready_at"] > 0
    assert f"open:{rented.lease}" in node.chain.sent


async def test_tasks_submitted_run_and_their_results_stream(kit, node) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        answer = await api.submit(job, rented.lease, 20)
        assert (answer.status_code, answer.json()) == (202, {"accepted": 20, "known": 0})
        results = await api.results(job)
    assert [item["cursor"] for item in results] == list(range(1, 21))
    assert {item["index"] for item in results} == set(range(20))


async def test_receipt_after_its_batch_is_seen_verifies_without_the_node(kit, node) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 5)
        results = await api.results(job)
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].attested == 5)
        task = results[3]["task"]
        answer = await api.get(f"/v1/receipts/{task}/1")
    assert answer.status_code == 200, answer.text
    check_bundle(wire.read(ReceiptBundle, answer.content))
