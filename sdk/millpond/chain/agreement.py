"""Reads that move money: what a majority of the RPC servers says of one block. A single server is believed, and that is told once.

Whether a lease is open, what it owes and whether a transaction is mined decide what is signed and served. One server that lies, or
follows another fork, must not decide that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.chain import rpc_rules as rules
from millpond.chain.errors import RpcBehindError, RpcDisagreementError, RpcQuorumError, RpcResponseError
from millpond.chain.eth import Eth, Header, parse_header, parse_logs, parse_receipt
from millpond.chain.rpc import Rpc, RpcCall, hex_bytes
from millpond.protocol.errors import ChainError
from millpond.protocol.ids import Bytes32

TIP_BLOCKS = 4
"""How far below the newest common block servers may agree first: their newest blocks differ for a moment at every small fork."""
TRIES = 3
TRY_AGAIN_S = 0.3

log = logging.getLogger("millpond.chain")
_told: set[str] = set()


@dataclass(frozen=True, slots=True)
class Agreed:
    """Answers that a majority gave on the chain that ends with `header`."""

    header: Header
    answers: list[Any]


async def agreed(eth: Eth, calls: Callable[[Header], Sequence[RpcCall]]) -> Agreed:
    """A block and the answers to `calls` of it, tried again while the chain moves under the questions.

    Raises `RpcQuorumError` (too few answer), `RpcDisagreementError` (they contradict each other), and the errors of `Rpc`.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            header = await agreed_header(eth)
            return Agreed(header, await agreed_batch(eth, header, calls(header)))
        except (RpcDisagreementError, RpcQuorumError, RpcBehindError):
            if not tries_left:
                raise
            await asyncio.sleep(TRY_AGAIN_S)
            eth.rpc.wake()
    raise AssertionError("unreachable")


async def agreed_header(eth: Eth) -> Header:
    """The newest block that a majority has and names alike; of a single server its latest. Raises as `agreed` does."""
    rpc = eth.rpc
    if not rpc.is_many:
        return await _only_header(eth)
    quorum = rules.quorum_of(len(rpc.urls))
    latest = await rpc.ask_all([("eth_getBlockByNumber", ("latest", False))], quorum)
    heads = [header.number for header in map(_header, latest.values()) if header is not None]
    newest = rules.block_to_agree_on(heads, quorum)
    if newest is None:
        raise _too_few(rpc, len(heads), quorum)
    votes: Mapping[int, Hashable] = {}
    for number in range(newest, max(-1, newest - TIP_BLOCKS), -1):
        answers = await rpc.ask_all([("eth_getBlockByNumber", (hex(number), False))], quorum)
        headers = {i: header for i, answer in answers.items() if (header := _header(answer)) is not None}
        votes = {i: header.hash for i, header in headers.items() if header.number == number}
        winner = rules.elected(votes, quorum)
        if winner is not None:
            _distrust(rpc, votes, winner, f"block {number}")
            rpc.admit(number)
            return next(header for header in headers.values() if header.hash == winner)
    if len(votes) < quorum:
        raise _too_few(rpc, len(votes), quorum)
    raise _disagreement(rpc, f"the hash of block {newest - TIP_BLOCKS + 1}", votes, newest)


async def agreed_batch(eth: Eth, header: Header, calls: Sequence[RpcCall]) -> list[Any]:
    """The majority's answers to `calls`, from servers that have `header`; the majority's error is raised. Raises as `agreed` does."""
    rpc = eth.rpc
    if not rpc.is_many:
        return await rpc.batch(calls)
    if not calls:
        return []
    quorum = rules.quorum_of(len(rpc.urls))
    place: RpcCall = ("eth_getBlockByNumber", (hex(header.number), False))
    found = await rpc.ask_all([*calls, place], quorum)
    same = {i: answers[:-1] for i, answers in found.items() if _hash(answers[-1]) == header.hash}
    if len(found) < quorum:
        raise _too_few(rpc, len(found), quorum)
    if len(same) < quorum:
        hashes: dict[int, Hashable] = {i: _hash(answers[-1]) for i, answers in found.items()}
        raise _disagreement(rpc, f"the hash of block {header.number}", hashes, header.number)
    return [_verdict(rpc, same, place, method, header, quorum) for place, (method, _) in enumerate(calls)]


async def agreed_call(eth: Eth, header: Header, calls: Sequence[RpcCall]) -> list[bytes]:
    """`agreed_batch` of `eth_call`s, as bytes."""
    answers = await agreed_batch(eth, header, calls)
    if not all(isinstance(answer, str) for answer in answers):
        raise RpcResponseError("the RPC answered eth_call with no data", method="eth_call")
    return [hex_bytes(answer, "eth_call") for answer in answers]


async def _only_header(eth: Eth) -> Header:
    if eth.rpc.url not in _told:
        _told.add(eth.rpc.url)
        log.warning("only one RPC server is set, %s: what it says of leases and payments is believed", eth.rpc.url)
    header = await eth.header()
    if header is None:
        raise RpcResponseError("the RPC knows no latest block", method="eth_getBlockByNumber")
    return header


def _verdict(rpc: Rpc, same: Mapping[int, list[Any]], place: int, method: str, header: Header, quorum: int) -> Any:
    votes = {i: _essence(method, answers[place], header.number) for i, answers in same.items()}
    winner = rules.elected(votes, quorum)
    if winner is None:
        raise _disagreement(rpc, method, votes, header.number)
    _distrust(rpc, votes, winner, method)
    answer = next(answers[place] for i, answers in same.items() if votes[i] == winner)
    if isinstance(answer, RpcResponseError):
        raise answer
    return None if winner == _NOTHING else answer


_NOTHING = "nothing"


def _essence(method: str, answer: Any, last: int) -> Hashable:
    """What servers must say alike. A receipt of a later block than `last` is none yet: not all have that block."""
    if isinstance(answer, RpcResponseError):
        return "error", str(answer.fields.get("data") or answer.fields.get("code"))
    try:
        match method:
            case "eth_getBlockByNumber":
                header = parse_header(answer)
                return header.hash if header is not None else _NOTHING
            case "eth_getTransactionReceipt":
                receipt = parse_receipt(answer)
                return receipt if receipt is not None and receipt.block_number <= last else _NOTHING
            case "eth_getLogs":
                return tuple(parse_logs(answer))
    except (ChainError, TypeError) as error:
        return "malformed", str(error)
    return repr(answer).lower()


def _header(answers: Sequence[Any]) -> Header | None:
    try:
        return None if isinstance(answers[0], RpcResponseError) else parse_header(answers[0])
    except RpcResponseError:
        return None


def _hash(answer: Any) -> Bytes32 | None:
    header = _header([answer])
    return header.hash if header is not None else None


def _distrust(rpc: Rpc, votes: Mapping[int, Hashable], winner: Hashable, what: str) -> None:
    for index, vote in votes.items():
        if vote not in (winner, _NOTHING):
            rpc.distrust(index, f"it contradicts the majority on {what}")


def _too_few(rpc: Rpc, count: int, quorum: int) -> RpcQuorumError:
    reasons = "; ".join(f"{health.url}: {health.reason}" for health in rpc.healths if health.reason)
    return RpcQuorumError(
        f"{count} of {len(rpc.urls)} RPC servers answer, {quorum} must agree" + (f" ({reasons})" if reasons else ""),
        answered=count,
        needed=quorum,
    )


def _disagreement(rpc: Rpc, what: str, votes: Mapping[int, Hashable], block: int) -> RpcDisagreementError:
    answers = {rpc.urls[index]: str(vote)[:80] for index, vote in votes.items()}
    return RpcDisagreementError(f"the RPC servers contradict each other on {what}", block=block, answers=answers)
