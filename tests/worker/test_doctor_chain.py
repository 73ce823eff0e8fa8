"""What the doctor says of the RPC servers, the pool, the provider's standing and the node: good and bad, each bad one with its remedy."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_world import DEVICE, INFO, OPERATOR, OWNER, place

from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc
from millpond.protocol.errors import ChainError
from millpond.protocol.ids import ZERO_ADDRESS
from millpond_worker.config import WorkerConfig, parse_config
from millpond_worker.doctor import FAIL, LEAST_GAS_WEI, OK, WARN, Check
from millpond_worker.doctor_chain import (
    _node,
    chain_checks,
    gas_check,
    pool_check,
    provider_check,
    rpc_servers_check,
    stake_check,
)
from millpond_worker.home import Home
from millpond_worker.standing import Standing

POOL, UNIT = place(1), 10**6
PROVIDER: Any = SimpleNamespace(operator=OPERATOR.address, payout=OWNER.address)
KNOWN: Any = SimpleNamespace(pool=POOL, isDraining=False, usedShare=600)
READY = Standing(
    provider=PROVIDER,
    registered={DEVICE: KNOWN},
    idle=0,
    active=100 * UNIT,
    unreserved=50 * UNIT,
    is_retired=False,
    wallet=0,
    allowance=0,
    owner_gas=0,
    operator_gas=LEAST_GAS_WEI,
)
PARAMS = SimpleNamespace(minProvision=100 * UNIT, maxDuration=86_400, exposurePpm=0)


def ready(**changes: Any) -> Standing:
    return dataclasses.replace(READY, **changes)


def config(rpc_url: str = "http://127.0.0.1:1", **changes: Any) -> WorkerConfig:
    made = parse_config(
        {
            "rpc_url": rpc_url,
            "chain_id": 31337,
            "controller": POOL,
            "addresses": "addresses.json",
            "provider": OWNER.address,
            "dev_key": 11,
            "device": "cpu",
            "offers": [{"share": 600, "memory": "64MiB", "price": "0.36/h"}],
        }
    )
    return dataclasses.replace(made, **changes)


def contracts(url: str = "", error: Exception | None = None) -> Any:
    async def node() -> str:
        if error:
            raise error
        return place(9)

    async def service_of(*_: Any) -> Any:
        return SimpleNamespace(uri=url)

    controller = SimpleNamespace(address=POOL, node=node, service_of=service_of)
    return SimpleNamespace(controller=controller, params=PARAMS, decimals=6, symbol="MOCK")


def assert_told(check: Check, level: str, measured: str, remedy: str) -> None:
    assert (check.level, measured in check.measured, remedy in check.remedy) == (level, True, True), check
    assert bool(check.remedy) == (level != OK)


@contextmanager
def server(answer: Any) -> Iterator[str]:
    """JSON over HTTP on the loopback: `answer(path, body)` gives status and value."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            status, value = answer(self.path, self.rfile.read(length))
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def chain_of(chain_id: int) -> Any:
    """Answers as a chain without any contract."""
    block = {
        "number": "0x7", "hash": "0x" + "01" * 32, "parentHash": "0x" + "02" * 32, "timestamp": hex(int(time.time())),
        "baseFeePerGas": "0x1", "gasLimit": "0x1c9c380", "gasUsed": "0x0",
    }  # fmt: skip
    values = {"eth_chainId": hex(chain_id), "eth_getBlockByNumber": block, "eth_blockNumber": "0x7"}

    def one(call: Any) -> Any:
        return {"jsonrpc": "2.0", "id": call["id"], "result": values.get(call["method"], "0x")}

    def answer(_: str, body: bytes) -> tuple[int, Any]:
        calls = json.loads(body)
        return 200, [one(call) for call in calls] if isinstance(calls, list) else one(calls)

    return answer


# RPC AND POOL


async def test_rpc_that_is_down_is_the_only_finding(tmp_path: Path) -> None:
    [check] = [found async for found in chain_checks(config(), Home(tmp_path))]
    assert check.id == "rpc"
    assert_told(check, FAIL, "127.0.0.1:1", "RPC URL")


async def test_rpc_of_another_chain_names_both(tmp_path: Path) -> None:
    with server(chain_of(5)) as url:
        [check] = [found async for found in chain_checks(config(url), Home(tmp_path))]
    assert check.id == "rpc"
    assert_told(check, FAIL, "serves chain 5, expected chain 31337", "expected chain")


async def test_chain_without_the_pool_says_which_setting_is_wrong(tmp_path: Path) -> None:
    with server(chain_of(31337)) as url:
        found = {check.id: check async for check in chain_checks(config(url), Home(tmp_path))}
    assert list(found) == ["rpc", "rpc_servers", "clock", "contracts", "pool"]
    assert_told(found["rpc"], OK, "chain 31337, block 7", "")
    assert_told(found["clock"], OK, "s old", "")
    assert_told(found["contracts"], FAIL, "addresses.json", "address book")
    assert_told(found["pool"], FAIL, "", "`controller` in worker.toml")


async def test_one_rpc_server_warns_that_it_is_believed_except_of_a_development_chain() -> None:
    rpc = Rpc("http://127.0.0.1:1")
    assert_told(await rpc_servers_check(Eth(rpc), 31337), OK, "1, of a development chain", "")
    assert_told(await rpc_servers_check(Eth(rpc), 1), WARN, "1: what a lying server says", "rpc_url")
    await rpc.close()


async def test_three_rpc_servers_that_agree_are_good() -> None:
    with server(chain_of(31337)) as a, server(chain_of(31337)) as b, server(chain_of(31337)) as c:
        rpc = Rpc([a, b, c], chain_id=31337)
        assert_told(await rpc_servers_check(Eth(rpc), 1), OK, "3, block 7 by majority", "")
        await rpc.close()


async def test_O04_rpc_servers_without_a_majority_fail() -> None:
    with server(chain_of(31337)) as alive:
        rpc = Rpc([alive, "http://127.0.0.1:1", "http://127.0.0.1:2"], chain_id=31337, timeout_s=1.0)
        assert_told(await rpc_servers_check(Eth(rpc), 1), FAIL, "", "RPC servers")
        await rpc.close()


# STANDING


def test_gas_at_the_least_is_good_and_below_it_fails() -> None:
    assert_told(gas_check(READY, OPERATOR.address), OK, "holds 0.001", "")
    poor = ready(operator_gas=LEAST_GAS_WEI - 1)
    assert_told(gas_check(poor, OPERATOR.address), FAIL, OPERATOR.address, "worker's key")


def test_provider_that_is_registered_with_this_operator_is_good() -> None:
    assert_told(provider_check(READY, OPERATOR.address, OWNER.address), OK, f"payout {OWNER.address}", "")


def test_provider_that_is_unknown_or_has_another_operator_fails() -> None:
    unknown = provider_check(ready(provider=None), OPERATOR.address, OWNER.address)
    assert_told(unknown, FAIL, "is not registered", "init")
    other = provider_check(READY, place(8), OWNER.address)
    assert_told(other, FAIL, f"the registered operator is {OPERATOR.address}", "init")


def test_device_in_the_pool_is_good() -> None:
    assert_told(pool_check(READY, DEVICE, INFO.name, POOL), OK, "600 per mille used", "")


@pytest.mark.parametrize(
    ("known", "level", "measured", "remedy"),
    [
        (None, FAIL, "is not registered", "init"),
        ({"pool": ZERO_ADDRESS}, FAIL, "is in no pool", "init"),
        ({"pool": place(7)}, FAIL, f"in the pool {place(7)}", "init"),
        ({"isDraining": True}, WARN, "is draining", "setDraining"),
    ],
)
def test_device_that_takes_no_leases_says_why(
    known: dict[str, Any] | None, level: str, measured: str, remedy: str
) -> None:
    registered = {} if known is None else {DEVICE: SimpleNamespace(**{**vars(KNOWN), **known})}
    assert_told(pool_check(ready(registered=registered), DEVICE, INFO.name, POOL), level, measured, remedy)


def test_stake_for_more_leases_is_good_and_says_for_how_many() -> None:
    assert_told(stake_check(contracts(), READY, 20 * UNIT), OK, "enough for 2 more", "")
    assert_told(stake_check(contracts(), READY, 0), OK, "100 MOCK provisioned", "")


@pytest.mark.parametrize(
    "changes", [{"is_retired": True}, {"active": 100 * UNIT - 1}, {"active": 0}], ids=["retired", "below", "none"]
)
def test_stake_that_the_pool_does_not_accept_fails(changes: dict[str, Any]) -> None:
    assert_told(stake_check(contracts(), ready(**changes), UNIT), FAIL, "MOCK provisioned", "--stake")


def test_stake_too_small_for_the_dearest_lease_warns() -> None:
    check = stake_check(contracts(), READY, 50 * UNIT + 1)
    assert_told(check, WARN, "enough for 0 more", "max_duration")
    assert "50.000001 MOCK unreserved" in check.needed


# THE NODE


async def node_check(answer: Any) -> Check:
    with server(answer) as url:
        return await _node(config(), contracts(url))


async def test_node_that_answers_for_this_chain_is_good() -> None:
    check = await node_check(
        lambda path, _: (200 if path == "/v1/health" else 404, {"chain_id": 31337, "version": "9"})
    )
    assert_told(check, OK, "version 9", "")


async def test_node_of_the_settings_comes_before_the_announced_one() -> None:
    with server(lambda *_: (200, {"chain_id": 31337})) as url:
        check = await _node(config(node_url=url + "/"), contracts("http://127.0.0.1:1"))
    assert_told(check, OK, url, "")


@pytest.mark.parametrize(
    ("status", "value", "measured"),
    [
        (200, {"chain_id": 1}, "for chain 1"),
        (503, {"chain_id": 31337}, "answered 503"),
        (200, [], "answered 200 for chain None"),
        (200, b"<html>", "Expecting value"),
    ],
)
async def test_node_that_answers_otherwise_fails(status: int, value: Any, measured: str) -> None:
    check = await node_check(lambda *_: (status, value))
    assert (check.level, measured in check.measured, bool(check.remedy)) == (FAIL, True, True), check


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[::1", "nonsense"])
async def test_node_that_is_away_or_no_url_fails(url: str) -> None:
    assert_told(await _node(config(), contracts(url)), FAIL, url, "Check that the node runs")


async def test_node_that_announced_nothing_fails() -> None:
    assert_told(await _node(config(), contracts("")), FAIL, "announced no URL", "node_url")


async def test_chain_that_fails_while_the_node_is_looked_up_is_told() -> None:
    check = await _node(config(), contracts("", ChainError("gone", remedy="Try again.")))
    assert_told(check, FAIL, "gone", "Try again.")
