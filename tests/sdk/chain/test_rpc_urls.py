"""Several RPC URLs in every settings file, and what the doctor says of one."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from millpond.chain import agreement
from millpond.chain.eth import Eth
from millpond.chain.rpc import Rpc, split_urls
from millpond.settings import load_network
from millpond_node import config as node_config
from millpond_worker import config as worker_config
from millpond_worker.doctor_chain import rpc_servers_check
from millpond_worker.errors import WorkerConfigError

POOL = "0x" + "11" * 20
NODE = {"chain_id": 5, "controller": POOL, "dev_key": 1}
WORKER = {**NODE, "addresses": "a.json", "provider": POOL, "offers": [{"share": 600, "memory": "2GiB", "price": "1/h"}]}
LISTS = [
    ("http://a", "http://a"),
    ("http://a, http://b", "http://a, http://b"),
    (["http://a", "http://b"], "http://a,http://b"),
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://a", ("http://a",)),
        (" http://a , http://b,", ("http://a", "http://b")),
        (["http://a", "http://b", "http://a"], ("http://a", "http://b")),
        ("", ("",)),
    ],
)
def test_split_urls_takes_lists_and_commas_and_drops_repeats(given: str | list[str], expected: tuple[str, ...]) -> None:
    assert split_urls(given) == expected


@pytest.mark.parametrize(("given", "expected"), LISTS)
def test_every_settings_file_takes_one_url_or_several(given: object, expected: str, tmp_path: Path) -> None:
    (tmp_path / "network.json").write_text(json.dumps({"rpc_url": given, "chain_id": 5, "controller": POOL}))
    assert load_network(tmp_path).rpc_url == expected
    assert node_config.parse_config({**NODE, "rpc_url": given}, tmp_path).rpc_url == expected
    assert worker_config.parse_config({**WORKER, "rpc_url": given}).rpc_url == expected


@pytest.mark.parametrize("given", [[], [1], 5])
def test_worker_settings_refuse_urls_of_another_kind(given: object) -> None:
    with pytest.raises(WorkerConfigError, match="rpc_url"):
        worker_config.parse_config({**WORKER, "rpc_url": given})


class OneServer(Rpc):
    """A single server with one block."""

    async def batch_settled(self, calls: object) -> list[object]:
        word = "0x" + "00" * 32
        return [{"number": "0x1", "hash": word, "parentHash": word, "timestamp": "0x1"}]


async def test_O04_a_single_server_is_believed_and_that_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    eth = Eth(OneServer("http://told-once"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert (await agreement.agreed_header(eth)).number == 1
    assert [record.message for record in caplog.records if "only one RPC server" in record.message] == [
        "only one RPC server is set, http://told-once: what it says of leases and payments is believed"
    ]
    await eth.rpc.close()


async def test_O04_doctor_warns_of_a_single_server_with_a_remedy() -> None:
    eth = Eth(Rpc("http://127.0.0.1:9"))
    assert (await rpc_servers_check(eth, 31337)).level == "ok"
    check = await rpc_servers_check(eth, 5)
    assert (check.id, check.level) == ("rpc_servers", "warn")
    assert "rpc_url = [" in check.remedy
    await eth.rpc.close()
