"""A01 at large: schemathesis over the real server. MILLPOND_API_CASES sets how many cases (`make test-api`: 20,000)."""

import asyncio
import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from millpond.storage.blocks import make_block

SPEC = importlib.util.spec_from_file_location("node_api_fuzzing", Path(__file__).with_name("fuzzing.py"))
fuzzing = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = fuzzing
SPEC.loader.exec_module(fuzzing)

CASES = int(os.environ.get("MILLPOND_API_CASES", "120"))
SEED = int(os.environ.get("MILLPOND_API_SEED", "1"))
FREE = {f"{kind}_{of}": 1e9 for kind in ("rate", "burst") for of in ("per_signer", "per_address", "global")}


@pytest.mark.timeout(3600)
async def test_A01_any_case_of_the_document_is_answered_as_documented_and_never_5xx(kit, start) -> None:
    node = await start(limits=replace(kit.Limits(), **FREE))
    api, job, block = node.api(), kit.new_job(), make_block(b"code" * 100)
    async with node.worker().connected() as worker:
        rented = await api.rent(worker)
        await api.send("PUT", f"/v1/blocks/{block.cid}", block.data)
        await api.submit(job, rented.lease, 1)
        task = (await api.results(job))[0]["task"]
        known = {
            "hash": rented.request, "lease": rented.lease, "job": job, "task": task, "attempt": "1", "cid": block.cid,
        }  # fmt: skip
        keys = {"renter": api.key, "stranger": kit.key_of("stranger")}
        known = {name: str(value) for name, value in known.items()}
        target = fuzzing.Target(node.url, api.domain, api.audience, keys, known)
        count = await asyncio.to_thread(fuzzing.run_cases, target, CASES, SEED)
    print(count.table())
    assert count.cases.total() >= CASES
    assert {200, 400, 401, 404} <= set(count.statuses)
    assert not [status for status in count.statuses if status >= 500]
    assert node.agent.core.counters["errors"] == 0
