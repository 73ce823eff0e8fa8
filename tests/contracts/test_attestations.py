"""Posting Merkle roots of receipts and proving receipts from them."""

from typing import Any

import brownie
import pytest
from eth_utils.crypto import keccak
from system import DAY, EMPTY, System, digest_of, refuses, struct_hash

CEILING = 70_000


def receipt(number: int) -> dict[str, Any]:
    word = "0x" + keccak(number.to_bytes(32, "big")).hex()
    return {
        "lease": word,
        "task": word,
        "attempt": 1,
        "device": word,
        "image": word,
        "input": word,
        "output": EMPTY,
        "resultHash": word,
        "startedAt": 1_800_000_000 + number,
        "endedAt": 1_800_000_060 + number,
        "mode": 0,
        "status": number % 5,
    }


def rows(count: int) -> list[list[bytes]]:
    """Every level of the tree over `count` receipts."""
    leaves = [keccak(b"\0" + bytes.fromhex(struct_hash("Receipt", receipt(i))[2:])) for i in range(count)]
    levels = [leaves]
    while len(row := levels[-1]) > 1:
        pairs = [keccak(b"\1" + row[i] + row[i + 1]) for i in range(0, len(row) - 1, 2)]
        levels.append(pairs + row[len(pairs) * 2 :])
    return levels


def proof(levels: list[list[bytes]], index: int) -> list[bytes]:
    siblings = []
    for row in levels[:-1]:
        siblings += row[index ^ 1 : (index ^ 1) + 1]
        index //= 2
    return siblings


@pytest.mark.parametrize("count", [1, 24, 10_000])
def test_postReceipts_batchOfAnySize_costsTheSame(system: System, count: int) -> None:
    root = "0x" + "11" * 32
    tx = system.attestations.postReceipts(system.pool, root, count, "0x" + "22" * 32, {"from": system.node})
    posted = brownie.chain[tx.block_number]["timestamp"]
    assert tx.gas_used <= CEILING
    assert dict(tx.events["ReceiptsPosted"]) == {
        "pool": system.pool.address,
        "poster": system.node,
        "root": root,
        "count": count,
        "dataHash": "0x" + "22" * 32,
        "challengeableUntil": posted + 7 * DAY,
    }
    assert system.attestations.batchOf(system.pool, system.node, root).dict() == {
        "postedAt": posted,
        "challengeableUntil": posted + 7 * DAY,
        "count": count,
    }


def test_postReceipts_twice_reverts(system: System) -> None:
    root = "0x" + "11" * 32
    system.attestations.postReceipts(system.pool, root, 1, EMPTY, {"from": system.node})
    with refuses("AttestationsPosted", root):
        system.attestations.postReceipts(system.pool, root, 1, EMPTY, {"from": system.node})


def test_postReceipts_empty_reverts(system: System) -> None:
    with refuses("AttestationsEmpty"):
        system.attestations.postReceipts(system.pool, EMPTY, 1, EMPTY, {"from": system.node})


@pytest.mark.parametrize("count", [1, 5, 8])
def test_isAttested_treesMadeElsewhere_provesEachReceiptAtItsPlace(system: System, count: int) -> None:
    levels = rows(count)
    system.attestations.postReceipts(system.pool, levels[-1][0], count, EMPTY, {"from": system.node})

    def is_attested(number: int, index: int) -> bool:
        place = (system.pool, system.node, levels[-1][0])
        return bool(
            system.attestations.isAttested(*place, tuple(receipt(number).values()), index, proof(levels, index))
        )

    assert all(is_attested(i, i) for i in range(count))
    assert not is_attested(count, 0)
    assert not any(is_attested(i, (i + 1) % count) for i in range(count) if count > 1)


def test_C28_receiptDigest_any_equalsEthAccount(system: System) -> None:
    for number in range(3):
        expected = digest_of("Receipt", receipt(number), system.attestations.address)
        assert system.attestations.receiptDigest(tuple(receipt(number).values())) == expected


def test_challengeWindow_deployed_isSevenDays(system: System) -> None:
    assert system.attestations.challengeWindow() == 7 * DAY
