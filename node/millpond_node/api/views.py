"""What REST shows of the node's books."""

from __future__ import annotations

from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.views import LeaseView, OfferView, PoolView, RequestState, RequestView, Why
from millpond_node.agent import Agent
from millpond_node.machine.leases import LeaseRecord
from millpond_node.machine.requests import RequestRecord
from millpond_node.machine.workers import WorkerState
from millpond_node.version import own_version


def pool_view(agent: Agent) -> PoolView:
    facts = agent.core.facts
    return PoolView(
        facts.chain_id, facts.controller, facts.node, facts.escrow, facts.staking, facts.devices, facts.attestations,
        facts.tokens, facts.token, facts.token_symbol, facts.token_decimals, agent.core.config.task_image, own_version(),
        facts.fee_ppm, facts.burn_ppm, facts.deposit_seconds, facts.finality,
    )  # fmt: skip


def offer_views(agent: Agent) -> list[OfferView]:
    books, policy = agent.core.books, agent.core.policy
    views = []
    for item in sorted(books.offers.values(), key=lambda offered: (offered.device.device, offered.hash)):
        record = books.workers.records.get(item.worker)
        is_online = record is not None and record.state is WorkerState.ONLINE
        free = policy.free_of(item.device.device)
        views.append(OfferView(item.signed, item.hash, item.provider, item.device, item.launcher, is_online, *free))
    return views


def request_view(record: RequestRecord) -> RequestView:
    return RequestView(record.hash, record.state, record.lease, record.message)


def why(agent: Agent, record: RequestRecord) -> Why:
    said = agent.core.policy.explain(record.hash, agent.core.now()) if record.state is RequestState.QUEUED else None
    if said is None:
        return Why(record.hash, record.state, 0, 0, 0, (), record.message or f"The request is {record.state}.")
    message = f"{record.message} {said.message}".strip()
    return Why(record.hash, record.state, said.position, said.considered, said.fitting, said.filters, message)


def lease_view(record: LeaseRecord) -> LeaseView:
    return LeaseView(
        record.lease, record.state, record.renter, record.provider, record.worker, record.offer, record.request_hash,
        record.opened_at, record.ends_at, record.ready_at, record.voucher, record.message,
    )  # fmt: skip


def leases_of(agent: Agent, caller: Address) -> list[LeaseView]:
    books = agent.core.books.leases
    found: dict[Bytes32, None] = {**books.by_party.get(caller, {}), **books.by_worker.get(caller, {})}
    return [lease_view(books.records[lease]) for lease in found]
