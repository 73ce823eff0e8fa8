"""The endpoints, one small function each; see `operations` for the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Bytes32
from millpond.protocol.messages import Message, SignedRequest, Submit, VoucherNote
from millpond.protocol.views import (
    BlockView,
    JobView,
    LeaseView,
    OfferView,
    RequestState,
    SubmitView,
    VoucherKeptView,
)
from millpond.storage.cid import parse_cid
from millpond_node.agent import Agent
from millpond_node.api import views
from millpond_node.api.edge import Call, reply
from millpond_node.errors import NotFoundError, RequestRefusedError
from millpond_node.machine.tasks import Stage

MAX_WAIT_S = 30
RAW = "application/vnd.ipld.raw"


@dataclass(frozen=True, slots=True)
class CancelBody(Message):
    """Tasks to cancel; none: all of the job."""

    tasks: tuple[Bytes32, ...] = ()


async def health(agent: Agent, request: Request) -> Response:
    return reply(views.health_view(agent))


async def pool(agent: Agent, request: Request) -> Response:
    return reply(views.pool_view(agent))


async def offers(agent: Agent, call: Call) -> Response:
    return reply(views.offer_views(agent), list[OfferView])


async def submit_request(agent: Agent, call: Call) -> Response:
    signed = wire.read(SignedRequest, call.body)
    is_known = signed.request.struct_hash() in agent.core.books.requests.records
    record = agent.market.submit(call.caller, signed)
    await agent.core.durable.settled()
    if not is_known:
        agent.spawn(agent.market.learn_funds(record.renter), "read funds")
    return reply(views.request_view(agent, record), status=202)


async def get_request(agent: Agent, call: Call) -> Response:
    wait = call.number("wait", 0, 0, MAX_WAIT_S)
    hash_ = call.id("hash")
    record = agent.market.request_of(call.caller, hash_)
    before = (record.state, record.message)
    if wait and record.state in (RequestState.QUEUED, RequestState.OPENING):
        await _changed(agent, hash_, wait, lambda: (record.state, record.message) != before)
    return reply(views.request_view(agent, agent.market.request_of(call.caller, hash_)))


async def why(agent: Agent, call: Call) -> Response:
    return reply(views.why(agent, agent.market.request_of(call.caller, call.id("hash"))))


async def leases(agent: Agent, call: Call) -> Response:
    return reply(views.leases_of(agent, call.caller), list[LeaseView])


async def lease(agent: Agent, call: Call) -> Response:
    wait = call.number("wait", 0, 0, MAX_WAIT_S)
    lease_id = call.id("lease")
    record = agent.market.lease_of(call.caller, lease_id)
    before = (record.state, record.ready_at)
    if wait:
        await _changed(agent, lease_id, wait, lambda: (record.state, record.ready_at) != before)
    return reply(views.lease_view(agent, agent.market.lease_of(call.caller, lease_id)))


async def usage(agent: Agent, call: Call) -> Response:
    record = agent.market.lease_of(call.caller, call.id("lease"))
    return reply(agent.usage.view(record, agent.core.now()))


async def voucher(agent: Agent, call: Call) -> Response:
    note = wire.read(VoucherNote, call.body)
    if note.lease != call.id("lease"):
        raise RequestRefusedError(
            "the body names another lease than the path", remedy="Send the lease's own id in both."
        )
    kept = agent.market.voucher(call.caller, note)
    await agent.core.durable.settled()
    return reply(VoucherKeptView(kept))


async def submit_tasks(agent: Agent, call: Call) -> Response:
    submit = wire.read(Submit, call.body)
    ids = [task.id for task in submit.tasks]
    agent.timings.submitting(submit.job, ids)
    try:
        accepted, known = agent.jobs.submit(call.caller, call.id("job"), submit, call.body)
    except MillpondError:
        agent.timings.refused(ids)
        raise
    await agent.core.durable.settled()
    return reply(SubmitView(accepted, known), status=202)


async def job(agent: Agent, call: Call) -> Response:
    return reply(agent.jobs.job_of(call.caller, call.id("job")).view())


async def task(agent: Agent, call: Call) -> Response:
    job_ = agent.jobs.job_of(call.caller, call.id("job"))
    found = job_.tasks.get(call.id("task"))
    if found is None:
        raise NotFoundError("there is no such task in the job")
    return reply(views.task_view(agent, job_, found))


async def cancel(agent: Agent, call: Call) -> Response:
    tasks = wire.read(CancelBody, call.body).tasks if call.body else ()
    agent.jobs.cancel(call.caller, call.id("job"), tasks)
    await agent.core.durable.settled()
    return reply(agent.jobs.job_of(call.caller, call.id("job")).view(), JobView)


async def receipt(agent: Agent, call: Call) -> Response:
    found = agent.jobs.find(call.caller, call.id("task"))
    attempt = call.request.path_params["attempt"]
    if found is None or found[1].stage is Stage.NONE or str(found[1].attempt) != attempt:
        raise NotFoundError("there is no such receipt")
    result = agent.jobs.result(found[0].id, found[1].cursor)
    if result is None or result.signed is None:
        raise NotFoundError("there is no such receipt")
    return reply(agent.settlement.bundle(found[0].id, found[1].cursor, result.signed))


async def get_block(agent: Agent, call: Call) -> Response:
    cid = parse_cid(call.request.path_params["cid"])
    headers = {"cache-control": "private, max-age=31536000, immutable", "etag": f'"{cid}"'}
    if call.request.method == "HEAD":
        size = agent.blocks.has(call.caller, cid)
        return Response(headers={**headers, "content-length": str(size)}, media_type=RAW)
    data = await agent.blocks.get(call.caller, cid)
    return Response(data, headers=headers, media_type=RAW)


async def put_block(agent: Agent, call: Call) -> Response:
    cid = parse_cid(call.request.path_params["cid"])
    await agent.blocks.put(call.caller, cid, call.body)
    return reply(BlockView(cid, len(call.body)), status=201)


async def _changed(agent: Agent, key: Bytes32, seconds: int, is_new: Callable[[], bool]) -> None:
    """Waits until `is_new()` or time is over."""
    clock = agent.core.clock
    until = clock.monotonic() + seconds
    while not is_new() and not agent.is_stopping:
        left = until - clock.monotonic()
        if left <= 0 or not await agent.core.signals.wait(key, left):
            return
