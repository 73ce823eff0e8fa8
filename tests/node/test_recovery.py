"""What survives: restarts, reorganisations, lost workers, late reports."""

import asyncio

import pytest

from millpond.protocol.ids import Address
from millpond.protocol.link import Ack, AttemptLost, LeasePhase, Ready, Refused, Report, Started
from millpond_node.sessions import MAX_QUEUED, Session


async def restarted(kit, node, start, **options):
    """Another node on what the journal had at this moment, as after kill -9."""
    image = node.journal.image()
    await node.stop()
    return await start(journal=kit.MemoryJournal(image), chain=node.chain, store=node.store, **options)


async def test_O02_node_killed_loses_no_acknowledged_task_or_request(kit, node, start) -> None:
    api = node.api()
    async with node.worker(runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        assert (await api.submit(job, rented.lease, 30)).status_code == 202
        waiting = kit.make_request(api.key, share=1000)
        assert (await api.post("/v1/requests", waiting)).status_code == 202
    again = await restarted(kit, node, start)
    api = again.api()
    view = (await api.get(f"/v1/jobs/{job}")).json()
    assert (view["tasks"], view["queued"] + view["running"]) == (30, 30)
    assert (await api.get(f"/v1/requests/{waiting.request.struct_hash()}")).json()["state"] == "queued"
    async with again.worker(seq=worker.seq).connected():
        results = await api.results(job)
    assert {item["index"] for item in results} == set(range(30))


async def test_O02_crash_after_any_commit_keeps_all_that_was_acknowledged_before(kit, start) -> None:
    journal = kit.CapturingJournal()
    node = await start(journal=journal)
    api, job, acked = node.api(), kit.new_job(), []
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        for first in range(0, 12, 3):
            assert (await api.submit(job, rented.lease, 3, first=first)).status_code == 202
            acked.append((len(journal.images), first + 3))
        results = await api.results(job)
        acked_results = len(journal.images)
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].final >= 0 and not worker.unacked)
    for at, image in enumerate(journal.images, start=1):
        agent = kit.revived(node, image)
        view = agent.core.books.desk.jobs[job].view() if job in agent.core.books.desk.jobs else None
        promised = max([count for commit, count in acked if commit <= at], default=0)
        assert promised == 0 or view.tasks >= promised
        assert view is None or view.tasks == view.queued + view.running + view.succeeded
        assert at < acked_results or [item["cursor"] for item in results] == [c for c, _ in agent.jobs.lines(job, 0)]
        await agent.market.aclose()


async def test_jobs_kept_long_enough_are_forgotten_with_their_batches(kit, start) -> None:
    node = await start(job_retention_s=0)
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 3)
        await api.results(job)
        node.agent._sweep()
        assert job in node.agent.core.books.desk.jobs
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].attested == 3)
        node.chain.mine(3)
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].final == 3)
        node.agent._sweep()
        await node.agent.core.durable.settled()
    assert (await api.get(f"/v1/jobs/{job}")).status_code == 404
    assert [node.journal.count(table) for table in ("job", "submit", "sent", "result", "batch")] == [0] * 5
    assert node.agent.settlement.postings.place == {}


async def test_O02_acceptance_leaves_only_behind_the_commit(kit, start) -> None:
    journal = kit.MemoryJournal()
    node = await start(journal=journal)
    journal._holds = True
    posted = asyncio.create_task(node.api().post("/v1/requests", kit.make_request(kit.key_of("renter"))))
    await kit.wait_for(lambda: len(node.agent.core.books.requests.records) == 1)
    await asyncio.sleep(0.2)
    assert not posted.done()
    journal._holds = False
    journal.release()
    assert (await posted).status_code == 202
    assert journal.count("request") == 1


async def test_O02_report_is_acknowledged_only_behind_the_commit(kit, start) -> None:
    journal = kit.MemoryJournal()
    node = await start(journal=journal)
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        job = kit.new_job()
        await kit.wait_for(lambda: not worker.unacked)
        journal._holds = True
        submitted = asyncio.create_task(node.api().submit(job, rented.lease, 1))
        await worker.until(lambda: len(worker.runs) == 1)
        await asyncio.sleep(0.2)
        assert worker.unacked
        assert journal.count("result") == 0
        journal._holds = False
        journal.release()
        await worker.until(lambda: not worker.unacked)
        assert journal.count("result") == 1
        assert (await submitted).status_code == 202


async def test_renter_who_funds_while_waiting_is_served(kit, node) -> None:
    renter = kit.address_named("poor")
    node.chain.escrow[renter] = 0
    async with node.worker().connected():
        api = node.api("poor")
        signed = kit.make_request(api.key)
        node.agent.core.tell(kit.policy_port.FundsKnown(renter, 0))
        await api.post("/v1/requests", signed)
        node.chain.escrow[renter] = kit.ESCROW_FUNDS
        view = (await api.get(f"/v1/requests/{signed.request.struct_hash()}?wait=20")).json()
    assert view["state"] in ("opening", "open")


async def test_O15_worker_that_does_not_read_is_cut_off() -> None:
    session = Session(Address("0x" + "11" * 20), 1, "i")
    for seq in range(MAX_QUEUED + 1):
        session.send(Ack(seq))
    assert session.is_over
    session.send(Ack(0))
    assert len(session.queue) == MAX_QUEUED + 1


async def test_O02_results_and_receipts_are_there_after_a_restart(kit, node, start) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 10)
        before = await api.results(job)
        await kit.wait_for(lambda: node.agent.core.books.desk.jobs[job].attested == 10)
    again = await restarted(kit, node, start)
    assert await again.api().results(job) == before
    assert (await again.api().results(job, after=7)) == before[7:]
    assert (await again.api().get(f"/v1/jobs/{job}")).json()["attested"] == 10
    answer = await again.api().get(f"/v1/receipts/{before[4]['task']}/1")
    assert answer.status_code == 200


async def test_O02_receipts_in_no_batch_are_posted_after_a_restart(kit, start) -> None:
    node = await start(batch_seconds=1000.0)
    api = node.api()
    async with node.worker(runner=lambda run: (0, b"v") if run.task.index else None).connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 2)
        await api.results(job, limit=1)
    assert not any(key.startswith("post:") for key in node.chain.sent)
    again = await restarted(kit, node, start)
    await kit.wait_for(lambda: again.agent.core.books.desk.jobs[job].attested == 1)


async def test_O09_report_sent_twice_is_processed_once_and_acknowledged_again(kit, node) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 1)
        await api.results(job)
        await worker.until(lambda: not worker.unacked)
        await worker.send(Report(worker.seq, Started(rented.lease, job, 1)))
        worker.unacked[worker.seq] = None
        await worker.until(lambda: not worker.unacked)
        view = (await api.get(f"/v1/jobs/{job}")).json()
    assert view["succeeded"] == 1


async def test_report_beyond_the_next_ends_the_connection_with_the_reason(kit, node) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        await worker.until(lambda: worker.seq > 0 and not worker.unacked)  # the first report would be the baseline
        await worker.send(Report(worker.seq + 2, Started(rented.lease, rented.lease, 1)))
        await worker.until(lambda: isinstance(worker.last, Refused))
    assert worker.last.error == "SequenceGapError"


async def test_O02_worker_whose_acknowledged_reports_are_gone_is_taken_up_by_a_node_without_a_journal(
    kit, start
) -> None:
    node = await start()
    worker = node.worker(seq=41)
    async with worker.connected():
        assert worker.welcome.acked_seq == 0
        rented = await node.api().rent(worker)
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "serving")
        await worker.until(lambda: not worker.unacked)
        assert node.agent.core.books.workers.records[worker.address].acked_seq == worker.seq
        await worker.send(Report(worker.seq + 2, Started(rented.lease, rented.lease, 1)))
        await worker.until(lambda: isinstance(worker.last, Refused))


async def test_O02_node_set_back_to_an_older_journal_takes_the_first_report_of_a_connection(kit, node) -> None:
    worker = node.worker()
    async with worker.connected():
        rented = await node.api().rent(worker)
        await worker.until(lambda: not worker.unacked)
    worker.seq += 7
    async with worker.connected():
        await worker.report(Started(rented.lease, rented.lease, 1))
        await worker.until(lambda: not worker.unacked)
    assert node.agent.core.books.workers.records[worker.address].acked_seq == worker.seq


async def test_O02_worker_started_anew_gets_the_runs_that_died_with_its_last_process(kit, node) -> None:
    api = node.api()
    first = node.worker(runner=lambda run: None, instance="a")
    async with first.connected():
        rented = await api.rent(first)
        job = kit.new_job()
        await api.submit(job, rented.lease, 2)
        await first.until(lambda: len(first.runs) == 2)
    second = node.worker(seq=first.seq, instance="b", is_ready_at_once=False)
    async with second.connected():
        results = await api.results(job)
    assert sorted(run.task.index for run in second.runs) == [0, 1]
    assert {item["signed"]["receipt"]["attempt"] for item in results} == {1}


async def test_ready_again_later_moves_the_start_of_the_meter_and_wakes_who_waits(kit, node) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        path = f"/v1/leases/{rented.lease}"
        await kit.wait_for(lambda: node.agent.core.books.leases.records[rented.lease].state == "serving")
        before = (await api.get(path)).json()["ready_at"]
        waiting = asyncio.create_task(api.get(f"{path}?wait=8"))
        await asyncio.sleep(0.2)
        await worker.report(Ready(rented.lease, before + 30))
        view = (await asyncio.wait_for(waiting, 4)).json()
    assert (view["ready_at"], view["state"]) == (before + 30, "serving")


async def test_worker_back_in_time_gets_its_attempts_again_and_none_elsewhere(kit, node) -> None:
    api = node.api()
    first = node.worker(runner=lambda run: None)
    async with first.connected():
        rented = await api.rent(first)
        job = kit.new_job()
        await api.submit(job, rented.lease, 2)
        await first.until(lambda: len(first.runs) == 2)
    second = node.worker(seq=first.seq)
    async with second.connected():
        results = await api.results(job)
    assert {item["signed"]["receipt"]["attempt"] for item in results} == {1}


async def test_O03_lost_workers_attempt_runs_elsewhere_and_its_late_receipt_is_refused(kit, node) -> None:
    api = node.api()
    slow = node.worker("slow", runner=lambda run: None)
    async with slow.connected():
        rented = await api.rent(slow)
        async with node.worker("fast").connected() as fast:
            other = await api.rent(fast, offer=fast.hello().offers[0].offer.struct_hash())
            job = kit.new_job()
            await api.submit(job, rented.lease, 1)
            await slow.until(lambda: len(slow.runs) == 1)
            record = node.agent.core.books.workers.records[slow.address]
            await api.post(f"/v1/jobs/{job}/tasks", kit.Submit(job, (other.lease,), ()))
            record.last_beat -= 100
            results = await api.results(job)
    assert results[0]["signed"]["receipt"]["attempt"] == 2
    assert results[0]["signed"]["worker"] == fast.address
    stale = node.agent.core.books.desk.stale
    late = node.worker("slow", seq=slow.seq)
    async with late.connected():
        await late.report(late.ended(slow.runs[0], 0, b"late"))
        await late.until(lambda: not late.unacked)
    assert node.agent.core.books.desk.stale == stale + 1
    assert (await api.results(job)) == results


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "0x" + "12" * 32},
        {"resultHash": "0x" + "12" * 32},
        {"input": "0x" + "12" * 32},
        {"endedAt": 1},
        {"status": 9},
    ],
)
async def test_receipt_with_a_false_field_is_refused_and_the_task_runs_again(kit, node, changes) -> None:
    api = node.api()
    worker = node.worker(runner=lambda run: None)
    async with worker.connected():
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 1)
        await worker.until(lambda: len(worker.runs) == 1)
        bad = worker.ended(worker.runs[0], 0, b"v", **changes)
        await worker.report(bad)
        await worker.until(lambda: len(worker.runs) == 2)
    assert worker.runs[1].attempt == 2
    assert node.agent.core.counters["receipts_refused"] == 1


async def test_attempt_lost_is_sent_again_under_the_next_number(kit, node) -> None:
    api = node.api()
    worker = node.worker(runner=lambda run: (0, b"ok") if run.attempt > 1 else None)
    async with worker.connected():
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 1)
        await worker.until(lambda: len(worker.runs) == 1)
        run = worker.runs[0]
        await worker.report(AttemptLost(run.lease, run.task.id, run.attempt, "container died"))
        results = await api.results(job)
    assert results[0]["signed"]["receipt"]["attempt"] == 2
    assert (await api.get(f"/v1/jobs/{job}")).json()["attempts_retried"] == 1


async def test_O05_lease_whose_block_is_replaced_is_opened_again(kit, start) -> None:
    node = await start()
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        records = node.agent.core.books.leases.records
        await kit.wait_for(lambda: records[rented.lease].state == "serving")
        node.chain.reorg(1)
        await worker.until(lambda: worker.desired[rented.lease].phase is LeasePhase.HINT)
        node.chain.mine()
        await kit.wait_for(lambda: records[rented.lease].state == "serving")
    assert rented.lease in node.chain.open_leases()


async def test_O05_batch_whose_block_is_replaced_is_not_attested_until_it_is_seen_again(kit, node) -> None:
    api = node.api()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        job = kit.new_job()
        await api.submit(job, rented.lease, 3)
        desk = node.agent.core.books.desk
        await kit.wait_for(lambda: desk.jobs[job].attested == 3)
        node.chain.reorg(1)
        await kit.wait_for(lambda: desk.jobs[job].attested == 0)
        assert desk.jobs[job].final == 0
        node.chain.mine(3)
        await kit.wait_for(lambda: desk.jobs[job].final == 3)
    assert (desk.jobs[job].attested, desk.jobs[job].succeeded) == (3, 3)


async def test_foreign_lease_takes_its_slice_in_the_ledger(kit, node, start) -> None:
    async with node.worker().connected() as worker:
        rented = await node.api().rent(worker)
        fact = node.chain.open_leases()[rented.lease]
    other = await start(chain=node.chain)
    await kit.wait_for(lambda: rented.lease in other.agent.core.policy._state.ledger.slices)
    assert other.agent.core.policy._state.ledger.used[fact.terms.device] == (500, 512)


async def test_journal_of_another_pool_is_refused(kit, node) -> None:
    await kit.wait_for(lambda: node.journal.get("meta", "identity") is not None)
    facts = kit.replace(kit.pool_facts(), controller=kit.contract_named("other"))
    journal = kit.MemoryJournal(node.journal.image())
    agent = kit.Agent(node.agent.core.config, facts, b"", node.chain, journal, node.store, kit.SystemClock())
    with pytest.raises(kit.NodeConfigError, match="another"):
        agent.start()


async def test_journal_that_fails_ends_the_node_and_promises_nothing(kit, start) -> None:
    node = await start()
    node.journal.fail()
    answer = await node.api().post("/v1/requests", kit.make_request(kit.key_of("renter")))
    assert answer.status_code == 503
    with pytest.raises(kit.JournalFailedError):
        await asyncio.wait_for(asyncio.shield(node.tasks[0]), 5)


async def test_decisions_replay_from_the_journal(kit, node) -> None:
    """Anyone with the journal's events reaches the same decisions."""
    async with node.worker().connected() as worker:
        await node.api().rent(worker)
        await node.api().rent(worker)
    await kit.wait_for(lambda: sum(event.kind == "Start" for event in node.journal.events()) == 2)
    assert kit.replay_decisions(node.journal) == 2
