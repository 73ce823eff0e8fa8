"""Figures in Prometheus' text form, read by a small reader of the format."""

import re

import pytest

from millpond_node.timings import Histogram

SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z]+)="([^"\\]*)"\})? (NaN|[+-]?[0-9.e+-]+)$')
WANTED = {
    "millpond_tasks_by_state", "millpond_tasks_open", "millpond_requests_waiting", "millpond_request_wait_seconds",
    "millpond_dispatch_seconds", "millpond_workers_connected", "millpond_workers_by_state", "millpond_rate_limited_total",
    "millpond_chain_lag_seconds", "millpond_http_answers_total",
}  # fmt: skip


def read(text: str) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    """(kind by name, value by name and label). Every sample follows the HELP and TYPE of its family, each family once."""
    kinds, values, helped = {}, {}, set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            assert len(line.split(" ", 3)[3]) > 3
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name in helped
            assert kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            name = re.sub(r"_(bucket|sum|count)$", "", found[1])
            assert (name if name in kinds else found[1]) in kinds
            assert kinds.get(name) != "counter" or name.endswith("_total")
            values[found[1], found[3] or ""] = float(found[4])
    return kinds, values


async def metrics(node) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    return read((await node.client.get("/metrics")).text)


async def test_metrics_of_an_idle_node_name_every_figure(node) -> None:
    kinds, values = await metrics(node)
    assert set(kinds) >= WANTED
    assert values["millpond_tasks_open", ""] == 0


async def test_metrics_count_tasks_by_state_and_time_their_dispatch(kit, node) -> None:
    api, job = node.api(), kit.new_job()
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.submit(job, rented.lease, 5)
        await api.submit(job, rented.lease, 5)
        assert len(await api.results(job)) == 5
        _, values = await metrics(node)
    assert values["millpond_tasks_by_state", "succeeded"] == 5
    assert values["millpond_dispatch_seconds_count", ""] == 5
    assert values["millpond_dispatch_seconds_bucket", "+Inf"] == 5
    assert 0 <= values["millpond_dispatch_seconds_sum", ""] < 60
    assert values["millpond_request_wait_seconds_count", ""] == 1
    assert values["millpond_leases_by_state", "serving"] == 1
    assert values["millpond_workers_by_state", "online"] == 1
    assert values["millpond_http_answers_total", "202"] == 3
    assert len(node.agent.timings) == 0


async def test_O15_refused_and_cancelled_tasks_leave_no_timing_behind(kit, start) -> None:
    node = await start(limits=kit.Limits(open_tasks=2))
    api, job = node.api(), kit.new_job()
    async with node.worker(is_ready_at_once=True, runner=lambda run: None).connected() as worker:
        rented = await api.rent(worker)
        assert (await api.submit(job, rented.lease, 5)).status_code == 429
        assert len(node.agent.timings) == 0


async def test_rate_limited_requests_are_counted(kit, start) -> None:
    node = await start(limits=kit.Limits(rate_per_signer=0.001, burst_per_signer=1))
    for _ in range(3):
        await node.api().get("/v1/offers")
    _, values = await metrics(node)
    assert values["millpond_rate_limited_total", ""] == 2
    assert values["millpond_http_answers_total", "429"] == 2


def test_histogram_puts_a_value_into_the_first_bucket_it_fits() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.counts == [2, 1, 1]
    assert histogram.total == pytest.approx(12.0)
