"""The node's figures in Prometheus' text form (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

from starlette.requests import Request
from starlette.responses import Response

from millpond_node.agent import Agent
from millpond_node.timings import Histogram

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
    core, books = agent.core, agent.core.books
    parts = [
        _metric(f"millpond_{name}_total", "counter", text, core.counters[name]) for name, text in _COUNTERS.items()
    ]
    parts += [_metric(f"millpond_{name}", "gauge", text, value) for name, (text, value) in _gauges(agent).items()]
    requests = Counter(record.state.value for record in books.requests.records.values())
    leases = Counter(record.state.value for record in books.leases.records.values())
    workers = Counter(record.state.value for record in books.workers.records.values())
    parts += [
        _labelled("millpond_requests_by_state", "gauge", "Requests kept.", "state", requests),
        _labelled("millpond_leases_by_state", "gauge", "Leases kept.", "state", leases),
        _labelled("millpond_workers_by_state", "gauge", "Workers known.", "state", workers),
        _labelled("millpond_tasks_by_state", "gauge", "Tasks of the jobs kept.", "state", _tasks(agent)),
        _labelled("millpond_http_answers_total", "counter", "Answers over HTTP.", "status", agent.answers),
        _histogram(
            "millpond_dispatch_seconds", "From a task's submission to its first sending.", agent.timings.dispatch
        ),
        _histogram("millpond_request_wait_seconds", "From a request's queueing to its place.", agent.timings.wait),
    ]
    return "".join(parts)


def _gauges(agent: Agent) -> dict[str, tuple[str, float]]:
    core, desk = agent.core, agent.core.books.desk
    lag = max(0, core.clock.wall() - core.head_time) if core.head_time else float("nan")
    return {
        "chain_block": ("Newest block looked at.", core.head),
        "chain_lag_seconds": ("Age of the newest block looked at; NaN before the first.", lag),
        "followers": ("Open streams of results and logs.", agent.streams.total()),
        "jobs": ("Jobs kept.", len(desk.jobs)),
        "nonces": ("Nonces remembered.", len(agent.gate.nonces)),
        "offers": ("Offers of connected workers.", len(core.books.offers)),
        "receipts_pending": ("Receipts no batch has yet.", len(agent.settlement.postings.pending)),
        "requests_waiting": ("Requests that wait for a place or for the chain.", len(core.books.requests.live)),
        "stale_reports": ("Late reports on attempts that are no longer out.", desk.stale),
        "tasks_open": ("Tasks not ended.", desk.open),
        "tasks_open_bytes": ("Memory that open tasks hold, about.", desk.open_bytes),
        "workers_connected": ("Connected workers.", len(agent.workers.sessions)),
    }


def _tasks(agent: Agent) -> Counter[str]:
    found: Counter[str] = Counter()
    for job in agent.core.books.desk.jobs.values():
        for state in ("queued", "running", "succeeded", "failed", "cancelled"):
            found[state] += getattr(job, state)
    return found


def _head(name: str, kind: str, text: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _metric(name: str, kind: str, text: str, value: float) -> str:
    return f"{_head(name, kind, text)}{name} {_number(value)}\n"


def _labelled(name: str, kind: str, text: str, label: str, counts: Mapping[str, int]) -> str:
    rows = "".join(f'{name}{{{label}="{value}"}} {count}\n' for value, count in sorted(counts.items()))
    return _head(name, kind, text) + rows


def _histogram(name: str, text: str, histogram: Histogram) -> str:
    """Buckets count upwards, as Prometheus wants them."""
    counts = list(accumulate(histogram.counts))
    bounds = [*(str(bound) for bound in histogram.bounds), "+Inf"]
    rows = "".join(f'{name}_bucket{{le="{bound}"}} {count}\n' for bound, count in zip(bounds, counts, strict=True))
    return f"{_head(name, 'histogram', text)}{rows}{name}_sum {histogram.total}\n{name}_count {counts[-1]}\n"


def _number(value: float) -> str:
    return "NaN" if value != value else str(value)  # noqa: PLR0124 - only NaN differs from itself
