"""What a lease uses, from the worker's beat to the renter."""

from millpond.protocol import wire
from millpond.protocol.link import Beat
from millpond.protocol.usage import MAX_SAMPLES, LeaseUsage, UsageView
from millpond_node.usage import UsageBook


def usage(lease, cpu_ms=1000, at=1_800_000_000) -> LeaseUsage:
    return LeaseUsage(lease, at, cpu_ms, 5 << 20, 6 << 20, network_sent_bytes=None)


async def told(kit, node, worker, *usages) -> None:
    before = node.agent.core.counters["beats"]
    await worker.send(Beat(0, 0, 1, usages))
    await kit.wait_for(lambda: node.agent.core.counters["beats"] > before)


async def test_usage_of_a_lease_nobody_measured_yet_is_null(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        view = wire.read(UsageView, (await node.api().get(f"/v1/leases/{rented.lease}/usage")).content)
    assert (view.now, view.age_s, view.samples) == (None, None, ())
    assert (view.cpu_milli_limit, view.memory_limit_mib) == (1000, 1024)


async def test_usage_told_by_the_worker_is_shown_to_the_leases_parties_only(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        await told(kit, node, worker, usage(rented.lease))
        path = f"/v1/leases/{rented.lease}/usage"
        view = wire.read(UsageView, (await node.api().get(path)).content)
        assert (await node.api("stranger").get(path)).status_code == 404
    assert view.now == usage(rented.lease) == view.samples[0]
    assert view.age_s <= 2


async def test_usage_of_another_workers_lease_is_not_believed(kit, node) -> None:
    async with node.worker().connected() as worker, node.worker("w2", offers=()).connected() as liar:
        rented = await node.api().rent(worker)
        await told(kit, node, liar, usage(rented.lease, 10**9))
        view = (await node.api().get(f"/v1/leases/{rented.lease}/usage")).json()
    assert view["now"] is None


async def test_O15_samples_are_one_in_ten_seconds_and_bounded(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        record = node.agent.core.books.leases.records[rented.lease]
        book = UsageBook(node.agent.core.books.leases)
        for second in range(5 * MAX_SAMPLES * 10):
            book.take(record.worker, (usage(rented.lease, second),), 1000 + second)
    view = book.view(record, 1000 + 5 * MAX_SAMPLES * 10)
    assert len(view.samples) == MAX_SAMPLES
    assert {later.cpu_ms - earlier.cpu_ms for earlier, later in zip(view.samples, view.samples[1:], strict=False)} == {
        10
    }
