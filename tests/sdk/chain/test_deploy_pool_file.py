"""pool.yaml: what it may say, and how it complains."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.chain.deploy.errors import PoolFileError
from millpond.chain.deploy.pool_file import label_of, load_pool_file
from millpond.protocol.hashing import keccak256

OWNER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
TOKEN = "0x4AA241bA54f29cAe43b277242e5152cBD703A652"
NODE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
DEAD = "0x000000000000000000000000000000000000dEaD"
LEAST = f"owner: {OWNER}\nlabel: berlin\ntoken: {TOKEN}\nnode: {NODE}\nslasher: {DEAD}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "pool.yaml"
    path.write_text(text)
    return path


def test_least_file_takes_the_development_pool_s_rules(tmp_path: Path) -> None:
    goal = load_pool_file(write(tmp_path, LEAST)).goal(6, tmp_path)
    assert (goal.owner, goal.node, goal.params.treasury) == (OWNER, NODE, OWNER)
    assert (goal.params.feePpm, goal.params.burnPpm, goal.params.minProvision) == (25_000, 5_000, 0)
    assert (goal.digest, goal.uri) == (None, "")
    assert goal.label == "0x" + keccak256(b"berlin").hex()


def test_every_key_reaches_the_contract_s_parameters(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text("{}")
    text = LEAST + (
        f"treasury: {NODE}\nfee: 2.5%\nburn: 0%\n"
        "windows: {claim: 2d, dispute: 72h, longest_lease: 7d, thaw: 30d, grace: 5m, deposit: 90}\n"
        "entry: {least_stake: 12.5, exposure: 150%, slash_cap: 0.0001%}\n"
        "metadata: {uri: 'ipfs://x', file: about.json}\n"
    )
    goal = load_pool_file(write(tmp_path, text)).goal(6, tmp_path)
    params = goal.params
    assert (params.treasury, params.feePpm, params.burnPpm) == (NODE, 25_000, 0)
    assert (params.claimWindow, params.disputeWindow, params.maxDuration) == (172_800, 259_200, 604_800)
    assert (params.thawPeriod, params.grace, params.depositSeconds) == (2_592_000, 300, 90)
    assert (params.minProvision, params.exposurePpm, params.slashCapPpm) == (12_500_000, 1_500_000, 1)
    assert (goal.digest, goal.uri) == ("0x" + keccak256(b"{}").hex(), "ipfs://x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no mapping"),
        ("- a\n- b\n", "no mapping"),
        ("a: [", "no YAML"),
        ("a: b: c", "no YAML"),
        ("\x00", "no YAML"),
        (LEAST.replace("node:", "nodes:"), "node: is missing; nodes: is no key of a pool file"),
        (LEAST.replace(OWNER, "0x12"), "owner: "),
        (LEAST.replace(OWNER, OWNER[:-1] + "7"), "owner: "),
        (LEAST.replace(OWNER, "[1]"), "owner: must be a single value"),
        (LEAST + f"owner: {NODE}\n", "the key 'owner' stands twice"),
        (LEAST.replace("berlin", "&a berlin") + "fee: *a\n", "aliases"),
        (LEAST + "fee: 0.025\n", "fee: cannot read '0.025'; write it as 2.5%"),
        (LEAST + "fee: 25.1%\n", "fee: is 251000, and must be from 0 to 250000"),
        (LEAST + "fee: -1%\n", "fee: cannot read"),
        (LEAST + "windows: {claim: 1h}\n", "windows.claim: is 3600, and must be from 86400"),
        (LEAST + "windows: {claim: soon}\n", "windows.claim: cannot read 'soon'"),
        (LEAST + "entry: {stake: 1}\n", "entry.stake: is no key"),
        (LEAST.replace("berlin", "''"), "label: "),
        (LEAST + "x: " + "[" * 5000, "no YAML"),
        (LEAST + "# " + "x" * (64 << 10), "more than 65536 bytes"),
    ],
)
def test_wrong_file_is_refused_by_the_key_that_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(PoolFileError) as caught:
        load_pool_file(write(tmp_path, text))
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("entry: {least_stake: 0.0000001}\n", "entry.least_stake: "),
        ("entry: {least_stake: lots}\n", "entry.least_stake: "),
        ("entry: {least_stake: 99999999999999999999999999}\n", "beyond any stake"),
        ("metadata: {uri: x}\n", "one of `file` and `digest`"),
        ("metadata: {uri: x, file: none.json}\n", "cannot be read"),
    ],
)
def test_wrong_value_that_needs_the_chain_or_a_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = load_pool_file(write(tmp_path, LEAST + text))
    with pytest.raises(PoolFileError) as caught:
        file.goal(6, tmp_path)
    assert complaint in caught.value.message


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PoolFileError, match="cannot be read"):
        load_pool_file(tmp_path / "none.yaml")


def test_label_of_32_bytes_is_taken_as_it_stands() -> None:
    assert label_of("0x" + "ab" * 32) == "0x" + "ab" * 32
