"""A development stack whose every process can be killed and started again, and a renter's process that says where it is."""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from millpond import Client
from millpond.chain import devnet
from millpond.dev.daemons import NODE_ENTRY
from millpond.dev.stack import DevStack, StackConfig
from millpond.protocol.views import LeaseState
from millpond.settings import Network, load_network

WAIT_S = 60.0
RENTER = """
import json, sys, time
import millpond

app = millpond.App()


@app.task
def square(x, seconds):
    time.sleep(seconds)
    return x * x


def say(**what):
    print(json.dumps(what), flush=True)


def finish(leases, handles):
    for handle in handles:
        say(at="result", value=handle.result(90))
    say(at="closing")
    leases.close()
    say(at="closed", settled=[one.is_settled for one in leases.settlements])


def work(share, tasks, seconds):
    client = millpond.Client()
    say(at="opening")
    with client.rent(millpond.Vgpu(share=share), duration=900) as leases:
        say(at="serving", lease=[one.id for one in leases][0])
        handles = [square.spawn(x, seconds) for x in range(tasks)]
        say(at="submitted", handles=[one.id for one in handles])
        finish(leases, handles)


def resume(lease, handles):
    client = millpond.Client()
    with client.attach(lease) as leases:
        finish(leases, [client.handle(one) for one in handles])


if __name__ == "__main__":
    {"work": work, "resume": resume}[sys.argv[1]](*json.loads(sys.argv[2]))
"""


class Renter:
    """One process of the renter; `said` is what it told of itself, in order."""

    def __init__(self, script: Path, home: Path, verb: str, *arguments: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(script), verb, json.dumps(arguments)],
            env={**os.environ, "MILLPOND_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def until(self, at: str) -> dict[str, Any]:
        """Waits for it to say that it is there."""
        end = time.monotonic() + 2 * WAIT_S
        while True:
            line = self._lines.get(timeout=max(0.1, end - time.monotonic()))
            if not line:
                assert self._process.stderr is not None
                raise AssertionError(f"the renter ended before {at}: {self._process.stderr.read()[-2000:]}")
            self.said.append(json.loads(line))
            if self.said[-1]["at"] == at:
                return self.said[-1]

    def of(self, at: str) -> list[dict[str, Any]]:
        return [said for said in self.said if said["at"] == at]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


@dataclass(slots=True)
class Stage:
    """The stack; `stop_...` is kill -9, `start_...` the same program from the same home."""

    home: Path
    network: Network
    stack: DevStack
    portal: BlockingPortal
    script: Path

    @property
    def dev(self) -> Path:
        return self.home / "dev"

    def renter(self, verb: str, *arguments: Any) -> Renter:
        return Renter(self.script, self.home, verb, *arguments)

    def crash_worker(self, away_s: float = 0.5) -> None:
        self.stack.kill(0)
        time.sleep(away_s)
        self.portal.call(self.stack.restart, 0)

    def crash_node(self, away_s: float = 0.5) -> None:
        process = next(process for process in self.stack.processes if process.name == "node")
        self.stack.processes.remove(process)
        process.kill()
        time.sleep(away_s)
        self.portal.call(self.stack._start_process, "node", NODE_ENTRY, ["up", "--home", str(self.dev / "node")])

    def crash_chain(self, away_s: float = 1.0) -> None:
        """Anvil comes back without its last blocks."""
        chain = self.stack.chain
        assert chain is not None
        self.portal.call(chain.kill)
        time.sleep(away_s)
        self.stack.chain = self.portal.call(devnet.start, replace(chain.config, port=chain.port))

    def sending(self, folder: str, key: str) -> Callable[[], bool]:
        """Whether a transaction whose key begins so is signed and not yet mined, as its sender's outbox has it."""
        names = ("transactions.sqlite3", "transactions.db")
        paths = [path for name in names if (path := self.dev / folder / name).exists()]
        assert paths, f"{folder} keeps no transactions"

        def is_sending() -> bool:
            return any(_has_row(path, key) for path in paths)

        return is_sending


def _has_row(path: Path, key: str) -> bool:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)
    try:
        sql = "SELECT 1 FROM outbox WHERE key LIKE ? AND state IN ('signed', 'broadcast')"
        return db.execute(sql, (key + "%",)).fetchone() is not None
    except sqlite3.OperationalError:
        return False
    finally:
        db.close()


def wait_until(condition: Callable[[], Any], what: str, seconds: float = WAIT_S, pause_s: float = 0.1) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in {seconds:g} s"
        time.sleep(pause_s)


@contextmanager
def stage(home: Path, code: Path) -> Iterator[Stage]:
    script = code / "renter.py"
    script.write_text(RENTER)
    config = StackConfig(home, launcher="auto", chain_port=0, node_port=0)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(DevStack(config)) as stack:
        network = load_network(home)
        with Client(network=network, home=home) as client:
            client.fund(100_000_000)
        it = Stage(home, network, stack, portal, script)
        try:
            yield it
        finally:
            if stack.chain is not None:
                portal.call(stack.chain.stop)


def check_all(it: Stage, lease: str, handles: list[str], renters: list[Renter]) -> None:
    """What must hold after any crash, read back from node, chain and engine."""
    results = [said["value"] for renter in renters for said in renter.of("result")]
    expected = [x * x for x in range(len(handles))]
    assert results[-len(handles) :] == expected
    assert renters[-1].of("closed")[-1]["settled"] == [True]
    job = handles[0].partition("/")[0]
    with Client(network=it.network, home=it.home) as client:
        found = list(client.results(job, 0))  # type: ignore[arg-type]
        assert sorted(result.index for result in found) == list(range(len(handles)))
        assert all(result.signed is not None for result in found)
        wait_until(lambda: client.job(job).attested == len(handles), "the receipts' batch")  # type: ignore[arg-type]
        assert client.job(job).succeeded == len(handles)  # type: ignore[arg-type]
        [view] = [view for view in client.leases() if view.lease == lease]
        assert view.state in (LeaseState.CLOSING, LeaseState.CLOSED)
        settled = client.close_lease(view.lease)
        collected = settled.paid + settled.fee + settled.burnt
        assert settled.is_settled
        assert settled.earmark == collected + settled.refunded
        assert collected <= view.voucher
    wait_until(lambda: not containers_of(lease), "the end of the lease's containers")


def containers_of(lease: str) -> list[str]:
    """Containers of the lease in the engine, and runner processes that name it."""
    found = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=False)
    ids = found.stdout.split() if found.returncode == 0 else []
    if not ids:
        return []
    shown = subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True, check=False).stdout
    return [item["Id"] for item in json.loads(shown or "[]") if lease in json.dumps(item["Config"]["Labels"] or {})]
