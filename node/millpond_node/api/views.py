"""What REST shows of the node's books."""

from __future__ import annotations

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.views import (
    HealthView,
    LeaseView,
    OfferView,
    PoolView,
    RequestState,
    RequestView,
    TaskView,
    Why,
)
from millpond_node.agent import Agent
from millpond_node.api.deadlines import due_of_lease, due_of_request, due_of_task, stage_of
from millpond_node.api.waits import Held, room_at
from millpond_node.core import Offered
from millpond_node.machine.leases import LeaseRecord
from millpond_node.machine.requests import RequestRecord
from millpond_node.machine.tasks import Job, Task
from millpond_node.machine.workers import WorkerState
from millpond_node.policy.port import Explanation
from millpond_node.version import own_version


def health_view(agent: Agent) -> HealthView:
    core = agent.core
    status = "stopping" if agent.is_stopping else "ok"
    workers, queue = len(agent.workers.sessions), len(core.books.requests.live)
    return HealthView(status, core.facts.chain_id, core.head, own_version(), workers, queue)


def pool_view(agent: Agent) -> PoolView:
    facts = agent.core.facts
    return PoolView(
        facts.chain_id, facts.controller, facts.node, facts.escrow, facts.staking, facts.devices, facts.attestations,
        facts.tokens, facts.token, facts.token_symbol, facts.token_decimals, agent.core.config.task_image, own_version(),
        facts.fee_ppm, facts.burn_ppm, facts.deposit_seconds, facts.finality,
    )  # fmt: skip


def offer_views(agent: Agent) -> list[OfferView]:
    offers = sorted(agent.core.books.offers.values(), key=lambda offered: (offered.device.device, offered.hash))
    return [_offer_view(agent, item) for item in offers]


def _offer_view(agent: Agent, item: Offered) -> OfferView:
    record, offer = agent.core.books.workers.records.get(item.worker), item.signed.offer
    is_online = record is not None and record.state is WorkerState.ONLINE
    share, memory = agent.core.policy.free_of(item.device.device)
    is_free = is_online and offer.share <= share and offer.memoryMiB <= memory
    return OfferView(
        item.signed, item.hash, item.provider, item.device, item.launcher, is_online, share, memory,
        offer.pricePerSecond, is_free,
    )  # fmt: skip


def request_view(agent: Agent, record: RequestRecord) -> RequestView:
    deadline, next_state = due_of_request(record, _lease_of(agent, record))
    return RequestView(record.hash, record.state, record.lease, record.message, deadline, next_state)


def why(agent: Agent, record: RequestRecord) -> Why:
    """Counts and advice are of a request that waits; any other says where it went."""
    core = agent.core
    deadline, next_state = due_of_request(record, _lease_of(agent, record))
    said = core.policy.explain(record.hash, core.now()) if record.state is RequestState.QUEUED else None
    if said is None:
        message = record.message or f"The request is {record.state}."
        return Why(record.hash, record.state, 0, 0, 0, (), message, deadline=deadline, next=next_state)
    return Why(
        record.hash, record.state, said.position, said.considered, said.fitting, said.filters,
        f"{record.message} {said.message}".strip(), said.nearest, _expected_wait(agent, said), deadline, next_state,
    )  # fmt: skip


def _expected_wait(agent: Agent, said: Explanation) -> int | None:
    """The shortest over all offers that lack only room. A request that fits is placed at once."""
    if said.fitting:
        return 0
    offers = [agent.core.books.offers[hash_] for hash_ in said.waiting if hash_ in agent.core.books.offers]
    waits = [wait for item in offers if (wait := _room(agent, item)) is not None]
    return min(waits, default=None)


def _room(agent: Agent, item: Offered) -> int | None:
    core, device = agent.core, item.device.device
    live = (record for record in core.books.leases.records.values() if record.device == device and not record.closed_at)
    held = [Held(lease.offer.offer.share, lease.offer.offer.memoryMiB, lease.ends_at or None) for lease in live]
    offer = item.signed.offer
    return room_at(offer.share, offer.memoryMiB, core.policy.free_of(device), held, core.now())


def lease_view(agent: Agent, record: LeaseRecord) -> LeaseView:
    deadline, next_state = due_of_lease(record)
    return LeaseView(
        record.lease, record.state, record.renter, record.provider, record.worker, record.offer, record.request_hash,
        record.opened_at, record.ends_at, record.ready_at, record.voucher, record.message, deadline, next_state,
        _seen_at(agent, record.worker),
    )  # fmt: skip


def leases_of(agent: Agent, caller: Address) -> list[LeaseView]:
    books = agent.core.books.leases
    found: dict[Bytes32, None] = {**books.by_party.get(caller, {}), **books.by_worker.get(caller, {})}
    return [lease_view(agent, books.records[lease]) for lease in found]


def task_view(agent: Agent, job: Job, task: Task) -> TaskView:
    core = agent.core
    records = core.books.leases.records
    leases = [records[lease] for lease in job.leases if lease in records]
    deadline, next_state = due_of_task(task, leases, core.config.orphan_seconds, core.now())
    return TaskView(
        job.id, task.id, task.index, stage_of(task), Bytes32(task.lease) if task.lease else None, task.attempt, task.tries,
        task.cursor, deadline, next_state,
    )  # fmt: skip


def _seen_at(agent: Agent, worker: Address) -> int:
    """Unix seconds; beats are timed by a clock that does not jump. A worker of the last run has not been heard in this one."""
    record = agent.core.books.workers.records.get(worker)
    if record is None or not record.instance:
        return 0
    return agent.core.now() - int(agent.core.clock.monotonic() - record.last_beat)


def _lease_of(agent: Agent, record: RequestRecord) -> LeaseRecord | None:
    return agent.core.books.leases.records.get(record.lease) if record.lease is not None else None
