"""A second chain (id 424242, a block every 2 s, finality 12, no deterministic deployer): `deploy apply` killed by SIGKILL at one point
after the other, resumed each time; then status, a pool, and what a damaged chain looks like."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_account import Account

from millpond.chain import devnet
from millpond.chain.errors import DevnetError
from millpond.chain.keys import new_wallet
from millpond.cli import main

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(180)]

CHAIN_ID = 424242
FINALITY = 12
PASSWORD = "test"
NODE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
APPLY = ("deploy", "apply", "--test-token", "--finality", str(FINALITY), "--chain-id", str(CHAIN_ID))
HARNESS = """
import os, signal, sys
from millpond.chain.address_book import AddressBook
from millpond.chain.deploy import proxy
from millpond.chain.deploy.journal import FileDeployJournal
from millpond.chain.eth import Eth
from millpond.chain.outbox import SqliteOutbox
from millpond.cli import main

at = sys.argv.pop(1)

def die(point):
    if point == at:
        os.kill(os.getpid(), signal.SIGKILL)

def knife(owner, method, name, is_async):
    inner = getattr(owner, method)
    def wrapped(self, *args):
        point = name(*args)
        die(point + " before")
        result = inner(self, *args)
        die(point + " after")
        return result
    async def awaited(self, *args):
        point = name(*args)
        die(point + " before")
        result = await inner(self, *args)
        die(point + " after")
        return result
    setattr(owner, method, awaited if is_async else wrapped)

knife(FileDeployJournal, "append", lambda record: f"journal {record['kind']} {record.get('step', '')}".strip(), False)
knife(SqliteOutbox, "put", lambda row: f"outbox {row.label} {row.state}", True)
knife(Eth, "send_raw", lambda raw: "send the proxy" if raw == proxy.TRANSACTION else "send", True)
knife(AddressBook, "save", lambda path: "book", False)
main(sys.argv[1:])
"""
# In the order of one deployment; those of FEW in the default run, all with MILLPOND_KILL_POINTS=all.
ALL = (
    "journal plan after",
    "journal begin funds after",
    "outbox fund the deterministic deployer signed after",
    "send after",
    "send the proxy before",
    "send the proxy after",
    "outbox deploy Escrow signed after",
    "outbox deploy PoolFactory broadcast after",
    "journal done MockToken before",
    "outbox Tokens.list signed after",
    "outbox Tokens.list mined before",
    "book before",
    "book after",
)
FEW = (
    "outbox fund the deterministic deployer signed after",
    "send the proxy after",
    "outbox deploy Escrow signed after",
    "journal done MockToken before",
    "outbox Tokens.list signed after",
    "book before",
)
POINTS = ALL if os.environ.get("MILLPOND_KILL_POINTS") == "all" else FEW


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def outcome(self) -> tuple[int, str]:
        return self.code, str(self.json.get("error", ""))


@dataclass(frozen=True)
class Site:
    """A home folder, a chain, and the address of the wallet `operator`."""

    home: Path
    url: str
    operator: str
    wallet: str = "operator"

    def run(self, *arguments: str) -> Ended:
        """`millpond ARGUMENTS` in this process."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.env().items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main([*arguments, "--rpc", self.url, "--json"])
        return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())

    def env(self) -> dict[str, str]:
        return {"MILLPOND_HOME": str(self.home), "MILLPOND_WALLET_PASSWORD": PASSWORD, "MILLPOND_WALLET": self.wallet}

    def kill(self, point: str) -> int:
        """Runs `apply` in a process that kills itself at `point`; returns how it ended."""
        command = [sys.executable, "-c", HARNESS, point, *APPLY, "--rpc", self.url]
        env = {**os.environ, **self.env()}
        return subprocess.run(command, env=env, capture_output=True, timeout=120, check=False).returncode

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.code == 0, done.out + done.err
        return done.json

    def rpc(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(self.url, json=body, timeout=10).json()
        assert "error" not in answer, answer
        return answer["result"]


def start_anvil(*options: str) -> tuple[subprocess.Popen[bytes], str]:
    try:
        anvil = devnet.find_anvil()
    except DevnetError as error:
        pytest.skip(f"{error} ({error.remedy})")
    port = str(devnet.free_port())
    command = [str(anvil), "--host", "127.0.0.1", "--port", port, "--hardfork", "prague", "--quiet", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), f"http://127.0.0.1:{port}"


def wait_for(site: Site) -> None:
    for _ in range(100):
        try:
            site.rpc("eth_chainId")
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise TimeoutError(site.url)


def make_home(folder: Path) -> tuple[Path, str]:
    """A home with the keystore `operator`, of a key derivation that takes no time."""
    wallet = new_wallet()
    path = folder / "wallets" / "operator.json"
    path.parent.mkdir()
    path.write_text(json.dumps(Account.encrypt(wallet.key, PASSWORD, kdf="pbkdf2", iterations=2)))
    path.chmod(0o600)
    return folder, wallet.address


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home, operator = make_home(tmp_path_factory.mktemp("operator"))
    options = ("--chain-id", str(CHAIN_ID), "--block-time", "2", "--disable-default-create2-deployer")
    process, url = start_anvil(*options)
    try:
        made = Site(home, url, operator)
        wait_for(made)
        yield made
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def deployed(site: Site) -> dict[str, Any]:
    """The deployment, after `apply` was killed at every point of POINTS in turn."""
    poor = site.run(*APPLY)
    assert poor.outcome == (4, "OutOfFundsError")
    assert int(poor.json["fields"]["missing"]) > 10**16
    site.rpc("anvil_setBalance", site.operator, hex(10**18))
    plan = site.json("deploy", "plan", "--test-token")
    assert (plan["to_do"], plan["missing"]) == (11, 0)
    for point in POINTS:
        if point == "book before":
            threading.Timer(3.0, site.rpc, ("anvil_mine", hex(FINALITY + 1))).start()  # 12 blocks would take 24 s
        assert site.kill(point) == -signal.SIGKILL, point
    report: dict[str, Any] = site.json(*APPLY)
    spent = 10**18 - int(site.rpc("eth_getBalance", site.operator, "latest"), 16)
    assert spent == int(report["cost"]) + 10**16
    assert spent <= int(plan["cost_at_most"])
    return {**report, "plan": plan}


def test_O10_killed_at_each_point_every_step_was_sent_once(site: Site, deployed: dict[str, Any]) -> None:
    assert int(site.rpc("eth_getTransactionCount", site.operator, "latest"), 16) == 10  # the proxy's is not ours
    assert deployed["contracts"] == {
        step["name"]: step["address"] for step in deployed["plan"]["steps"] if step["kind"] == "contract"
    }


def test_chain_31337_gets_the_same_addresses_from_another_sender(
    deployed: dict[str, Any], site: Site, tmp_path: Path
) -> None:
    process, url = start_anvil("--chain-id", "31337")
    try:
        other = Site(tmp_path, url, site.operator, wallet="")
        wait_for(other)
        plan = other.json("deploy", "plan", "--owner", site.operator)
        made = other.json("deploy", "apply", "--owner", site.operator, "--finality", "0")
    finally:
        process.kill()
        process.wait()
    assert made["contracts"] == {k: v for k, v in deployed["contracts"].items() if k != "MockToken"}
    bounds = {step["name"]: step["gas"] for step in deployed["plan"]["steps"]}
    assert all(step["is_measured"] and step["gas"] <= bounds[step["name"]] for step in plan["steps"])


def test_status_of_the_deployment_is_clean_and_plan_has_nothing_left(deployed: dict[str, Any], site: Site) -> None:
    shown = site.json("deploy", "status")
    assert shown["is_clean"]
    assert {item["state"] for item in shown["status"]["contracts"]} == {"as released"}
    [roles] = [item["roles"] for item in shown["status"]["contracts"] if item["name"] == "Tokens"]
    assert roles == {"owner": site.operator}
    [token] = shown["status"]["tokens"]
    assert (token["symbol"], token["is_listed"]) == ("tUSD", True)
    assert site.json("deploy", "plan", "--test-token")["to_do"] == 0


def pool_file(folder: Path, site: Site, deployed: dict[str, Any]) -> Path:
    file = folder / "pool.yaml"
    file.write_text(
        f"owner: {site.operator}\nlabel: first\ntoken: {deployed['contracts']['MockToken']}\nnode: {NODE}\n"
        "slasher: 0x000000000000000000000000000000000000dEaD\nfee: 2.5%\nentry: {least_stake: 100}\n"
        f"metadata: {{uri: 'https://example.org/pool.json', digest: '0x{'11' * 32}'}}\n"
    )
    return file


def test_C34_pool_lies_where_the_dry_run_says_and_is_made_once(
    deployed: dict[str, Any], site: Site, tmp_path: Path
) -> None:
    file = pool_file(tmp_path, site, deployed)
    create = ("pool", "create", str(file))
    planned = site.json(*create, "--dry-run")
    assert planned["steps"] == ["create", "metadata"]
    assert site.json(*create)["pool"] == planned["pool"]
    again = site.json(*create)
    assert (again["pool"], again["steps"]) == (planned["pool"], [])
    [pool] = site.json("pool", "ls")
    assert (pool["address"], pool["node"], pool["metadata_digest"]) == (planned["pool"], NODE, "0x" + "11" * 32)
    params = site.json("pool", "show", planned["pool"])["params"]
    assert (params["feePpm"], params["minProvision"]) == (25_000, 100_000_000)
    file.write_text(file.read_text().replace(NODE, site.operator))
    assert site.json(*create)["steps"] == ["node"]


def test_other_code_at_an_address_ends_status_with_4_and_makes_no_pool(
    deployed: dict[str, Any], site: Site, tmp_path: Path
) -> None:
    file, escrow = pool_file(tmp_path, site, deployed), deployed["contracts"]["Escrow"]
    code = site.rpc("eth_getCode", escrow, "latest")
    site.rpc("anvil_setCode", escrow, code[:-2] + "00" if code[-2:] != "00" else code[:-2] + "01")
    try:
        ended = site.run("deploy", "status")
        assert ended.code == 4
        assert f"Escrow at {escrow}: other code" in ended.json["status"]["problems"]
        assert site.run(*APPLY).outcome == (4, "CodeMismatchError")
        assert site.run("pool", "create", str(file)).outcome == (4, "CodeMismatchError")
    finally:
        site.rpc("anvil_setCode", escrow, code)


def test_other_chain_id_is_refused(site: Site) -> None:
    ended = site.run("deploy", "plan", "--chain-id", "1")
    assert ended.outcome == (4, "WrongChainError")


def test_other_options_in_the_same_folder_are_refused(deployed: dict[str, Any], site: Site) -> None:
    ended = site.run("deploy", "apply", "--challenge-window", "8d")
    assert ended.outcome == (3, "DeploymentConflictError")
