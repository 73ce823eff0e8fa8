"""Which of several RPC servers to ask and whom to believe. Pure: states, answers and the time in, decisions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

BUSY_CODES = frozenset({-32005, -32016, 429})
LACKS = ("header not found", "unknown block", "missing trie node", "block not found", "rate limit", "too many requests")


@dataclass(frozen=True, slots=True)
class RpcPolicy:
    """Times in seconds, heights in blocks.

    A server that failed rests `rest_s`, twice as long after each further failure, up to `longest_rest_s`. One `lag_blocks` behind or
    `lead_blocks` ahead of the others is not asked for heads. Nobody at the height already read: wait `catch_up_s`; after
    `rollback_after_s` of that the chain itself went back.
    """

    rest_s: float = 1.0
    longest_rest_s: float = 60.0
    lag_blocks: int = 3
    lead_blocks: int = 64
    probe_s: float = 10.0
    probe_timeout_s: float = 2.0
    send_s: float = 3.0
    catch_up_s: float = 3.0
    rollback_after_s: float = 60.0
    slow_ratio: float = 4.0
    slow_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one server. `head` -1: never told; `latency_s` is a moving mean."""

    url: str
    failures: int = 0
    rests_until: float = float("-inf")
    latency_s: float = 0.0
    head: int = -1
    reason: str = ""

    def is_resting(self, now: float) -> bool:
        return now < self.rests_until


@dataclass(frozen=True, slots=True)
class Floor:
    """The newest block ever read, and since when nobody has it (None: somebody does)."""

    number: int = -1
    missing_since: float | None = None


def quorum_of(count: int) -> int:
    """How many of `count` servers are a majority."""
    return count // 2 + 1


def answered(health: Health, head: int, latency_s: float) -> Health:
    mean = latency_s if health.head < 0 else 0.8 * health.latency_s + 0.2 * latency_s
    return replace(health, failures=0, rests_until=float("-inf"), latency_s=mean, head=head, reason="")


def failed(health: Health, reason: str, now: float, policy: RpcPolicy) -> Health:
    """It rests; longer after each failure in a row."""
    rest = min(policy.rest_s * 2 ** min(health.failures, 30), policy.longest_rest_s)
    return replace(health, failures=health.failures + 1, rests_until=now + rest, reason=reason)


def reference_head(healths: Sequence[Health]) -> int:
    """The height to measure servers by: the second highest of three or more, so that no single one sets it; else the highest."""
    heads = sorted((health.head for health in healths if health.head >= 0), reverse=True)
    if not heads:
        return -1
    return heads[1] if len(heads) > 2 else heads[0]


def is_off(health: Health, reference: int, policy: RpcPolicy) -> bool:
    """Whether a server is too far behind or ahead of the others to be asked."""
    if health.head < 0 or reference < 0:
        return False
    return not reference - policy.lag_blocks <= health.head <= reference + policy.lead_blocks


def order(healths: Sequence[Health], current: int, now: float, policy: RpcPolicy) -> list[int]:
    """Whom to ask, first choice first: the one asked before while it is well and not slow, then by speed; the resting last."""
    reference = reference_head(healths)
    fastest = min(
        (health.latency_s for health in healths if health.head >= 0 and not health.is_resting(now)), default=0.0
    )
    too_slow = fastest * policy.slow_ratio + policy.slow_s

    def rank(index: int) -> tuple[bool, bool, float, float, int]:
        health = healths[index]
        is_kept = index == current and health.latency_s <= too_slow
        is_resting = health.is_resting(now)
        return (
            is_resting,
            is_off(health, reference, policy),
            health.rests_until if is_resting else 0.0,
            -1.0 if is_kept else health.latency_s,
            index,
        )

    return sorted(range(len(healths)), key=rank)


def raised(floor: Floor, head: int) -> Floor:
    """After a block was read: nothing older counts from now on."""
    return Floor(max(floor.number, head))


def is_gone(floor: Floor, now: float, policy: RpcPolicy, is_development: bool) -> bool:
    """Whether blocks that nobody has any more were lost by the chain itself. A development chain may lose its last blocks at any time."""
    if is_development:
        return True
    return floor.missing_since is not None and now - floor.missing_since >= policy.rollback_after_s


def missed(floor: Floor, now: float) -> Floor:
    return floor if floor.missing_since is not None else replace(floor, missing_since=now)


def is_servers_fault(code: object, message: str) -> bool:
    """Whether another server may do better with the same call: it is busy, or lacks the block."""
    text = message.lower()
    return code in BUSY_CODES or any(part in text for part in LACKS)


def block_to_agree_on(heads: Sequence[int], quorum: int) -> int | None:
    """The highest block that `quorum` of the servers have by their own word; None when fewer answered."""
    return sorted(heads, reverse=True)[quorum - 1] if len(heads) >= quorum else None


def elected(votes: Mapping[int, Hashable], quorum: int) -> Hashable | None:
    """What at least `quorum` say; None when nothing has so many votes."""
    [(winner, count)] = Counter(votes.values()).most_common(1) or [(None, 0)]
    return winner if count >= quorum else None
