"""The node's figures in Prometheus' text form (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import Response

from millpond_node.agent import Agent

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_COUNTERS = {
    "batches": "Batches of receipts made.",
    "beats": "Beats of workers.",
    "blocks_put": "Blocks put by callers.",
    "chain_errors": "Calls of the chain that failed.",
    "errors": "Requests that failed in the node itself.",
    "offers_refused": "Offers of workers that do not hold.",
    "rate_limited": "Requests refused for their rate.",
    "receipts_refused": "Receipts whose check failed.",
    "refused_transactions": "Transactions the contracts refused.",
    "reports_ignored": "Reports on leases the node or the worker does not have.",
    "requests": "Requests accepted.",
    "results": "Results of tasks.",
    "workers_lost": "Workers that were lost.",
}


async def metrics(agent: Agent, request: Request) -> Response:
    return Response(render(agent), media_type=MEDIA)


def render(agent: Agent) -> str:
    core = agent.core
    lines = [
        _metric(f"millpond_{name}_total", "counter", text, core.counters[name]) for name, text in _COUNTERS.items()
    ]
    lines += [_metric(f"millpond_{name}", "gauge", text, value) for name, (text, value) in _gauges(agent).items()]
    lines += _states(
        "millpond_requests_by_state",
        "Requests kept.",
        Counter(r.state.value for r in core.books.requests.records.values()),
    )
    lines += _states(
        "millpond_leases_by_state", "Leases kept.", Counter(r.state.value for r in core.books.leases.records.values())
    )
    return "".join(lines)


def _gauges(agent: Agent) -> dict[str, tuple[str, float]]:
    core, desk = agent.core, agent.core.books.desk
    return {
        "chain_block": ("Newest block looked at.", core.head),
        "followers": ("Open streams of results and logs.", agent.streams.total()),
        "jobs": ("Jobs kept.", len(desk.jobs)),
        "nonces": ("Nonces remembered.", len(agent.gate.nonces)),
        "offers": ("Offers of connected workers.", len(core.books.offers)),
        "receipts_pending": ("Receipts no batch has yet.", len(agent.settlement.postings.pending)),
        "stale_reports": ("Late reports on attempts that are no longer out.", desk.stale),
        "tasks_open": ("Tasks not ended.", desk.open),
        "tasks_open_bytes": ("Memory that open tasks hold, about.", desk.open_bytes),
        "workers_connected": ("Connected workers.", len(agent.workers.sessions)),
    }


def _metric(name: str, kind: str, text: str, value: float) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} {value}\n"


def _states(name: str, text: str, counts: Counter[str]) -> list[str]:
    head = f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    return [head, *(f'{name}{{state="{state}"}} {count}\n' for state, count in sorted(counts.items()))]
