"""Every command of `millpond` against one running stack, as a new user would type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.protocol.receipts import ReceiptError

NODE_SEES_S = 10

pytestmark = [pytest.mark.anvil, pytest.mark.timeout(300)]


def test_status_of_a_running_stack_names_its_parts(run_cli: Callable[..., Any], stack: Any) -> None:
    shown = run_cli("dev", "status", "--json").json

    assert shown["running"]
    assert shown["network"]["controller"] == stack.network.controller


def test_fund_moves_money_from_the_wallet_into_escrow(run_cli: Callable[..., Any]) -> None:
    before = run_cli("balance", "--json").json["funds"]
    assert run_cli("fund", "1.5").code == 0
    after = run_cli("balance", "--json").json["funds"]

    assert after["free"] - before["free"] == 1_500_000
    assert before["wallet"] - after["wallet"] == 1_500_000


@pytest.mark.parametrize("amount", ["0", "abc", "-1", "1.1234567", "99999999999"])
def test_fund_of_a_senseless_amount_ends_with_2_and_a_remedy(run_cli: Callable[..., Any], amount: str) -> None:
    ended = run_cli("fund", "--", amount)

    assert ended.code == 2
    assert "try: " in ended.err


def test_offers_lists_unequal_slices_of_one_device(run_cli: Callable[..., Any]) -> None:
    offers = run_cli("offers", "--json").json
    shown = run_cli("offers").out

    assert len({view["device"]["device"] for view in offers}) == 1
    assert len({view["signed"]["offer"]["share"] for view in offers}) == len(offers) == 2
    assert "tUSD/h" in shown


def test_run_then_logs_receipt_and_verify_agree(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("hello\n")
    script = 'cat "${MILLPOND_IN:-/in}/given"; echo $COLOUR > "${MILLPOND_OUT:-/out}/made"; echo later; echo oops >&2'
    ended = run_cli(
        *("run", "--file", f"given={tmp_path / 'in.txt'}", "--out", str(tmp_path / "out"), "--env", "COLOUR=blue"),
        *("--", "sh", "-c", script),
    )
    names = dict(line.split()[:2] for line in ended.err.splitlines() if line.startswith(("lease", "job", "task")))

    assert (ended.code, ended.out) == (0, "hello\nlater\n")
    assert "oops\n" in ended.err
    assert (tmp_path / "out" / "made").read_text() == "blue\n"
    assert run_cli("logs", names["job"]).out == "hello\nlater\n"
    closed = [view["lease"] for view in run_cli("lease", "ls", "--all", "--json").json if view["state"] == "closed"]
    assert names["lease"] in closed
    _check_receipt(run_cli, names["task"], tmp_path / "receipt.json")


def _check_receipt(run_cli: Callable[..., Any], task: str, file: Path) -> None:
    bundle = _get_receipt(run_cli, task)
    file.write_text(bundle)
    assert run_cli("receipt", "verify", str(file)).out.startswith("valid")
    document = json.loads(bundle)
    document["signed"]["receipt"]["endedAt"] = str(int(document["signed"]["receipt"]["endedAt"]) + 1)
    file.write_text(json.dumps(document))
    changed = run_cli("receipt", "verify", str(file), "--json")
    assert changed.code != 0
    assert changed.json["error"] in ("SignatureError", "MerkleError", ReceiptError.__name__)


def _get_receipt(run_cli: Callable[..., Any], task: str) -> str:
    """A receipt can be fetched once its batch is on chain, seconds after the job."""
    deadline = time.monotonic() + 30
    while (ended := run_cli("receipt", "get", task)).code and time.monotonic() < deadline:
        time.sleep(0.5)
    assert ended.code == 0, ended.err
    return str(ended.out)


def test_run_in_json_is_one_document_with_log_and_settlement(run_cli: Callable[..., Any]) -> None:
    ended = run_cli("run", "--json", "--", "sh", "-c", "echo said; exit 3")
    document = ended.out[: ended.out.rindex("\n{\n") + 1] if "\n{\n" in ended.out else ended.out

    shown, end = json.JSONDecoder().raw_decode(document)
    assert ended.code == 8
    assert shown["log"] == "said\n"
    money = shown["settlement"]
    assert money["paid"] + money["fee"] + money["burnt"] + money["refunded"] == money["earmark"]
    assert end > 0


def test_run_interrupted_closes_its_lease(run_cli: Callable[..., Any], stack: Any) -> None:
    before = {view["lease"] for view in run_cli("lease", "ls", "--all", "--json").json}
    child = _start_run(stack.home)
    _wait_for_line(child, "started")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)

    assert child.returncode == 130
    state = "serving"
    for _ in range(NODE_SEES_S):  # an interrupted command closes on chain and does not wait for the node
        after = run_cli("lease", "ls", "--all", "--json").json
        [state] = [view["state"] for view in after if view["lease"] not in before]
        if state != "serving":
            break
        time.sleep(1)
    assert state in ("closing", "closed")


def test_run_killed_leaves_a_lease_that_lease_close_pays_and_closes(run_cli: Callable[..., Any], stack: Any) -> None:
    child = _start_run(stack.home)
    _wait_for_line(child, "started")
    child.kill()
    child.communicate(timeout=60)
    [lease] = [view["lease"] for view in run_cli("lease", "ls", "--json").json if view["state"] == "serving"]

    ended = run_cli("lease", "close", lease, "--json")

    assert ended.code == 0
    assert ended.json["is_settled"]
    assert ended.json["paid"] > 0
    assert not [v for v in run_cli("lease", "ls", "--json").json if v["lease"] == lease and v["state"] == "serving"]


def test_run_that_waits_says_why_and_runs_once_there_is_room(run_cli: Callable[..., Any], stack: Any) -> None:
    with millpond.Client(home=stack.home) as client, client.rent(millpond.Vgpu(share=600)):
        child = _start_run(stack.home, "true", vgpu="600")
        assert child.stderr is not None
        said = next(line for line in child.stderr if "millpond why" in line)
        request = said.split("millpond why ")[1].split()[0]
        shown = run_cli("why", request, "--json").json
    child.communicate(timeout=60)

    assert child.returncode == 0
    assert shown["state"] == "queued"
    assert sum(item["removed"] for item in shown["filters"]) + shown["fitting"] == shown["considered"] == 2


def _start_run(home: Path, script: str = "echo started; sleep 100", vgpu: str = "250") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millpond", "run", "--vgpu", vgpu, "--", "sh", "-c", script],
        env={**os.environ, "MILLPOND_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _wait_for_line(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == line + "\n"


def test_withdraw_gives_notice_and_pays_once_it_has_passed(run_cli: Callable[..., Any]) -> None:
    shown = run_cli("withdraw", "2", "--json").json

    assert shown["paid"] == 0
    assert shown["noticed"] == 2_000_000
    assert shown["ready_at"] > time.time() + 600
    assert "run the same command again in" in run_cli("withdraw").out


def test_up_a_second_time_in_one_home_is_refused(run_cli: Callable[..., Any]) -> None:
    ended = run_cli("dev", "up", "--detach")

    assert ended.code == 3
    assert "millpond dev down" in ended.err
